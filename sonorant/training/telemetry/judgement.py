"""Find idle, slow and waiting ranks; each finding is printed once."""

import statistics
from dataclasses import dataclass, field

IMBALANCE = 0.15
"""Share of time that the others wait for a rank above which it is slow; equal machines differ by some 5 %."""
LINKS = 0.3
"""Share of time that every rank waits above which links are slow; on one machine it is 0.05 to 0.2."""
AGAIN = 2
"""Readings in a row that a finding must hold."""
WAITING = ("communication", "communication_hidden")
"""Shares that are not the rank's own work."""
HINTS = {
    "data": "look at its loader: data.preload, data.workers, the disk of its features",
    "checkpoint": "look at the disk of the run directory, or raise checkpoint_every",
    "logging": "raise log_every",
}
LOOK = "look at that machine: other programs, fewer cores, clocks held down"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Figures of one rank for the steps since the last reading."""

    host: str
    times: dict[str, float]
    """Share of wall time by phase; `communication`: waiting for other ranks and links."""
    frames: float
    """Mel frames that it computed."""
    own: dict[str, str]
    """Its own findings: kind to sentence."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A fault of a rank."""

    rank: int
    kind: str
    sentence: str

    def __str__(self) -> str:
        return f"rank {self.rank}: {self.sentence}"


def judge(readings: list[Reading]) -> list[Finding]:
    """Findings of one reading of all ranks, by rank."""
    found = [
        Finding(rank=rank, kind=kind, sentence=sentence)
        for rank, reading in enumerate(readings)
        for kind, sentence in reading.own.items()
    ]
    return found + (_among(readings) if len(readings) > 1 else [])


def _among(readings: list[Reading]) -> list[Finding]:
    """Findings from a comparison of the ranks."""
    most = max(reading.frames for reading in readings)
    at_work = {rank: reading for rank, reading in enumerate(readings) if reading.frames > 0}
    why = "had nothing to compute: a step has fewer micro-batches than there are processes; raise"
    remedy = f"{why} micro_batches_per_step or start fewer processes"
    idle = [rank for rank in range(len(readings)) if most and rank not in at_work]
    found = [Finding(rank=rank, kind="idle", sentence=remedy) for rank in idle]
    if len(at_work) < 2:
        return found
    waits = {rank: reading.times.get("communication", 0.0) for rank, reading in at_work.items()}
    awaited = min(waits, key=lambda rank: waits[rank])
    others = {rank: reading for rank, reading in at_work.items() if rank != awaited}
    waiting = statistics.median(waits[rank] for rank in others)
    if waiting - waits[awaited] > IMBALANCE:
        cause = _cause(at_work[awaited], list(others.values()))
        lost = f"on {at_work[awaited].host} keeps the others waiting for {waiting:.0%} of their time"
        found.append(Finding(rank=awaited, kind="slow", sentence=f"{lost}: {cause}"))
    elif waits[awaited] > LINKS:
        lost = f"every rank spends at least {waits[awaited]:.0%} of its time averaging gradients"
        remedy = "look at the links between the machines, or raise micro_batches_per_step"
        found.append(Finding(rank=awaited, kind="links", sentence=f"{lost}: {remedy}"))
    return found


def _cause(slow: Reading, others: list[Reading]) -> str:
    """The phase in which a rank spends more time than the others."""
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
    """Findings that hold, and those that were printed."""

    held: dict[tuple[int, str], int] = field(default_factory=dict)
    """By rank and kind: readings in a row up to the newest."""
    told: set[tuple[int, str]] = field(default_factory=set)

    def take(self, found: list[Finding]) -> list[str]:
        """Add a reading's findings; return new warnings."""
        now = {(one.rank, one.kind): one for one in found}
        self.held = {key: self.held.get(key, 0) + 1 for key in now}
        new = [key for key, readings in self.held.items() if readings >= AGAIN and key not in self.told]
        self.told |= set(new)
        return [f"warning: {now[key]}" for key in new]

    def row(self) -> dict[str, float]:
        """Metrics: number of ranks with each kind of printed finding."""
        kinds = sorted({kind for _, kind in self.told})
        ranks = {kind: sum(of == kind and held >= AGAIN for (_, of), held in self.held.items()) for kind in kinds}
        return {f"health/{kind.replace(' ', '_')}": float(count) for kind, count in ranks.items()}
