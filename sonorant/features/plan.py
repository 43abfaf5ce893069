"""The epoch plan: utterances are grouped into micro-batches, and these into optimizer steps.

The plan is a pure function of (seed, epoch): training resumes at any step without replaying earlier ones, and any
number of ranks shares one plan.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from sonorant.errors import SonorantError

_AT_ONCE = 1 << 16  # lengths converted to Python integers at a time; they take five times NumPy's memory


@dataclass(frozen=True)
class MicroBatch:
    """The rows of one forward pass."""

    epoch: int
    number: int
    """Position in the epoch's plan."""
    items: np.ndarray
    """(B,) int64 indices into the feature store."""
    starts: np.ndarray | None = None
    """(B,) int64 first frame of each item's segment; None for whole utterances."""


@dataclass(frozen=True)
class Plan:
    """An endless training plan.

    With windows, `epoch` in the methods is the number of a window, counted across epochs.
    """

    micro_batches_per_step: int
    """Number of micro-batches per step on all ranks; an epoch's last step may have fewer."""
    micro_batches: Callable[[int], list[MicroBatch]]
    """Function that returns an epoch's micro-batches in order."""
    windows: int = 1
    """Number of windows per epoch; see `sonorant.features.windows`."""
    fetch: Callable[[int], None] | None = None
    """Function that downloads an epoch's data; None if all data is local."""

    def first(self) -> list[MicroBatch]:
        """Return the micro-batches of the first epoch that has any; a window may contain no training utterance."""
        return next(batches for batches in map(self.micro_batches, count()) if batches)

    def steps(self, epoch: int) -> list[list[MicroBatch]]:
        """Return an epoch's optimizer steps; every micro-batch is in exactly one."""
        batches = self.micro_batches(epoch)
        size = self.micro_batches_per_step
        return [batches[start : start + size] for start in range(0, len(batches), size)]


def balanced(
    items: np.ndarray, speakers: np.ndarray, frames: np.ndarray, *, balance: float, seed: int, epoch: int
) -> np.ndarray:
    """Return an epoch's items (B,), in which speakers with few recordings are repeated.

    Each occurs (largest speaker's frames / its speaker's frames) ** balance times: 0 changes nothing, 1 gives all
    speakers equal time. `speakers`, `frames`: columns (U,) of the whole store.
    """
    times_B = times_heard(items, speakers, frames, balance)
    return items if times_B is None else repeated(items, times_B, seed=seed, epoch=epoch)


def times_heard(items: np.ndarray, speakers: np.ndarray, frames: np.ndarray, balance: float) -> np.ndarray | None:
    """Return how often each item occurs in `balanced`, float64 (B,), or None if every item occurs once."""
    if balance == 0:
        return None
    speakers_B = speakers[items]
    total_S = np.bincount(speakers_B, frames[items])
    heard_S = np.bincount(speakers_B) > 0
    times_S = np.zeros(len(total_S))
    times_S[heard_S] = (total_S.max() / total_S[heard_S]) ** balance
    times_B: np.ndarray = times_S[speakers_B]
    return times_B


def repeated(items: np.ndarray, times_B: np.ndarray, *, seed: int, epoch: int) -> np.ndarray:
    """Repeat `items` (B,) `times_B` times each. Fractions are rounded at random, seeded with (seed, epoch)."""
    whole_B = np.floor(times_B)
    drawn_B = np.random.default_rng([seed, epoch, 1]).random(len(items)) < times_B - whole_B
    return np.repeat(items, whole_B.astype(np.int64) + drawn_B)


def shard(step: list[MicroBatch], rank: int, world_size: int) -> list[tuple[MicroBatch, float]]:
    """Return the micro-batches that `rank` computes in a step, with their weights.

    A rank without any computes the first with weight zero, to join the gradient reduction without effect.
    """
    own = [(batch, 1.0) for batch in step[rank::world_size]]
    return own or [(step[0], 0.0)]


def utterance_plan(frames: np.ndarray, items: np.ndarray, *, budget: int, seed: int, epoch: int) -> list[MicroBatch]:
    """Group the utterances `items` (B,) by length into micro-batches of at most `budget` padded frames.

    Raises SonorantError if an utterance exceeds the budget.
    """
    random = np.random.default_rng([seed, epoch])
    lengths = frames[items]
    if len(items) and lengths.max() > budget:
        worst = int(items[lengths.argmax()])
        raise SonorantError(
            f"utterance {worst} has {lengths.max()} frames, more than a micro-batch can hold ({budget}); "
            "raise frames_per_micro_batch or lower prepare.max_seconds"
        )
    jitter = lengths * random.uniform(0.95, 1.05, len(items))
    order = items[np.argsort(jitter, kind="stable")]
    ends = list(_ends(frames[order], budget))
    first = [0, *ends]
    shuffled = random.permutation(len(ends)).tolist()
    ordered = enumerate(order[first[group] : ends[group]] for group in shuffled)
    return [MicroBatch(epoch, number, group) for number, group in ordered if len(group)]


def _ends(lengths: np.ndarray, budget: int) -> Iterator[int]:
    """Yield the ends of groups of adjacent lengths, each as large as `budget` allows after padding."""
    first = longest = place = 0
    for part in range(0, len(lengths), _AT_ONCE):
        for length in lengths[part : part + _AT_ONCE].tolist():
            longest = max(longest, length)
            if longest * (place - first + 1) > budget:
                yield place
                first, longest = place, length
            place += 1
    yield place


def segment_plan(
    frames: np.ndarray, items: np.ndarray, *, segments: int, length: int, seed: int, epoch: int
) -> list[MicroBatch]:
    """Plan micro-batches of `segments` random segments of `length` frames, one per utterance.

    Utterances shorter than a segment are skipped; the last micro-batch is filled from the epoch's start.
    """
    random = np.random.default_rng([seed, epoch])
    long_enough = items[frames[items] >= length]
    if not len(long_enough):
        raise SonorantError(
            f"no utterance is as long as a segment ({length} frames); lower train_vocoder.segment_frames"
        )
    order = random.permutation(long_enough)
    missing = -len(order) % segments
    order = np.concatenate([order, np.resize(order, missing)])
    starts = random.integers(0, frames[order] - length + 1)
    return [
        MicroBatch(epoch, number, order[first : first + segments], starts[first : first + segments])
        for number, first in enumerate(range(0, len(order), segments))
    ]


def padding_waste(plan: list[MicroBatch], frames: np.ndarray) -> float:
    """Return the fraction of the plan's frames that are padding."""
    padded = sum(int(frames[batch.items].max()) * len(batch.items) for batch in plan)
    real = sum(int(frames[batch.items].sum()) for batch in plan)
    return 1.0 - real / padded
