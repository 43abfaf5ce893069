"""Inputs for comparing runtimes, and distances between two results.

Maximum differences are not informative for int8, because two correct computations may round a value to neighbouring
steps. This barely changes means, but every wrong scale or constant does. States and mel are compared by root mean
square relative to the signal, mel and samples by decibels of the log-mel, and samples by correlation, which detects a
wrong sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Integers, Ints
from sonorant.audio.mel import MelConfig, log_mel
from sonorant.export.tolerance import Fault, Tolerance

SPEEDS, PITCHES, ENERGIES = (1.0, 0.5, 2.0), (0.0, 3.0, -3.0), (0.0, -6.0, 6.0)
"""Values that cases cycle through: speed factor, pitch in semitones, energy in dB."""
TOGETHER = 3
"""Number of utterances in a padded batch."""
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """A batch and torch's output of each graph. Each tested graph gets torch's inputs, so that errors do not
    accumulate."""

    inputs: Arrays
    """Inputs of the encoder."""
    states: Floats
    ends: Ints
    mel: Floats
    frames: Floats
    """Input of the vocoder: mel and source rows."""
    samples: Floats

    @property
    def batch(self) -> int:
        return len(self.ends)

    @property
    def tokens(self) -> int:
        return self.states.shape[1]

    @property
    def lengths(self) -> Ints:
        return self.ends[:, -1]

    @property
    def time(self) -> Ints:
        return np.arange(self.lengths.max())

    def row(self, number: int) -> Case:
        """Return one utterance of the batch without padding."""
        tokens, frames = int(self.inputs["lengths"][number]), int(self.lengths[number])
        one = slice(number, number + 1)
        inputs = {name: values[one] for name, values in self.inputs.items()} | {
            "tokens": self.inputs["tokens"][one, :tokens]
        }
        samples = frames * self.samples.shape[1] // self.mel.shape[2]
        states, ends = self.states[one, :tokens], self.ends[one, :tokens]
        mel, vocoded = self.mel[one, :, :frames], self.frames[one, :, :frames]
        return Case(inputs, states, ends, mel, vocoded, self.samples[one, :samples])


def spread_lengths(lengths: Ints, count: int) -> list[int]:
    """Return indices of up to `count` utterances of distinct lengths, evenly spaced from shortest to longest."""
    distinct = np.unique(lengths)
    wanted = distinct[np.unique(np.linspace(0, len(distinct) - 1, count).round().astype(int))]
    return [int(np.flatnonzero(lengths == length)[0]) for length in wanted]


def shortened(tokens: Integers, phonemes: int) -> Integers:
    """Shorten an utterance (N, 3) to its first phonemes between its start and end symbols: (phonemes + 2, 3)."""
    return np.concatenate([tokens[: phonemes + 1], tokens[-1:]])


def batches(utterances: Sequence[Integers], speakers: int) -> Iterator[Arrays]:
    """Yield encoder inputs: each utterance (N, 3) alone, then padded batches, with varied speakers and prosody."""
    alone = [[utterance] for utterance in utterances]
    together = [utterances[first : first + TOGETHER] for first in range(0, len(utterances) - 1, TOGETHER)]
    for number, batch in enumerate([*alone, *together]):
        lengths = np.array([len(utterance) for utterance in batch])
        tokens = np.zeros((len(batch), lengths.max(), 3), np.int64)
        for row, utterance in enumerate(batch):
            tokens[row, : len(utterance)] = utterance
        turn = number + np.arange(len(batch))
        yield {
            "tokens": tokens,
            "lengths": lengths,
            "speaker": turn % speakers,
            "speed": np.array(SPEEDS, np.float32)[turn % len(SPEEDS)],
            "pitch": np.array(PITCHES, np.float32)[turn % len(PITCHES)],
            "energy": np.array(ENERGIES, np.float32)[turn % len(ENERGIES)],
        }


DECIBELS = 20 / np.log(10)
"""Decibels per natural logarithm of magnitude."""


@dataclass(frozen=True)
class Difference:
    output: str
    max_abs_diff: float
    relative_error: float
    log_mel_db: float | None = None
    """Log-mel difference in dB; None for states."""
    correlation: float | None = None
    """Correlation, -1 to 1; None except for samples, and if silence is expected."""

    def check(self, tolerance: Tolerance, where: str, other: str) -> None:
        """Raise Fault, with a message beginning with `where`, if the distance from `other` exceeds the tolerance."""
        for name in ("max_abs_diff", "relative_error", "log_mel_db"):
            value, allowed = getattr(self, name), getattr(tolerance, name)
            unmeasured = value is None or (name, self.output) == ("relative_error", "samples")
            if not unmeasured and value > allowed:
                raise Fault(f"{where}: differs from {other}, {name} {value:.3g}, must be at most {allowed:g}")
        if self.correlation is not None and self.correlation < tolerance.correlation:
            raise Fault(
                f"{where}: differs from {other}, correlation {self.correlation:.3g}, must be at least "
                f"{tolerance.correlation:g}"
            )


def difference(output: str, got: NDArray[Any], expected: NDArray[Any], audio: MelConfig, where: str) -> Difference:
    """Compare a floating-point output with `expected`. Raises Fault as `check_comparable` does."""
    check_comparable(got, expected, where)
    error = got.astype(np.float64) - expected
    size = float(np.sqrt(np.mean(np.square(expected, dtype=np.float64)))) if expected.size else 0.0
    relative = float(np.sqrt(np.mean(np.square(error)))) / size if size else 0.0
    decibels, correlation = None, None
    if output == "mel":
        decibels = float(np.abs(error).mean()) * DECIBELS
    elif output == "samples":
        mels = [log_mel(torch.from_numpy(np.ascontiguousarray(samples)), audio) for samples in (got, expected)]
        decibels = float((mels[0] - mels[1]).abs().mean()) * DECIBELS
        correlation = _correlation(got, expected) if size else None
    return Difference(output, float(np.abs(error).max(initial=0.0)), relative, decibels, correlation)


def _correlation(got: NDArray[Any], expected: NDArray[Any]) -> float:
    """Return the correlation without subtracting means; 0 if `got` is silent."""
    a, b = (values.astype(np.float64).ravel() for values in (got, expected))
    size = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / size) if size else 0.0


def check_ends(got: NDArray[Any], expected: NDArray[Any], tolerance: Tolerance, where: str, other: str) -> int:
    """Return the maximum difference of token ends in frames. Raises Fault if it is too large."""
    check_comparable(got, expected, where)
    frames, share = tolerance.frames
    off = np.abs(got - expected)
    if (off > frames + share * expected).any():
        raise Fault(
            f"{where}: a token ends {off.max()} frames from that of {other}, allowed are {frames:g} plus {share:.0%} "
            "of the time before it"
        )
    return int(off.max(initial=0))


def check_comparable(got: NDArray[Any], expected: NDArray[Any], where: str) -> None:
    """Raise Fault, with a message beginning with `where`, if dtype or shape differ or a value is not finite."""
    if got.dtype != expected.dtype or got.shape != expected.shape:
        raise Fault(f"{where}: is {got.dtype} {got.shape}, must be {expected.dtype} {expected.shape}")
    if not np.isfinite(got).all():
        raise Fault(f"{where}: contains NaN or infinity")
    if not np.isfinite(expected).all():
        raise Fault(f"{where}: the reference from torch contains NaN or infinity")
