"""Run a group of items on a cluster worker: check that the worker matches the caller, initialise it, apply the
function. A worker has one thread, and each call of `spread` starts with clean module state."""

import dataclasses
import hashlib
import os
import pickle
import platform
import socket
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import sonorant
from sonorant.errors import SonorantError
from sonorant.files import sha256_tree

PACKAGES = (
    "numpy", "scipy", "scikit-learn", "numba", "soundfile", "soxr", "av", "pyloudnorm", "silero-vad",
    "pyworld-prebuilt", "onnxruntime", "torch", "gruut", "phonemizer", "pocketsphinx", "faster-whisper", "onnx-asr",
    "speechmos", "resemblyzer", "dask", "distributed",
)  # fmt: skip
"""Packages whose versions affect results or communication."""
CODE = sha256_tree([Path(path) for path in sonorant.__path__])
"""Hash of the sonorant package at process start; `sonorant worker` imports this module first."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """One call of `spread`, as sent to workers."""

    call: str
    versions: dict[str, str]
    """Package versions of the caller."""
    folder: str
    """The caller's working directory."""
    files: dict[str, int]
    """Size in bytes of each file that the caller reads; workers must find the same sizes."""
    content: bytes
    """Pickled function, initialiser and initialiser's arguments."""

    @classmethod
    def of(
        cls,
        function: Callable[[Any], Any],
        prepare: Callable[..., None] | None,
        arguments: tuple[Any, ...],
        reads: Sequence[Path],
    ) -> "Work":
        return cls(
            call=uuid.uuid4().hex[:12],
            versions=versions(),
            folder=str(Path.cwd()),
            files={str(path.absolute()): path.stat().st_size for path in reads},
            content=pickle.dumps((function, prepare, arguments)),
        )


def versions() -> dict[str, str]:

    found = {"Python": ".".join(platform.python_version_tuple()[:2]), "sonorant": f"code {CODE[:12]}"}
    for name in PACKAGES:
        try:
            found[name] = version(name).partition("+")[0]  # builds for different devices count as equal
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


_CALLS = 4  # maximum number of calls in `_calls`
_calls: dict[str, tuple[Any, Any, Any]] = {}
"""Function, initialiser and initialiser's arguments of each recent call, by call id."""
_prepared: dict[str, str] = {}
"""Hash of the last arguments of each module's initialiser, which sets only that module's state."""


def run(work: dict[str, Any], content: bytes, items: bytes) -> tuple[float, bytes]:
    """Apply the function of `work` to pickled items. Return the seconds taken and the pickled results.

    Raises SonorantError naming this machine if it differs from the caller's, and any exception of the function.
    """
    function = _get_ready(work, content)
    begin = time.perf_counter()
    results = [function(item) for item in pickle.loads(items)]
    return time.perf_counter() - begin, pickle.dumps(results)


def _get_ready(work: dict[str, Any], content: bytes) -> Callable[[Any], Any]:
    call = work["call"]
    if call not in _calls:
        _check(Work(**work, content=content))
        _forget()
        if len(_calls) >= _CALLS:
            del _calls[next(iter(_calls))]
        _calls[call] = pickle.loads(content)
    os.chdir(work["folder"])
    function, prepare, arguments = _calls[call]
    if prepare:
        _prepare(prepare, arguments, work["folder"])
    return function


def _forget() -> None:
    """Clear the caches of sonorant's functions, because cached files may have changed."""
    _prepared.clear()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "sonorant":
            for value in list(vars(module).values()):
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()


def _prepare(prepare: Callable[..., None], arguments: tuple[Any, ...], folder: str) -> None:

    content = hashlib.sha256(pickle.dumps((prepare, arguments, folder))).hexdigest()
    if _prepared.get(prepare.__module__) != content:
        _prepared.pop(prepare.__module__, None)
        prepare(*arguments)
        _prepared[prepare.__module__] = content


def _check(work: Work) -> None:
    from distributed import get_worker

    host, own, threads = socket.gethostname(), versions(), get_worker().state.nthreads
    if threads != 1:
        raise SonorantError(
            f"worker on {host} has {threads} threads but must have exactly one; start it with: sonorant worker ADDRESS"
        )
    for name, theirs in work.versions.items():
        if own[name] != theirs:
            raise SonorantError(
                f"worker on {host}: {name} is {own[name]} there and {theirs} here; "
                "install the same commit and requirements.lock on both, and restart the worker"
            )
    shared = "all machines must have the same files under the same paths"
    if not Path(work.folder).is_dir():
        raise SonorantError(f"worker on {host}: the folder {work.folder} does not exist there; {shared}")
    for path, size in work.files.items():
        try:
            found = Path(path).stat().st_size
        except OSError as error:
            raise SonorantError(f"worker on {host}: cannot read {path} ({error.strerror}); {shared}") from None
        if found != size:
            raise SonorantError(f"worker on {host}: {path} has {found} bytes there and {size} here; {shared}")


def plain(work: Work) -> dict[str, Any]:
    """Return all fields except `content`, as values that any package version can unpickle."""
    return {field.name: getattr(work, field.name) for field in dataclasses.fields(work) if field.name != "content"}
