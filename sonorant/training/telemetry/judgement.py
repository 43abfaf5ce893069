"""Warn about idle and slow ranks, once each per run."""

import statistics
from collections import Counter, deque
from dataclasses import dataclass
from itertools import chain

IMBALANCE = 0.15
"""Fraction of time that others wait for a rank, above which it counts as slow; equal machines differ by about 5 %."""
RECENT, OFTEN = 10, 5
"""A finding is reported if it holds in `OFTEN` of the `RECENT` last readings; other work on a machine slows a few."""
HINTS = {
    "data": "check its loader: data.preload, data.workers, the disk of its features",
    "checkpoint": "check the disk of the run directory, or raise checkpoint_every",
    "logging": "raise log_every",
}
LOOK = "check that machine for other programs, fewer cores or throttled clocks"
IDLE = "had nothing to compute: raise micro_batches_per_step or start fewer processes"
Findings = dict[tuple[int, str], str]
"""Warning by rank and kind of problem."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Measurements of one rank since the last reading."""

    host: str
    times: dict[str, float]
    """Fraction of wall time per phase; `communication` is waiting for other ranks and the network."""
    frames: float
    load: dict[str, float]
    loss: float | None
    cores: float
    own: dict[str, str]
    """Warnings about this rank, by kind of problem."""


def judge(readings: list[Reading]) -> Findings:
    found = {(rank, kind): said for rank, reading in enumerate(readings) for kind, said in reading.own.items()}
    waits = {rank: one.times.get("communication", 0.0) for rank, one in enumerate(readings) if one.frames}
    if waits:
        found |= {(rank, "idle"): IDLE for rank in range(len(readings)) if rank not in waits}
    if len(waits) > 1:
        slow = min(waits, key=lambda rank: waits[rank])
        others = [rank for rank in waits if rank != slow]
        waiting = statistics.median(waits[rank] for rank in others)
        if waiting - waits[slow] > IMBALANCE:
            cause = _cause(readings[slow], [readings[rank] for rank in others])
            host = readings[slow].host
            found[slow, "slow"] = f"on {host} keeps the others waiting for {waiting:.0%} of their time: {cause}"
    return found


def _cause(slow: Reading, others: list[Reading]) -> str:
    frames = statistics.fmean(other.frames for other in others)
    if slow.frames > (1 + IMBALANCE) * frames:
        remedy = "make micro_batches_per_step a multiple of the number of processes"
        return f"it was assigned {slow.frames / frames:.2f} times as many frames as the others; {remedy}"
    usual = {phase: statistics.fmean(other.times.get(phase, 0.0) for other in others) for phase in slow.times}
    more = {phase: share - usual[phase] for phase, share in slow.times.items() if phase != "communication"}
    phase = max(more, key=lambda name: more[name])
    spent = f"{phase} takes {slow.times[phase]:.0%} of its time, {usual[phase]:.0%} of theirs"
    return f"{spent}; {HINTS.get(phase, LOOK)}"


class Judgement:
    def __init__(self) -> None:
        self._recent: deque[Findings] = deque(maxlen=RECENT)
        self._printed: set[tuple[int, str]] = set()

    def take(self, found: Findings) -> list[str]:
        """Add the findings of a reading; return new warnings."""
        self._recent.append(found)
        new = [key for key in self._holding() if key in found and key not in self._printed]
        self._printed |= set(new)
        return [f"warning: rank {key[0]}: {found[key]}" for key in new]

    def _holding(self) -> list[tuple[int, str]]:
        return [key for key, readings in Counter(chain(*self._recent)).items() if readings >= OFTEN]

    def row(self) -> dict[str, float]:
        """Return metrics: the number of ranks that currently have each kind of printed warning."""
        counts = {kind: 0.0 for _, kind in sorted(self._printed)}
        for _, kind in self._holding():
            counts[kind] += 1
        return {f"health/{kind.replace(' ', '_')}": count for kind, count in counts.items()}
