"""Measure losses of an acoustic model on utterances, for quantisation."""

import numpy as np
import torch
from torch import nn

from sonorant.audio.arrays import Ints
from sonorant.export.quantization.utterance_losses import DECIBELS, LOG_MEL_DB, Judged, alone
from sonorant.families.parallel.acoustic import AcousticModel
from sonorant.families.parallel.acoustic_training import AcousticRecipe, durations_of, mel_in_time
from sonorant.training.recipe import weighted

SEED = 1
"""Seed for a flow decoder's loss, so that values are reproducible."""


class AcousticJudge:
    """Measures acoustic models on whole utterances; implements
    `sonorant.export.quantization.utterance_losses.Judge`."""

    def __init__(self, recipe: AcousticRecipe, model: AcousticModel, items: Ints) -> None:
        """`model`: the float model, whose alignment determines the durations for all models."""
        recipe.diagonal_steps = 0
        self.recipe = recipe
        with torch.no_grad():
            self.batches = [(plan, batch, durations_of(model, batch)) for plan, batch in alone(recipe, items)]

    def run(self, model: nn.Module) -> None:
        for _, batch, _ in self.batches:
            model.synthesize(batch["tokens"], batch["token_lengths"], batch["speaker"], torch.ones(1))  # type: ignore[operator]

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> Judged:
        assert isinstance(model, AcousticModel)
        phase = self.recipe.losses(model)
        losses, distances = [], []
        for plan, batch, durations_BN in self.batches:
            torch.manual_seed(SEED)
            losses.append(float(weighted(phase, phase.module(batch, 0), self.recipe.units(plan))))
            mel_BMT = mel_in_time(model, batch, durations_BN, int(durations_BN.sum()))
            distances.append(float((mel_BMT[0].T - batch["mel"][0, : mel_BMT.shape[2]]).abs().mean()) * DECIBELS)
        return Judged(np.array(losses), np.array(distances), LOG_MEL_DB)
