"""A trace of a few steps for chrome://tracing or Perfetto, one file per rank."""

from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from sonorant.errors import SonorantError
from sonorant.files import atomic_file

LIMIT = 50
"""Maximum number of steps in a trace; each adds megabytes."""
AFTER, LENGTH = 10, 5
"""Number of steps that `auto` skips, and number that it records."""


def parse_steps(text: str, start: int = 0) -> tuple[int, int]:
    """Return the first and last step to record, counted from 1. `text` is `auto` (relative to step `start`) or
    `FIRST:LAST`. Raises SonorantError otherwise."""
    if text == "auto":
        return start + AFTER + 1, start + AFTER + LENGTH
    first, _, last = text.partition(":")
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last) < int(first) + LIMIT):
        raise SonorantError(
            f"--profile {text}: give FIRST:LAST, counted from 1 and at most {LIMIT} steps, such as 100:104"
        )
    return int(first), int(last)


class Profile:
    """Records a range of steps; call `next` after every step and `close` at the end."""

    def __init__(self, steps: str | None, folder: Path, rank: int, start: int, last: int) -> None:
        self._profiler: profile | None = None
        if steps is None:
            return
        first, end = parse_steps(steps, start)
        if first <= start or end > last:
            raise SonorantError(f"--profile {steps}: choose steps from {start + 1} to {last}, which this training runs")
        path = folder / f"rank{rank}-steps-{first}-{end}.json"
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
        waited = first - start - 1  # warm up with the step before the first
        self._profiler = profile(
            activities=activities,
            schedule=schedule(wait=max(0, waited - 1), warmup=min(1, waited), active=end - first + 1, repeat=1),
            on_trace_ready=lambda traced: _write(traced, path),
            record_shapes=True,
            acc_events=True,
        )
        self._profiler.start()

    def next(self) -> None:
        if self._profiler is not None:
            self._profiler.step()

    def close(self) -> None:
        if self._profiler is not None:
            self._profiler.stop()
            self._profiler = None


def _write(traced: profile, path: Path) -> None:
    with atomic_file(path) as temporary:
        traced.export_chrome_trace(str(temporary))
    print(f"trace: {path}", flush=True)
