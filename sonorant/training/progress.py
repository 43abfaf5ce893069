"""A line a person watches: loss, speed, time left. Knows nothing of what is trained."""

from __future__ import annotations

import sys
import time

QUIET_SECONDS = 10.0
"""Where no one watches a terminal, a line at most this often."""


class Progress:
    """Overwrites one line on a terminal; writes a line now and then into a log."""

    def __init__(self, name: str, steps: int, start: int, shown: bool) -> None:
        self.name, self.steps, self.shown = name, steps, shown
        self.last_step, self.last_time = start, time.monotonic()
        self.last_shown = 0.0
        self.seconds_per_step = 0.0

    def show(self, step: int, row: dict[str, float]) -> None:
        """Report the row of metrics of `step`."""
        now = time.monotonic()
        seconds = (now - self.last_time) / max(1, step - self.last_step)
        self.seconds_per_step = 0.7 * self.seconds_per_step + 0.3 * seconds if self.seconds_per_step else seconds
        self.last_step, self.last_time = step, now
        terminal = sys.stderr.isatty()
        if not self.shown or (not terminal and now - self.last_shown < QUIET_SECONDS and step != self.steps):
            return
        self.last_shown = now
        left = int((self.steps - step) * self.seconds_per_step)
        width = 24
        bar = "█" * (width * step // self.steps)
        line = (
            f"{self.name} {step:>6}/{self.steps} |{bar:<{width}}| loss {row['train/loss']:.4f}  {1 / self.seconds_per_step:.2f} steps/s  "
            f"{row['speed/audio_seconds_per_second']:.0f} audio-s/s  {left // 60}:{left % 60:02d} left"
        )
        print(
            f"\r{line}" if terminal else line, end="\n" if not terminal or step == self.steps else "", file=sys.stderr, flush=True
        )
