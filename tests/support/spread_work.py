"""Functions that tests spread over processes; workers import them from here."""

import os
import signal
import time
from pathlib import Path

from sonorant.errors import SonorantError

_prepared: list[str] = []
"""Arguments of every preparation of this process."""


def prepare(what: str) -> None:
    _prepared.append(what)


def prepared(_: int) -> tuple[int, list[str]]:
    """Process id, and arguments of all its preparations."""
    return os.getpid(), list(_prepared)


def nothing(number: int) -> int:
    """No work, to measure overhead."""
    return number


def parent(_: int) -> int:
    """Id of this process's parent."""
    return os.getppid()


def variable(name: str) -> str | None:
    """Value of this process's environment variable."""
    return os.environ.get(name)


def square(number: int) -> int:
    """Early numbers take longest, so results arrive out of order."""
    time.sleep(0.3 if number < 2 else 0.001)
    return number * number


def nap(number: int) -> int:
    time.sleep(0.3)
    return number


def refuse(number: int) -> int:
    """Raise SonorantError at item 3 and KeyError at item 103."""
    if number == 3:
        raise SonorantError("item 3: broken; repair it")
    if number == 103:
        raise KeyError("item 103")
    return number


def read(path: Path) -> str:
    return path.read_text()


def die_once(work: tuple[int, Path]) -> int:
    """Die at item 5 the first time, like an out-of-memory kill."""
    number, folder = work
    if number == 5 and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return number


def die_at_five(number: int) -> int:
    """Die at item 5."""
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return number


def sign(work: tuple[int, Path]) -> int:
    """Write the process id to a file, slowly."""
    number, folder = work
    (folder / f"{os.getpid()}.pid").touch()
    time.sleep(0.1)
    return number
