"""Losses of an acoustic model on utterances, for quantisation."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sonorant.export.quantization.utterance_losses import DECIBELS, LOG_MEL_DB, Judged, alone
from sonorant.families.parallel.acoustic import AcousticModel
from sonorant.families.parallel.acoustic_training import AcousticRecipe
from sonorant.features.batches import Batch
from sonorant.layers.alignment import align
from sonorant.training.recipe import weighted

SEED = 1
"""Seed of a flow decoder's loss, so that figures are reproducible."""


class AcousticJudge:
    """Judges acoustic models on whole utterances; implements `sonorant.export.quantization.utterance_losses.Judge`."""

    def __init__(self, recipe: AcousticRecipe, model: AcousticModel, items: NDArray[np.int64]) -> None:
        """`model`: the float model, whose alignment sets the durations for all models."""
        recipe.diagonal_steps = 0
        self.recipe = recipe
        self.batches = list(alone(recipe, items))
        with torch.no_grad():
            self.ends = [self._ends(model, batch) for _, batch in self.batches]

    def run(self, model: nn.Module) -> None:
        """Synthesise the utterances' texts."""
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
            prosody_BN2 = None
            if model.config.prosody:
                durations_BN = ends_BN.diff(prepend=torch.zeros_like(ends_BN[:, :1]))
                prosody_BN2, _ = model.prosody_of(batch["mel"], batch["pitch"], durations_BN)
            states_BNP = model.states(encoded, batch["speaker"], prosody_BN2)
            mel_BMT = model.decode(states_BNP, ends_BN, torch.arange(int(ends_BN[0, -1])))[:, : model.mels]
            distances.append(float((mel_BMT[0].T - batch["mel"][0, : mel_BMT.shape[2]]).abs().mean()) * DECIBELS)
        return Judged(np.array(losses), np.array(distances), LOG_MEL_DB)

    def _ends(self, model: AcousticModel, batch: Batch) -> Tensor:
        encoded = model.encode(batch["tokens"], batch["token_lengths"], batch["speaker"])
        mel_BTM = model.normalize(batch["mel"])
        lengths = batch["token_lengths"], batch["mel_lengths"]
        return align(encoded.prior_BNM.float(), mel_BTM, *lengths).cumsum(1)
