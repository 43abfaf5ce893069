"""Time per training phase, and the progress line."""

import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch

REST = "rest"
ON_DEVICE = ("transfer", "forward", "backward", "optimizer")
"""Phases timed by the GPU's clock, because they run asynchronously."""
QUIET_SECONDS = 60.0
"""Seconds between progress lines if not on a terminal."""


class Stopwatch:
    """Sums the time per phase since the last reading; a nested phase interrupts the outer one."""

    def __init__(self, device: torch.device | None = None) -> None:
        on_gpu = device is not None and device.type == "cuda"
        self._events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] | None = [] if on_gpu else None
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._since = self._booked = time.perf_counter()
        self.current = REST, time.monotonic()
        """Current phase and its start, in one tuple for atomic reads by other threads."""

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        outer, _ = self.current
        self._book()
        self.current = phase, time.monotonic()
        event = _now() if self._events is not None and phase in ON_DEVICE else None
        try:
            yield
        finally:
            self._book()
            self.current = outer, time.monotonic()
            if event is not None and self._events is not None:
                self._events.append((phase, event, _now()))

    def _book(self) -> None:
        now, (phase, _) = time.perf_counter(), self.current
        if phase != REST and (self._events is None or phase not in ON_DEVICE):
            self._seconds[phase] += now - self._booked
        self._booked = now

    def read(self) -> tuple[float, dict[str, float]]:
        """Return the wall seconds since the last reading and each phase's share, and reset. Synchronises a GPU."""
        if self._events:
            self._events[-1][2].synchronize()
            for phase, start, end in self._events:
                self._seconds[phase] += start.elapsed_time(end) / 1000
            self._events.clear()
        self._book()  # including an open phase
        wall = max(self._booked - self._since, 1e-9)
        shares = {phase: seconds / wall for phase, seconds in self._seconds.items()}
        self._seconds.clear()
        self._since = self._booked
        return wall, shares


def _now() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


class Progress:
    """Progress line: updated in place on a terminal, otherwise printed every `QUIET_SECONDS`."""

    def __init__(self, name: str, steps: int, start: int) -> None:
        self.name, self.steps = name, steps
        self._step, self._time = start, time.monotonic()
        self._shown = 0.0

    def show(self, step: int, row: dict[str, float]) -> None:
        now, terminal = time.monotonic(), sys.stderr.isatty()
        if not terminal and now - self._shown < QUIET_SECONDS and step != self.steps:
            return
        pace = (now - self._time) / max(1, step - self._step)
        self._step, self._time, self._shown = step, now, now
        line = (
            f"{self.name} {step:>6}/{self.steps}  loss {row['train/loss']:.4f}  {1 / max(pace, 1e-9):.2f} steps/s  "
            f"{row['speed/audio_seconds_per_second']:.0f} audio-s/s  "
            f"{timedelta(seconds=int((self.steps - step) * pace))} left"
        )
        end = "\n" if not terminal or step == self.steps else ""
        print(f"\r{line}" if terminal else line, end=end, file=sys.stderr, flush=True)
