"""What DVC takes for a folder of many small files: hashed, pushed to an S3 store on this machine, and pulled.

Claims that what is pulled has the same bytes, that a push after one changed file sends that file and the folder's list
alone, and that to add the folder again with nothing changed takes at most half of the processor time of the first.
"""

import hashlib
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.report import command, finish, options
from infra.platform import buckets
from infra.platform.native import Platform
from infra.platform.services import CLIENT, filled
from tasks.stage import run

SHORT = {"files": [300]}
BYTES = 3000
AGAIN = 0.5
"""Share of the first add's processor time that the next may take."""


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[13_000, 100_000], help="sizes of folders")
    arguments = options(parser, SHORT)
    with tempfile.TemporaryDirectory() as scratch:
        results, claims = {}, {}
        environment, platform = started(Path(scratch) / "platform")
        try:
            for count in arguments.files:
                found = measure(Path(scratch) / str(count), count, environment)
                results[str(count)] = {name: found[name] for name in found if name != "claims"}
                claims |= {f"{count} files: {claim}": held for claim, held in found["claims"].items()}
        finally:
            platform.stop()
    finish("dvc_folders", {"bytes_a_file": BYTES, "files": results}, claims, arguments)


def started(folder: Path) -> tuple[dict[str, str], Platform]:
    """The S3 store of the platform with its buckets, alone, and a client's variables."""
    for name in ("POSTGRES", "S3", "MLFLOW", "PREFECT", "WORKER"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            os.environ[f"SONORANT_{name}_PORT"] = str(probe.getsockname()[1])
    platform = Platform(folder)
    platform.start(only=("s3",))
    words = platform.words()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    client = {name: filled(value, words) for name, value in CLIENT.items()}
    return {**os.environ, **client, "PATH": path, "DVC_NO_ANALYTICS": "1"}, platform


def measure(root: Path, count: int, environment: dict[str, str]) -> dict[str, Any]:
    """Seconds by the clock and of processor time for each command, and the claims."""
    data = make_project(root, count, environment)
    before = content(data)
    took = {"add": timed(root, environment, "add", "data")}
    took["push"] = timed(root, environment, "push")
    sent = objects(environment)
    took["add, nothing changed"] = timed(root, environment, "add", "data")
    took["push, nothing changed"] = timed(root, environment, "push")
    unchanged = objects(environment) - sent
    shutil.rmtree(data)
    shutil.rmtree(root / ".dvc" / "cache")
    took["pull"] = timed(root, environment, "pull")
    same = content(data) == before
    dvc(root, environment, "unprotect", "data")
    (data / "0000000.txt").write_bytes(b"changed")
    took["add, one file changed"] = timed(root, environment, "add", "data")
    took["push, one file changed"] = timed(root, environment, "push")
    changed = objects(environment) - sent - unchanged
    again = took["add, nothing changed"]["cpu_seconds"] / took["add"]["cpu_seconds"]
    return {
        **took,
        "claims": {
            "what is pulled has the same bytes": same,
            "a push with nothing changed sends nothing": unchanged == 0,
            "a push after one changed file sends that file and the list": changed == 2,
            f"to add again takes at most {AGAIN:g} of the first add's processor time": again <= AGAIN,
        },
    }


def make_project(root: Path, count: int, environment: dict[str, str]) -> Path:
    """A repository with DVC, its remote a bucket, and a folder of `count` files of random bytes; returns the folder."""
    data = root / "data"
    data.mkdir(parents=True)
    for number in range(count):
        (data / f"{number:07d}.txt").write_bytes(os.urandom(BYTES))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    dvc(root, environment, "init", "-q")
    dvc(root, environment, "remote", "add", "--default", "platform", "s3://dvc")
    dvc(root, environment, "remote", "modify", "platform", "endpointurl", environment["AWS_ENDPOINT_URL_S3"])
    return data


def timed(root: Path, environment: dict[str, str], *words: str) -> dict[str, float]:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    dvc(root, environment, *words)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(time.monotonic() - start, 1), "cpu_seconds": round(cpu, 1)}


def dvc(root: Path, environment: dict[str, str], *words: str) -> None:
    subprocess.run([sys.executable, "-m", "dvc", *words], cwd=root, env=environment, check=True, stdout=sys.stderr)


def objects(environment: dict[str, str]) -> int:
    """How many the bucket has."""
    return sum(1 for _ in buckets.objects(buckets.client(environment), "dvc"))


def content(folder: Path) -> str:
    """A hash of all names and bytes."""
    whole = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        whole.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


if __name__ == "__main__":
    run(main)
