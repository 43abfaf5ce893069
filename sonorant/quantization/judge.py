"""How well a model does on utterances, one figure an utterance, so that two models can be compared in pairs.

Knows nothing of quantisation: it is given models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sonorant.data.batches import Batch, SegmentBatches, UtteranceBatches
from sonorant.data.plan import MicroBatch
from sonorant.models.acoustic import AcousticModel
from sonorant.training.acoustic import AcousticLosses, AcousticRecipe
from sonorant.training.recipe import weighted
from sonorant.training.vocoder import VocoderRecipe

DECIBELS = 20.0 / np.log(10.0)
"""Of a step of one in the natural logarithm of a magnitude."""
SEED = 1
"""Of what a flow decoder's loss draws: the same model gives the same figures."""


LOG_MEL_DB = "log_mel_db"
"""Mean distance to the recording's log-mel in dB; of an acoustic model with the durations the float model finds in the recording."""


@dataclass(frozen=True)
class Judged:
    """Figures of a model, one an utterance: (U,) float64."""

    loss: NDArray[np.float64]
    """What its training makes small, on this utterance alone."""
    error: NDArray[np.float64]
    """What a person can imagine, in the unit of `measure`; the less the better."""
    measure: str
    """Its name, such as `LOG_MEL_DB`."""


class AcousticJudge:
    """Judges acoustic models on whole utterances; see `judge_of`."""

    def __init__(self, recipe: AcousticRecipe, model: AcousticModel, items: NDArray[np.int64]) -> None:
        """`model` is the float model, whose alignment with the recordings gives the durations that all are judged with."""
        recipe.diagonal_steps = 0
        self.recipe = recipe
        self.batches = [(MicroBatch(0, 0, item[None]), one) for item, one in zip(items, _alone(recipe, items), strict=True)]
        with torch.no_grad():
            self.ends = [self._ends(model, batch) for _, batch in self.batches]

    def run(self, model: nn.Module) -> None:
        """Send the utterances' texts through the model, as speaking does."""
        for _, batch in self.batches:
            model.synthesize(batch["tokens"], batch["token_lengths"], batch["speaker"], torch.ones(1))  # type: ignore[operator]

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> Judged:
        """Judge a model in evaluation mode."""
        assert isinstance(model, AcousticModel)
        phase = self.recipe.losses(model)
        losses, distances = [], []
        for (planned, batch), ends_BN in zip(self.batches, self.ends, strict=True):
            torch.manual_seed(SEED)
            losses.append(float(weighted(phase, phase.module(batch, 0), self.recipe.units(planned))))
            encoded = model.encode(batch["tokens"], batch["token_lengths"], batch["speaker"])
            states_BNC = encoded.states_BNC + model.speaker(batch["speaker"])[:, None]
            mel_BMT = model.decode(states_BNC, ends_BN, torch.arange(int(ends_BN[0, -1])))
            distances.append(float((mel_BMT[0].T - batch["mel"][0, : mel_BMT.shape[2]]).abs().mean()) * DECIBELS)
        return Judged(np.array(losses), np.array(distances), LOG_MEL_DB)

    def _ends(self, model: AcousticModel, batch: Batch) -> torch.Tensor:
        encoded = model.encode(batch["tokens"], batch["token_lengths"], batch["speaker"])
        mel_BTM = (batch["mel"] - model.mel_mean) / model.mel_std
        lengths = batch["token_lengths"], batch["mel_lengths"]
        return AcousticLosses(model, 0).align(encoded.prior_BNM.float(), mel_BTM, *lengths, 0).cumsum(1)


class VocoderJudge:
    """Judges vocoders on whole utterances; see `judge_of`."""

    def __init__(self, recipe: VocoderRecipe, items: NDArray[np.int64]) -> None:
        self.recipe = recipe
        self.batches = list(_whole(recipe, items))

    def run(self, model: nn.Module) -> None:
        """Send the utterances' mels through the model."""
        for batch in self.batches:
            model(batch["mel"])

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> Judged:
        """Judge a model in evaluation mode."""
        phase = self.recipe.losses(model)
        summed = [phase.module(batch, 0) for batch in self.batches]
        losses = [float(weighted(phase, one, {"segments": 1.0})) for one in summed]
        return Judged(np.array(losses), np.array([float(one["mel"]) for one in summed]) * DECIBELS, LOG_MEL_DB)


def judge_of(recipe: Any, model: nn.Module, items: NDArray[np.int64]) -> AcousticJudge | VocoderJudge:
    """The judge for the models of a recipe on utterances `items` of its store; `model` is the float one."""
    if isinstance(recipe, AcousticRecipe):
        assert isinstance(model, AcousticModel)
        return AcousticJudge(recipe, model, items)
    return VocoderJudge(recipe, items)


def _alone(recipe: AcousticRecipe, items: NDArray[np.int64]) -> Iterator[Batch]:
    yield from UtteranceBatches(recipe.store, [MicroBatch(0, 0, item[None]) for item in items])  # type: ignore[misc]


def _whole(recipe: VocoderRecipe, items: NDArray[np.int64]) -> Iterator[Batch]:
    for item in items:
        whole = MicroBatch(0, 0, item[None], np.zeros(1, np.int64))
        yield SegmentBatches(recipe.store, [whole], int(recipe.store.frames[item]))[0]
