"""Atomic writes, locks, and parsing with errors that name file and key."""

from __future__ import annotations

import dataclasses
import difflib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from sonorant.checked import DoubtError, built
from sonorant.errors import FULL, SonorantError, file_errors

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

Value = TypeVar("Value")


UNSUPPORTED = (errno.EBADF, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def flush_to_disk(path: Path) -> None:
    """fsync a file or a folder. A rename survives a power failure only if the folder is flushed too; CIFS and some
    others cannot."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in UNSUPPORTED or not path.is_dir():
            raise
        _say_unflushed(os.fstat(descriptor).st_dev, path)
    finally:
        os.close(descriptor)


_unflushed: set[int] = set()
"""File systems, by device, that cannot flush a folder."""


def _say_unflushed(device: int, folder: Path) -> None:
    if device not in _unflushed:
        _unflushed.add(device)
        said = "its file system cannot flush folders; a power failure may lose the last files written here"
        print(f"warning: {folder}: {said}", file=sys.stderr, flush=True)


_MANY = 100
"""Number of files from which one `syncfs` is faster than an fsync of each file."""
_unfinished: set[Path] = set()
"""Temporary folders of `atomic_folder` in this process."""


def flush_tree(folder: Path) -> None:
    many = next(islice(_below(folder), _MANY, None), None) is not None
    if many and _flush_file_system(folder):
        return
    for path in chain(_below(folder), [folder]):
        if path.is_file() or path.is_dir():
            flush_to_disk(path)


def _below(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:  # no list, because a corpus has millions of files
        for entry in entries:
            yield Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield from _below(Path(entry.path))


def _flush_file_system(folder: Path) -> bool:
    """Flush the file system of `folder`. Return False if `syncfs` is not available."""
    import ctypes

    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        return False
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        number = ctypes.get_errno() if syncfs(descriptor) else 0
    finally:
        os.close(descriptor)
    if number and number not in UNSUPPORTED:
        raise OSError(number, os.strerror(number), str(folder))
    return not number


def check_name(path: Path, endings: Iterable[str]) -> None:
    """Raise SonorantError if a file to write is a folder or its name ends in none of `endings`."""
    if path.suffix.lower() not in endings:
        raise SonorantError(f"{path}: unknown format; use a name that ends in {', '.join(filter(None, endings))}")
    if path.is_dir():
        raise SonorantError(f"{path}: is a folder; give the name of a file")


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield an unused name next to `path`, unique among machines that share the folder. Errors about it name `path`."""
    ending = f".{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(4)}.tmp"
    kept = os.fsencode(path.name)[: 254 - len(os.fsencode(ending))].decode(errors="ignore")  # a name has 255 bytes
    temporary = path.with_name(f".{kept}{ending}")
    try:
        path.exists()  # raises if the name is too long
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
    except OSError as error:
        if isinstance(error.filename, str):
            error.filename = error.filename.replace(str(temporary), str(path))
        elif error.errno in FULL:
            error.filename = str(path)
        raise


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; on success flush it and rename it to `path`, on error remove it.

    Within a folder of `atomic_folder`, the file is flushed with the folder.
    """
    with _replacing(path) as temporary:
        try:
            yield temporary
            alone = _unfinished.isdisjoint(path.resolve().parents)
            if alone:
                flush_to_disk(temporary)
            temporary.replace(path)
            if alone:
                flush_to_disk(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder next to `path`; on success it replaces `path`, on error it is removed."""
    with _replacing(path) as temporary:
        temporary.mkdir()
        unfinished = temporary.resolve()
        _unfinished.add(unfinished)
        try:
            yield temporary
            flush_tree(temporary)
            if path.exists():
                shutil.rmtree(path)
            temporary.replace(path)
            flush_to_disk(path.parent)
        finally:
            _unfinished.discard(unfinished)
            shutil.rmtree(temporary, ignore_errors=True)


def take(file: IO[str]) -> bool:
    """Lock an open file with flock until the process exits. Return False if another process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(path: Path, waiting: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold a lock on the file `path`, which is created if missing. `waiting` is called once if another process holds
    the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        if not take(file):
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:  # closing the file does not unlock it if a forked process has it open too
            fcntl.flock(file, fcntl.LOCK_UN)


def user_caches() -> Path:
    """Return Sonorant's folder in the user's cache (XDG_CACHE_HOME)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sonorant"


def user_cache(name: str, fill: Callable[[Path], None]) -> Path:
    """Return a folder of the user's cache. If missing, `fill` creates it atomically, in one process at a time. Raises
    SonorantError if the cache cannot be written."""
    caches = user_caches()
    with file_errors(), locked(caches / f"{name}.lock"):
        if not (caches / name).exists():
            with atomic_folder(caches / name) as folder:
                fill(folder)
    return caches / name


def write_text(path: Path, text: str) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON atomically. Raises ValueError for NaN and infinity, which JSON does not support."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Parse a JSON file. Raises SonorantError naming the file if it is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SonorantError(f"{path}: no such file; run the stage that writes it (dvc repro)") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise SonorantError(f"{path}: not valid JSON ({error}); delete it and run its stage again") from None


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object per line, atomically."""
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Parse one JSON object per line. Raises SonorantError naming file and line of an error."""
    return list(iterate_jsonl(path))


def iterate_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of `read_jsonl` line by line, for files larger than memory."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise SonorantError(f"{path}: no such file; run the stage that writes it (dvc repro)") from None
    with file:
        before = 0
        for number, line in enumerate(file, 1):  # in bytes, only a line feed ends a line
            try:
                text = line.decode("utf-8").removesuffix("\n")
                if text.strip():
                    yield json.loads(text)
            except UnicodeDecodeError as error:
                raise SonorantError(f"{path}: not UTF-8 (byte {before + error.start}); save it as UTF-8") from None
            except json.JSONDecodeError as error:
                raise SonorantError(f"{path}:{number}: not valid JSON ({error}); correct it") from None
            before += len(line)


def read_checked(path: Path, kind: type[Value], hint: str = "") -> Value:
    """Read a JSON file and build the dataclass `kind`; see `parse_checked`."""
    return parse_checked(read_json(path), kind, path, hint=hint)


def parse_checked(data: Any, kind: type[Value], file: Path, *, key: str = "", hint: str = "") -> Value:
    """Build the dataclass `kind` from decoded JSON or YAML, strictly: nothing is converted and unknown keys are errors.

    `file`, `key`: location for messages; `hint`: advice in messages. Raises SonorantError naming file and key, also for
    a ValueError from `__post_init__`.
    """
    text = json.dumps([data], default=str)
    with suppress(DoubtError):
        value: Value = built(kind, json.loads(text)[0])
        return value
    from pydantic import ValidationError

    try:
        # pydantic converts lists to tuples only when it reads JSON.
        return _checker(kind).validate_json(text)[0]  # type: ignore[arg-type]  # is hashable
    except ValidationError as error:
        problems = error.errors()
        lines = [_one_line(problem, key, kind) for problem in problems[:3]]
        more = [f"{len(problems) - 3} more"] if len(problems) > 3 else []
        raise SonorantError(f"{file}: " + "; ".join([*lines, *more, *([hint] if hint else [])])) from None


@lru_cache
def _checker(kind: type) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    # pydantic accepts a configuration only for a container.
    return TypeAdapter(tuple[kind], config=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))  # type: ignore[valid-type]


