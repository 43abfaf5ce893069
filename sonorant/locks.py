"""Locks between processes of one machine, by flock: they end with the process that holds them, however it ends."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def take(file: IO[str]) -> bool:
    """Lock an open file if nobody else has; whether it is locked now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(path: Path, waiting: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold the lock `path`, a file that is made where it is absent; `waiting` is called once if another has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        if not take(file):
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:  # not left to closing it: a process that was forked meanwhile has it open too
            fcntl.flock(file, fcntl.LOCK_UN)
