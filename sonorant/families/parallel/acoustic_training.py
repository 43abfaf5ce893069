"""Training of the `parallel` family: the acoustic model on alignment, prosody and mel, and the vocoder on spectra."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from sonorant.audio.arrays import Floats
from sonorant.audio.mel import griffin_lim
from sonorant.audio.wav import write_wav
from sonorant.checked import Count
from sonorant.errors import SonorantError
from sonorant.families.parallel.acoustic import UNVOICED, AcousticConfig, AcousticModel
from sonorant.families.parallel.saved import load_acoustic
from sonorant.families.parallel.vocoder import VocoderConfig
from sonorant.features.batches import Batch, UtteranceBatches
from sonorant.features.feature_store import FeatureStore
from sonorant.features.plan import MicroBatch
from sonorant.layers.alignment import align, prior_loss
from sonorant.training.recipe import Phase, Term
from sonorant.training.utterances import Utterances, UtteranceTrainConfig, on_device_of, write_alignment
from sonorant.training.waveform import WaveformRecipe, WaveformTrainConfig


@dataclass(frozen=True, kw_only=True)
class AcousticTrainConfig(UtteranceTrainConfig):
    steps: Count = 1500


class AcousticLosses(nn.Module):
    """Computes the alignment and the summed losses of a batch."""

    def __init__(self, model: AcousticModel, diagonal_steps: int, freeze_steps: int) -> None:
        super().__init__()
        self.model = model
        self.diagonal_steps, self.freeze_steps = diagonal_steps, freeze_steps

    def forward(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Batch of `UtteranceBatches` -> `mel`, `prior` and `pitch`, summed over frames; `duration` and `prosody`,
        summed over tokens."""
        model = self.model
        mel_BTM = model.normalize(batch["mel"])
        encoded = model.encode(batch["tokens"], batch["token_lengths"], batch["speaker"])
        prior_BNM = encoded.prior_BNM.float()
        lengths = batch["token_lengths"], batch["mel_lengths"]
        durations_BN = align(prior_BNM, mel_BTM, *lengths, step, self.diagonal_steps)
        time_T = torch.arange(mel_BTM.shape[1], device=mel_BTM.device)
        prosody_BN2, heard_BN = model.prosody_of(batch["mel"], batch["pitch"], durations_BN)
        heard = encoded.heard_and_trained if step < self.freeze_steps else encoded.heard
        told_BN3 = model.prosody.errors(*heard, durations_BN, prosody_BN2)
        states_BNP = model.states(encoded, batch["speaker"], prosody_BN2)
        expanded = model.expand(states_BNP, durations_BN.cumsum(1), time_T)
        wanted_BTD = model.normalized_frames(batch["mel"], batch["pitch"], expanded.prosody_BT2)
        errors_BTD = model.decoder.errors(expanded.hidden_BTC, expanded.mask_BT1, wanted_BTD)
        heard_BT = UNVOICED + (1 - UNVOICED) * batch["pitch"][..., 1]
        return {
            "prior": prior_loss(prior_BNM, mel_BTM, durations_BN, *lengths),
            "duration": told_BN3[..., 0].sum(),
            "prosody": (told_BN3[..., 1] * heard_BN + told_BN3[..., 2]).sum(),
            "mel": errors_BTD[..., : model.mels].mean(2).sum(),
            "pitch": (errors_BTD[..., model.mels] * heard_BT + errors_BTD[..., model.mels + 1]).sum(),
        }


