"""How the parallel family learns: the acoustic model by alignment, durations and mel; the vocoder by spectra."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from sonorant.audio.mel import griffin_lim
from sonorant.audio.wav import write_wav
from sonorant.data.batches import Batch, UtteranceBatches
from sonorant.data.plan import MicroBatch
from sonorant.families.parallel.acoustic import UNVOICED, AcousticConfig, AcousticModel
from sonorant.families.parallel.vocoder import VocoderConfig
from sonorant.layers.alignment import align, prior_loss
from sonorant.models import build, describe
from sonorant.training.recipe import Phase, Term
from sonorant.training.utterances import Utterances, UtteranceTrainConfig, on_device_of, write_alignment
from sonorant.training.waveform import WaveformRecipe, WaveformTrainConfig


@dataclass(frozen=True, kw_only=True)
class AcousticTrainConfig(UtteranceTrainConfig):
    """Training of the acoustic model."""


class AcousticLosses(nn.Module):
    """The summed losses of a batch, and the alignment they rest on."""

    def __init__(self, model: AcousticModel, diagonal_steps: int) -> None:
        super().__init__()
        self.model = model
        self.diagonal_steps = diagonal_steps

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Batch of `UtteranceBatches` -> `mel`, `prior` and, of a model with prosody, `pitch` summed over frames,
        `duration` and, of such a model, `prosody` summed over tokens."""
        model = self.model
        mel_BTM = model.normalize(batch["mel"])
        encoded = model.encode(batch["tokens"], batch["token_lengths"], batch["speaker"])
        prior_BNM = encoded.prior_BNM.float()
        lengths = batch["token_lengths"], batch["mel_lengths"]
        durations_BN = align(prior_BNM, mel_BTM, *lengths, step, self.diagonal_steps)
        time_T = torch.arange(mel_BTM.shape[1], device=mel_BTM.device)
        prosody_BN2 = None
        prior = prior_loss(prior_BNM, mel_BTM, durations_BN, *lengths)
        losses = {"prior": prior}
        if encoded.prosody_BN2 is not None:
            prosody_BN2, heard_BN = model.prosody_of(batch["mel"], batch["pitch"], durations_BN)
            wrong_BN2 = (encoded.prosody_BN2.float() - prosody_BN2).square() * encoded.mask_BN[..., None]
            losses["prosody"] = (wrong_BN2[..., 0] * heard_BN + wrong_BN2[..., 1]).sum()
        states_BNP = model.states(encoded, batch["speaker"], prosody_BN2)
        expanded = model.expand(states_BNP, durations_BN.cumsum(1), time_T)
        wanted_BTD = model.normalized_frames(batch["mel"], batch["pitch"], expanded.prosody_BT2)
        errors_BTD = model.decoder.errors(expanded.hidden_BTC, expanded.mask_BT1, wanted_BTD)
        losses["mel"] = errors_BTD[..., : model.mels].mean(2).sum()
        if expanded.prosody_BT2 is not None:
            heard_BT = UNVOICED + (1 - UNVOICED) * batch["pitch"][..., 1]
            losses["pitch"] = (errors_BTD[..., model.mels] * heard_BT + errors_BTD[..., model.mels + 1]).sum()
        log_BN = encoded.log_duration_BN.float()
        # Poisson deviance: unlike a squared error of the logarithm its mean is right, so speech is not shortened.
        wanted_BN = durations_BN.clamp(min=1)
        deviance_BN = log_BN.exp() - wanted_BN + wanted_BN * (wanted_BN.log() - log_BN)
        duration = (deviance_BN / 8.0 * encoded.mask_BN).sum()
        return losses | {"duration": duration}


class AcousticRecipe(Utterances):
    """The acoustic model with its features; implements `Recipe`."""

    name = "acoustic"

    def __init__(self, model: dict[str, Any], train: dict[str, Any], features: Path) -> None:
        """`model`: fields of AcousticConfig and, for int8 layers, `quantization` of `model.json`; `train`: fields of
        AcousticTrainConfig."""
        self.config = AcousticTrainConfig(**train)
        super().__init__(self.name, self.config, features)
        sizes = {key: value for key, value in model.items() if key != "quantization"}
        self._description = describe("acoustic", AcousticConfig(**sizes), self.store.header, model.get("quantization"))
        torch.manual_seed(self.config.seed)
        self.model = cast(AcousticModel, build(self._description))
        self.diagonal_steps = self.config.diagonal_steps
        self.phases = [self.losses(self.model)]

    def dataset(self, batches: list[MicroBatch]) -> Dataset[Batch]:
        """Whole utterances."""
        return UtteranceBatches(self.store, batches)

    def losses(self, model: nn.Module) -> Phase:
        """Mel, prior and duration losses around `model`."""
        assert isinstance(model, AcousticModel)
        terms = {"mel": Term(1.0, "frames"), "prior": Term(1.0, "frames"), "duration": Term(0.5, "tokens")}
        if model.config.prosody:
            terms |= {"pitch": Term(0.2, "frames"), "prosody": Term(0.1, "tokens")}
        return Phase("acoustic", AcousticLosses(model, self.diagonal_steps), terms)

    @torch.no_grad()
    def write_sample(self, model: nn.Module, folder: Path) -> None:
        """The first validation utterance: predicted and real mel, the alignment, and audio by Griffin-Lim."""
        assert isinstance(model, AcousticModel)
        planned = self.example()
        item = int(planned.items[0])
        batch = on_device_of(model, UtteranceBatches(self.store, [planned])[0])
        text = batch["tokens"], batch["token_lengths"], batch["speaker"]
        frames_BDT, _ = model.synthesize(*text, torch.ones_like(batch["speaker"], dtype=torch.float32))
        mel_BMT = frames_BDT[:, : model.mels]
        prior_BNM, mel_BTM = model.encode(*text).prior_BNM.float(), model.normalize(batch["mel"])
        durations_BN = align(prior_BNM, mel_BTM, batch["token_lengths"], batch["mel_lengths"])
        np.savez_compressed(
            folder / "mel.npz", predicted=mel_BMT[0].cpu().numpy(), target=self.store.mel(item).T.astype(np.float32)
        )
        write_alignment(folder / "alignment.npz", durations_BN[0])
        audio = self.store.audio
        write_wav(folder / "sample.wav", griffin_lim(mel_BMT[0].cpu(), audio).numpy(), audio.sample_rate)


@dataclass(frozen=True, kw_only=True)
class VocoderTrainConfig(WaveformTrainConfig):
    """Training of the vocoder."""


class VocoderRecipe(WaveformRecipe):
    """The vocoder with its features; implements `Recipe`."""

    name = "vocoder"
    sizes = VocoderConfig
    settings = VocoderTrainConfig
