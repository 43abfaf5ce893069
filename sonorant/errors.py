"""Exceptions with messages for users."""

import errno
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


class Stopped(SonorantError):
    """Work was stopped on request and can be resumed. The message describes how."""


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
        if isinstance(error, BrokenPipeError) or not (error.filename or error.errno in FULL):
            raise
        remedy = next((remedy for numbers, remedy in _REMEDIES.items() if error.errno in numbers), "check the path")
        raise SonorantError(f"{error.filename or Path.cwd()}: {error.strerror}; {remedy}") from None
