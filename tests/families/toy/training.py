"""Training of the toy: phonemes share an utterance's frames equally."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import Dataset

from sonorant.audio.wav import write_wav
from sonorant.export.quantization.utterance_losses import Judged, alone
from sonorant.features.batches import Batch, UtteranceBatches
from sonorant.features.plan import MicroBatch
from sonorant.layers.model_folder import build, describe
from sonorant.training.recipe import Phase, Term, weighted
from sonorant.training.utterances import Utterances, UtteranceTrainConfig
from sonorant.training.waveform import WaveformRecipe, WaveformTrainConfig
from tests.families.toy.models import BuzzerConfig, Hummer, HummerConfig


@dataclass(frozen=True, kw_only=True)
class HummerTrainConfig(UtteranceTrainConfig):
    """Training of the predictor."""


@dataclass(frozen=True, kw_only=True)
class BuzzerTrainConfig(WaveformTrainConfig):
    """Training of the waveform model."""


class HummerLosses(nn.Module):
    """L1 on the mel."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch, step: int) -> dict[str, torch.Tensor]:
        mel_BTM, frames_B = batch["mel"], batch["mel_lengths"][:, None]
        time_T = torch.arange(mel_BTM.shape[1], device=mel_BTM.device)[None]
        place_BT = (time_T * batch["token_lengths"][:, None] // frames_B).clamp(max=batch["tokens"].shape[1] - 1)
        hum_BNM = cast(Hummer, self.model).hum(batch["tokens"])
        said_BTM = hum_BNM.gather(1, place_BT[..., None].expand(-1, -1, hum_BNM.shape[2]))
        return {"mel": ((said_BTM - mel_BTM).abs().mean(2) * (time_T < frames_B)).sum()}


class HummerRecipe(Utterances):
    name = "toy_hummer"
    diagonal_steps = 0

    def __init__(self, model: dict[str, Any], train: dict[str, Any], features: Path) -> None:
        self.config = HummerTrainConfig(**train)
        super().__init__(self.name, self.config, features)
        sizes = HummerConfig(**{key: value for key, value in model.items() if key != "quantization"})
        self._description = describe(self.name, sizes, self.store.header, model.get("quantization"))
        torch.manual_seed(self.config.seed)
        self.model = build(self._description)  # type: ignore[assignment]
        self.phases = [self.losses(self.model)]

    def dataset(self, batches: list[MicroBatch]) -> Dataset[Batch]:
        return UtteranceBatches(self.store, batches)

    def losses(self, model: nn.Module) -> Phase:
        return Phase(self.name, HummerLosses(model), {"mel": Term(1.0, "frames")})

    def write_sample(self, model: nn.Module, folder: Path) -> None:
        mel_TM = self.store.mel(int(self.example().items[0])).astype(np.float32)
        np.savez_compressed(folder / "mel.npz", predicted=mel_TM.T, target=mel_TM.T)
        write_wav(folder / "sample.wav", np.zeros(1000, np.float32), self.store.audio.sample_rate)


class BuzzerRecipe(WaveformRecipe):
    name, sizes, settings = "toy_buzzer", BuzzerConfig, BuzzerTrainConfig


class HummerJudge:
    """Judges predictors with a measure specific to the family."""

    def __init__(self, recipe: HummerRecipe, items: NDArray[np.int64]) -> None:
        self.recipe, self.batches = recipe, list(alone(recipe, items))

    def run(self, model: nn.Module) -> None:
        for _, batch in self.batches:
            model(batch["tokens"], batch["token_lengths"])

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> Judged:
        phase = self.recipe.losses(model)
        rows = [float(weighted(phase, phase.module(one, 0), self.recipe.units(plan))) for plan, one in self.batches]
        return Judged(np.array(rows), np.array(rows), "toy_error")
