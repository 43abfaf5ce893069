"""Losses per utterance for paired comparisons. Each family defines the judges of its predictors; waveform models share
`WaveformJudge`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from sonorant.audio.arrays import Doubles, Ints
from sonorant.features.batches import Batch, SegmentBatches
from sonorant.features.plan import MicroBatch
from sonorant.training.recipe import Recipe, weighted
from sonorant.training.waveform import WaveformRecipe

DECIBELS = 20.0 / np.log(10.0)
"""Decibels per natural logarithm of magnitude."""
LOG_MEL_DB = "log_mel_db"
"""Name of the mean distance from the recording's log-mel in dB; acoustic models use the float model's durations."""


@dataclass(frozen=True)
class Judged:
    """Measurements per utterance, (U,) float64."""

    loss: Doubles
    """Training loss of each utterance alone."""
    error: Doubles
    """Error of each utterance; lower is better."""
    measure: str
    """Name of `error`, such as `LOG_MEL_DB`."""


class Judge(Protocol):
    """Evaluates models of one recipe on fixed utterances."""

    def run(self, model: nn.Module) -> None:
        """Run the model on the utterances as in synthesis."""

    def __call__(self, model: nn.Module) -> Judged:
        """Evaluate a model in evaluation mode."""


class WaveformJudge:
    """Evaluates vocoders on whole utterances."""

    def __init__(self, recipe: WaveformRecipe, items: Ints) -> None:
        self.recipe = recipe
        self.batches = [self._whole(int(item)) for item in items]

    def _whole(self, item: int) -> Batch:
        planned = MicroBatch(0, 0, np.array([item]), np.zeros(1, np.int64))
        return SegmentBatches(self.recipe.store, [planned], int(self.recipe.store.frames[item]))[0]

    def sounding(self, model: nn.Module, batch: Batch) -> nn.Module:
        """Return the vocoder for a batch of one utterance."""
        return model

    def run(self, model: nn.Module) -> None:
        for batch in self.batches:
            self.sounding(model, batch)(batch["frames"])

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> Judged:
        phase = self.recipe.losses(model)
        summed = [self.recipe.losses(self.sounding(model, batch)).module(batch, 0) for batch in self.batches]
        losses = [float(weighted(phase, one, {"segments": 1.0})) for one in summed]
        return Judged(np.array(losses), np.array([float(one["mel"]) for one in summed]) * DECIBELS, LOG_MEL_DB)


def alone(recipe: Recipe, items: Ints) -> Iterator[tuple[MicroBatch, Batch]]:
    """Yield each utterance as a batch of one, in the order of `items`."""
    planned = [MicroBatch(0, 0, item[None]) for item in items]
    batches: Any = recipe.dataset(planned)
    for number, one in enumerate(planned):
        yield one, batches[number]