def _one_line(problem: ErrorDetails, prefix: str, kind: type) -> str:
    key = ".".join([*([prefix] if prefix else []), *(str(part) for part in problem["loc"][1:])])
    if problem["type"] == "unexpected_keyword_argument":
        known = [field.name for field in dataclasses.fields(kind)]
        hint = did_you_mean(key.rsplit(".", 1)[-1], known) if len(problem["loc"]) == 2 else ""
        return f"unknown key '{key}'{hint}"
    if problem["type"] == "missing":
        return f"key '{key}' is missing"
    if problem["type"] == "value_error":
        return f"{key}: {problem['ctx']['error']}" if key else str(problem["ctx"]["error"])
    return f"key '{key}': {problem['msg'][0].lower()}{problem['msg'][1:]}, not {repr(problem['input'])[:100]}"


def did_you_mean(word: str, known: list[str]) -> str:
    """Return a suffix for a message about an unknown word: the closest known word, or all known words."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else f"; allowed: {', '.join(known)}"


def files_below(folder: Path) -> list[Path]:
    """Return the files at any depth, sorted. Raises SonorantError naming a folder that cannot be read."""

    def refuse(error: OSError) -> None:
        raise SonorantError(
            f"{error.filename}: cannot be read ({error.strerror}); check its permissions, and the disk or network share"
        )

    return sorted(Path(below, name) for below, _, names in os.walk(folder, onerror=refuse) for name in names)


def sha256_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_tree(paths: Iterable[Path]) -> str:
    """Return the hexadecimal SHA-256 of the relative names and bytes of all files below `paths`, except Python's
    caches."""
    digest = hashlib.sha256()
    for root in sorted(paths):
        files = [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())
        for file in files:
            if "__pycache__" not in file.relative_to(root).parts:
                digest.update(f"{file.relative_to(root.parent)}\0{sha256_file(file)}\n".encode())
    return digest.hexdigest()
