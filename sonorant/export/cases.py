"""Inputs to compare runtimes on, and what torch makes of them. Knows nothing of what else computes with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SPEEDS = (1.0, 0.5, 2.0)
"""Speeds that the cases take in turn."""
TOGETHER = 3
"""Utterances in a padded batch."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """A batch on its way through the three graphs, each given what torch gave before it: so only its own faults count."""

    inputs: Arrays
    """Of the encoder."""
    states: NDArray[np.float32]
    ends: NDArray[np.int64]
    mel: NDArray[np.float32]
    samples: NDArray[np.float32]

    @property
    def batch(self) -> int:
        """Utterances."""
        return len(self.ends)

    @property
    def tokens(self) -> int:
        """Of the longest utterance."""
        return self.states.shape[1]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Frames of each utterance (B,)."""
        return self.ends[:, -1]

    @property
    def time(self) -> NDArray[np.int64]:
        """Every frame of the longest utterance (T,)."""
        return np.arange(self.lengths.max())

    def row(self, number: int) -> Case:
        """One utterance of the batch, its padding cut off."""
        tokens, frames = int(self.inputs["lengths"][number]), int(self.lengths[number])
        one = slice(number, number + 1)
        inputs = {name: values[one] for name, values in self.inputs.items()} | {"tokens": self.inputs["tokens"][one, :tokens]}
        hop = self.samples.shape[1] // self.mel.shape[2]
        return Case(
            inputs, self.states[one, :tokens], self.ends[one, :tokens], self.mel[one, :, :frames], self.samples[one, : frames * hop]
        )


def spread_lengths(lengths: NDArray[np.int64], count: int) -> list[int]:
    """Indices of `count` utterances, their lengths spread evenly from shortest to longest, no length twice; fewer if there are fewer."""
    distinct = np.unique(lengths)
    wanted = distinct[np.unique(np.linspace(0, len(distinct) - 1, count).round().astype(int))]
    return [int(np.flatnonzero(lengths == length)[0]) for length in wanted]


def shortened(tokens: NDArray[np.integer], phonemes: int) -> NDArray[np.integer]:
    """The first phonemes of an utterance (N, 3) between its start and its end symbol: (phonemes + 2, 3)."""
    return np.concatenate([tokens[: phonemes + 1], tokens[-1:]])


def batches(utterances: Sequence[NDArray[np.integer]], speakers: int) -> Iterator[Arrays]:
    """Inputs of the encoder: each utterance (N, 3) alone, then neighbours in padded batches; speeds and speakers take turns."""
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
        }
