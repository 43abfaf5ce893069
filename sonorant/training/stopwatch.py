"""Where a step's time goes. Knows nothing of what is timed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

REST = "rest"
"""Where no phase is named."""


class Stopwatch:
    """Sums the wall time of named phases since it was last read."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._since = time.perf_counter()
        self.current = REST, time.monotonic()
        """The phase this process is in and since when; one value, so that a watching thread never reads half of it."""

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Time the body under `phase`."""
        start = time.perf_counter()
        outer, _ = self.current
        self.current = phase, time.monotonic()
        try:
            yield
        finally:
            self.current = outer, time.monotonic()
            self._seconds[phase] += time.perf_counter() - start

    def read(self) -> tuple[float, dict[str, float]]:
        """Wall seconds since the last reading and each phase's share of them; starts anew."""
        now = time.perf_counter()
        wall = max(now - self._since, 1e-9)
        shares = {phase: seconds / wall for phase, seconds in self._seconds.items()}
        self._seconds.clear()
        self._since = now
        return wall, shares