class AcousticRecipe(Utterances):
    name = "acoustic"

    def __init__(self, model: dict[str, Any], train: dict[str, Any], features: Path) -> None:
        self.config = AcousticTrainConfig(**train)
        super().__init__(self.name, self.config, features)
        self.model = cast(AcousticModel, self._build(AcousticConfig, model))
        self.diagonal_steps = self.config.diagonal_steps
        self.phases = [self.losses(self.model)]

    def dataset(self, batches: list[MicroBatch]) -> Dataset[Batch]:
        return UtteranceBatches(self.store, batches)

    def losses(self, model: nn.Module) -> Phase:
        assert isinstance(model, AcousticModel)
        terms = {
            "mel": Term(1.0, "frames"),
            "prior": Term(1.0, "frames"),
            "duration": Term(0.5, "tokens"),
            "pitch": Term(0.2, "frames"),
            "prosody": Term(0.1, "tokens"),
        }
        return Phase("acoustic", AcousticLosses(model, self.diagonal_steps, self.freeze_steps), terms)

    @torch.no_grad()
    def write_sample(self, model: nn.Module, folder: Path) -> None:
        """Write the first validation utterance: predicted and real mel, alignment, and audio by Griffin-Lim."""
        assert isinstance(model, AcousticModel)
        planned = self.example()
        item = int(planned.items[0])
        batch = on_device_of(model, UtteranceBatches(self.store, [planned])[0])
        text = batch["tokens"], batch["token_lengths"], batch["speaker"]
        frames_BDT, _ = model.synthesize(*text, torch.ones_like(batch["speaker"], dtype=torch.float32))
        mel_BMT = frames_BDT[:, : model.mels]
        np.savez_compressed(
            folder / "mel.npz", predicted=mel_BMT[0].cpu().numpy(), target=self.store.mel(item).T.astype(np.float32)
        )
        write_alignment(folder / "alignment.npz", durations_of(model, batch)[0])
        audio = self.store.audio
        write_wav(folder / "sample.wav", griffin_lim(mel_BMT[0].cpu(), audio).numpy(), audio.sample_rate)


@torch.no_grad()
def predicted_mels(folder: Path, store: FeatureStore) -> Iterator[Floats]:
    """Yield each utterance's log-mel (T, M) float32 from the acoustic model in `folder`, with the recording's timing:
    ground-truth-aligned synthesis (Shen et al. 2018, "Tacotron 2", 2.3; Kong et al. 2020, "HiFi-GAN", 4.4).

    Raises SonorantError if the model was trained on different speakers, symbols or mels."""
    model, description = load_acoustic(folder)
    for key in ("audio", "symbols", "speakers"):
        if description[key] != store.header[key]:
            raise SonorantError(f"{folder}: its {key} differ from those of {store.path}; train the model again")
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    for item in range(len(store)):
        alone = UtteranceBatches(store, [MicroBatch(0, 0, np.array([item]))])[0]
        mel_BTM = say_in_time(model, on_device_of(model, alone))
        yield mel_BTM[0, : store.frames[item]].cpu().numpy()


def say_in_time(model: AcousticModel, batch: Batch) -> Tensor:
    """Batch of `UtteranceBatches` -> log-mel (B, T, M) with the recording's pitch, energy and aligned durations."""
    return mel_in_time(model, batch, durations_of(model, batch), batch["mel"].shape[1]).transpose(1, 2)


def durations_of(model: AcousticModel, batch: Batch) -> Tensor:
    """Return the number of frames of each token (B, N) from the alignment search."""
    prior_BNM = model.encode(batch["tokens"], batch["token_lengths"], batch["speaker"]).prior_BNM.float()
    return align(prior_BNM, model.normalize(batch["mel"]), batch["token_lengths"], batch["mel_lengths"])


def mel_in_time(model: AcousticModel, batch: Batch, durations_BN: Tensor, frames: int) -> Tensor:
    """Return a log-mel (B, M, frames) with these durations and the recording's pitch and energy."""
    encoded = model.encode(batch["tokens"], batch["token_lengths"], batch["speaker"])
    prosody_BN2, _ = model.prosody_of(batch["mel"], batch["pitch"], durations_BN)
    states_BNP = model.states(encoded, batch["speaker"], prosody_BN2)
    time_T = torch.arange(frames, device=durations_BN.device)
    return model.decode(states_BNP, durations_BN.cumsum(1), time_T)[:, : model.mels]


@dataclass(frozen=True, kw_only=True)
class VocoderTrainConfig(WaveformTrainConfig):
    learning_rate_batch: Count | None = 16
    checkpoint_every: Count = 150


class VocoderRecipe(WaveformRecipe):
    name = "vocoder"
    sizes = VocoderConfig
    settings = VocoderTrainConfig
