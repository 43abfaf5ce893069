"""The points of a run directory's `metrics.jsonl`, read while another process writes it. Knows nothing of where they go."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Point:
    """One value of one curve."""

    key: str
    value: float
    """May be NaN or infinite: a diverged loss is worth seeing."""
    step: int
    time: float
    """Unix seconds."""


class Tail:
    """Reads whole new lines of a growing file, and starts over where the file was cut back and written anew.

    A trainer that resumes from a checkpoint may drop the lines after it. The last line read is compared before reading on, because
    the file's size alone cannot tell.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0
        self._last = b""

    def restart(self) -> None:
        """Read from the beginning next time."""
        self._position, self._last = 0, b""

    def read(self) -> list[Point]:
        """Return the points of all whole lines since the last call, without damaged ones (a writer was killed in them)."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._position - len(self._last))
                if file.read(len(self._last)) != self._last:
                    self.restart()
                    file.seek(0)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        lines = whole.splitlines(keepends=True)
        self._last = lines[-1] if lines else self._last
        return [point for line in lines for point in _points(line)]


def _points(line: bytes) -> list[Point]:
    try:
        row = json.loads(line)
        step, time = int(row["step"]), float(row["time"])
        return [Point(key=key, value=float(value), step=step, time=time) for key, value in row["metrics"].items()]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
