"""ONNX Runtime Web: the two files of the npm package onnxruntime-web that a speaking page embeds."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.features.store.proxy import check_proxy
from sonorant.files import user_cache

VERSION = "1.30.0"
FILES = {
    "ort.wasm.bundle.min.mjs": "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
    "ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}
"""SHA-256 of each file needed from the package's folder `dist`."""
INSTALL = (
    f"install npm, which downloads onnxruntime-web {VERSION}, or give the folder `dist` of that package with "
    "--browser-runtime FOLDER"
)


@dataclass(frozen=True)
class BrowserRuntime:
    script: bytes
    program: bytes


def browser_runtime(folder: Path | None = None) -> BrowserRuntime:
    """Load the files from `folder`; None means the user's cache, which npm fills on first use.

    Raises SonorantError if a file is missing or not from `VERSION`.
    """
    found = folder or user_cache(f"onnxruntime-web-{VERSION}", _fetch)
    contents = []
    for name, known in FILES.items():
        path = found / name
        try:
            content = path.read_bytes()
        except OSError:
            raise SonorantError(f"{path}: missing; {INSTALL}") from None
        if hashlib.sha256(content).hexdigest() != known:
            raise SonorantError(f"{path}: not the file of onnxruntime-web {VERSION}; {INSTALL}")
        contents.append(content)
    return BrowserRuntime(*contents)


def _fetch(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise SonorantError(f"a page that speaks needs ONNX Runtime for browsers: {INSTALL}")
    check_proxy()
    with tempfile.TemporaryDirectory(prefix="sonorant-npm-") as name:
        command = [npm, "pack", "--silent", f"onnxruntime-web@{VERSION}"]
        done = subprocess.run(command, cwd=name, capture_output=True, text=True, check=False)
        archives = list(Path(name).glob("*.tgz"))
        if done.returncode != 0 or len(archives) != 1:
            why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise SonorantError(
                f"npm could not download onnxruntime-web {VERSION} ({why}); check the network or give --browser-runtime"
            )
        with tarfile.open(archives[0]) as archive:
            for each in FILES:
                member = archive.extractfile(f"package/dist/{each}")
                assert member is not None
                (folder / each).write_bytes(member.read())
