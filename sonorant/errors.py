"""Exceptions with messages for users, and the command that installs what is missing."""

import errno
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REMEDIES = {
    FULL: "free some space and repeat the command; finished work is kept",
    (errno.EACCES, errno.EPERM, errno.EROFS): "change its permissions, or choose another folder",
    (errno.ENAMETOOLONG,): "use a shorter name",
}


class SonorantError(Exception):
    """Bad input, settings or environment. The one-line message names the file, row or key, and what to do."""

    def __str__(self) -> str:
        """Return the message with control characters as escapes, because a terminal would obey them."""
        return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in super().__str__())


class Stopped(SonorantError):
    """Work was stopped on request and can be resumed. The message describes how."""


@contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Turn a missing package into a SonorantError with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise SonorantError(f"{what} requires {error.name}; run: {install(extra)}") from None


def install(extra: str) -> str:
    """Return the command that installs an extra of pyproject.toml from this clone, or from where the wheel came.

    Reports contain it, so it names no folder of this machine but those above the current one.
    """
    clone = os.path.relpath(Path(__file__).parents[1])
    if Path(clone, "pyproject.toml").is_file():
        outside = set(Path(clone).parts) - {".."}
        here, where = (".", ", in the clone of Sonorant") if outside else (clone, "")
        return f"pip install -c {here}/requirements.lock -e '{here}[{extra}]'{where}"
    from importlib import metadata

    try:
        origin = json.loads(metadata.distribution("sonorant").read_text("direct_url.json") or "{}").get("url", "")
    except metadata.PackageNotFoundError:
        origin = ""
    if origin.startswith("file:"):
        return f"pip install './{Path(origin).name}[{extra}]', in the folder of that file"
    source = f" @ {origin}" if origin else ""  # none if the wheel came from an index
    return f"pip install 'sonorant[{extra}]{source}'"


@contextmanager
def file_errors() -> Iterator[None]:
    """Turn errors of the file system and of SQLite's files into a SonorantError."""
    try:
        yield
    except sqlite3.OperationalError as error:  # has neither errno nor file name
        if not re.search("full|readonly|open|disk", str(error)):
            raise
        raise SonorantError(f"a database of {Path.cwd()}: {error}; check its permissions and the free space") from None
    except OSError as error:
        if "temporary directory" in str(error.strerror):
            raise SonorantError(f"{error.strerror}; set TMPDIR to a folder that can be written") from None
        if isinstance(error, BrokenPipeError) or not (error.filename or error.errno in FULL):
            raise
        remedy = next((remedy for numbers, remedy in _REMEDIES.items() if error.errno in numbers), "check the path")
        raise SonorantError(f"{error.filename or Path.cwd()}: {error.strerror}; {remedy}") from None
