"""Which ranks are idle, slow or waiting, judged from the figures of every reading.

A finding is told when it begins and when it is over, not at every reading in between. Knows nothing of files.
"""

import statistics
from dataclasses import dataclass, field, replace
from typing import Any

IMBALANCE = 0.15
"""Share of the time that the others wait for one rank, above which that rank is slow. The plan's micro-batches differ
by some 5 % in length and machines of one kind by as much; at 0.15 the training runs at 0.85 of its speed."""
LINKS = 0.3
"""Share of the time that every rank waits, above which no rank is to blame but the exchange itself. Averaging the
gradients of these models takes 0.05 to 0.2 on one machine."""
AGAIN = 2
"""Readings in a row in which a finding must hold to be told, and must be gone to be over: one reading may have met a
checkpoint, a page fault or another program."""
WAITING = ("communication", "communication_hidden")
"""Shares that are no work of the rank's own."""
HINTS = {
    "data": "look at its loader: data.preload, data.workers, the disk of its features",
    "checkpoint": "look at the disk of the run directory, or raise checkpoint_every",
    "logging": "raise log_every",
}
LOOK = "look at that machine: other programs, fewer cores, clocks held down"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What one rank tells of the steps since the last reading."""

    host: str
    times: dict[str, float]
    """Shares of its wall time by phase; `communication` is waiting for others and for the links."""
    frames: float
    """Mel frames that it computed."""
    own: dict[str, str]
    """What it finds itself: kind to sentence."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something wrong with a rank."""

    rank: int
    host: str
    kind: str
    """A few words, the same as long as it lasts."""
    sentence: str
    since: int = 0
    """Step at which it was told."""

    def __str__(self) -> str:
        return f"rank {self.rank}: {self.sentence}"


def judge(readings: list[Reading]) -> list[Finding]:
    """All that is wrong at this reading, rank by rank; `readings` by rank."""
    found = [
        Finding(rank=rank, host=reading.host, kind=kind, sentence=sentence)
        for rank, reading in enumerate(readings)
        for kind, sentence in reading.own.items()
    ]
    return found + (_among(readings) if len(readings) > 1 else [])


def _among(readings: list[Reading]) -> list[Finding]:
    """What shows only when the ranks are compared."""
    most = max(reading.frames for reading in readings)
    at_work = {rank: reading for rank, reading in enumerate(readings) if reading.frames > 0}
    idle = [rank for rank in range(len(readings)) if most and rank not in at_work]
    why = "had nothing to compute: a step has fewer micro-batches than there are processes; raise"
    found = [_of(readings, rank, "idle", f"{why} micro_batches_per_step or start fewer processes") for rank in idle]
    if len(at_work) < 2:
        return found
    waits = {rank: reading.times.get("communication", 0.0) for rank, reading in at_work.items()}
    awaited = min(waits, key=lambda rank: waits[rank])
    others = {rank: reading for rank, reading in at_work.items() if rank != awaited}
    waiting = statistics.median(waits[rank] for rank in others)
    if waiting - waits[awaited] > IMBALANCE:
        cause = _cause(at_work[awaited], list(others.values()))
        lost = f"on {at_work[awaited].host} keeps the others waiting for {waiting:.0%} of their time"
        found.append(_of(readings, awaited, "slow", f"{lost}: {cause}"))
    elif waits[awaited] > LINKS:
        remedy = "look at the links between the machines, or raise micro_batches_per_step"
        lost = f"every rank spends at least {waits[awaited]:.0%} of its time averaging gradients"
        found.append(_of(readings, awaited, "links", f"{lost}; {remedy}"))
    return found


def _of(readings: list[Reading], rank: int, kind: str, sentence: str) -> Finding:
    return Finding(rank=rank, host=readings[rank].host, kind=kind, sentence=sentence)


def _cause(slow: Reading, others: list[Reading]) -> str:
    """In what a rank that is waited for spends more time than the others."""
    frames = statistics.fmean(other.frames for other in others)
    if slow.frames > (1 + IMBALANCE) * frames:
        remedy = "make micro_batches_per_step a multiple of the number of processes"
        return f"the plan gives it {slow.frames / frames:.2f} times as many frames as the others; {remedy}"
    usual = {phase: statistics.fmean(other.times.get(phase, 0.0) for other in others) for phase in slow.times}
    more = {phase: share - usual[phase] for phase, share in slow.times.items() if phase not in WAITING}
    phase = max(more, key=lambda name: more[name])
    spent = f"{phase} takes {slow.times[phase]:.0%} of its time, {usual[phase]:.0%} of theirs"
    return f"{spent}; {HINTS.get(phase, LOOK)}"


@dataclass(kw_only=True)
class Judgement:
    """The findings that hold now."""

    open: dict[tuple[int, str], Finding] = field(default_factory=dict)
    """By rank and kind."""
    kinds: set[str] = field(default_factory=set)
    """All that have been told."""
    changed: bool = True
    """Whether the last reading began or ended one."""
    _seen: dict[tuple[int, str], int] = field(default_factory=dict)
    """Readings in a row: above 0 a finding has held, below it has been gone."""

    def take(self, step: int, found: list[Finding]) -> list[str]:
        """Take in what the reading after `step` steps has shown; return the lines worth a person's attention."""
        now = {(one.rank, one.kind): one for one in found}
        lines = []
        for key in now.keys() | self._seen.keys():
            run = self._seen.get(key, 0)
            self._seen[key] = max(run, 0) + 1 if key in now else min(run, 0) - 1
        for key, one in now.items():
            if key in self.open:  # the newest figures, since when it was told
                self.open[key] = replace(one, since=self.open[key].since)
            elif self._seen[key] >= AGAIN:
                self.open[key] = replace(one, since=step)
                lines.append(f"warning: {one}")
        for key in [key for key in self.open if self._seen[key] <= -AGAIN]:
            del self.open[key]
            lines.append(f"rank {key[0]}: no longer {key[1]} (step {step})")
        self.changed = bool(lines)
        self.kinds |= {kind for _, kind in self.open}
        return lines

    def row(self) -> dict[str, float]:
        """Metrics: how many findings hold, and how many ranks have each kind that was ever told."""
        counts = {kind: sum(kind == of for _, of in self.open) for kind in sorted(self.kinds)}
        named = {f"health/{kind.replace(' ', '_')}": float(count) for kind, count in counts.items()}
        return {"health/findings": float(len(self.open)), **named}

    def as_json(self) -> list[dict[str, Any]]:
        """The findings that hold, by rank."""
        return [vars(one) for _, one in sorted(self.open.items())]
