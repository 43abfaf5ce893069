"""Training of waveform models (vocoder, codec) with spectral losses and optional discriminators."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset

from sonorant.audio.mel import MelConfig, log_mel
from sonorant.audio.pitch import SourceRows
from sonorant.audio.wav import write_wav
from sonorant.checked import Amount, Count, Interval, MinLen, MultipleOf, Share, Size
from sonorant.errors import SonorantError
from sonorant.features.batches import Batch, SegmentBatches
from sonorant.features.feature_store import AUDIO, MELS, PITCH
from sonorant.features.plan import MicroBatch, segment_plan
from sonorant.layers.discriminators import LONGEST_TRANSFORM, Discriminators
from sonorant.training.config import TrainConfig
from sonorant.training.initial import Initial, Taken, take_over
from sonorant.training.recipe import Phase, Recipe, Term, plan_of, utterances_of
from sonorant.training.spectra import RESOLUTIONS, mel_distance, spectral_distance

SPECTRAL, ADVERSARIAL = ("mel", "spectrum"), ("adversarial", "features")
WEIGHTS = {"mel": 2.0, "spectrum": 1.0, "adversarial": 0.5, "features": 1.0}
"""Default weights of the generator's losses."""
FAKE = "fake"
"""Batch key of the generator's output, which discriminators judge."""


@dataclass(frozen=True, kw_only=True)
class WaveformTrainConfig(TrainConfig):
    """Settings for training a waveform model."""

    segments_per_micro_batch: Count | Literal["auto"] = 8
    """Number of segments per micro-batch; auto: as many as fit into memory (training/memory.py)."""
    segment_frames: Count = 48
    """Length of a segment in mel frames."""
    adversarial: bool = True
    """Whether to train against discriminators; for real corpora and long training runs."""
    adversarial_width: Size = 16
    """Number of channels in the discriminators' first layers."""
    adversarial_frames: Count = 8
    """Number of mel frames in the random window of each segment that the discriminators judge; limited to the
    segment."""
    adversarial_share: Share = 0.4
    """Fraction of the steps with discriminators; these come last."""
    weights: dict[str, Amount] = field(default_factory=lambda: dict(WEIGHTS))
    """Weights of the losses mel and spectrum and, with discriminators, adversarial and features."""
    resolutions: Annotated[list[Annotated[Size, Interval(ge=16), MultipleOf(4)]], MinLen(1)] = field(
        default_factory=lambda: list(RESOLUTIONS)
    )
    """Transform lengths in samples for the loss `spectrum`."""

    def __post_init__(self) -> None:
        if self.patience is not None and self.adversarial:
            raise ValueError(
                "patience uses only the spectral losses, which rise against discriminators; set patience to null "
                "or adversarial to false"
            )
        if set(self.weights) != set(WEIGHTS):
            raise ValueError(f"weights must name {', '.join(WEIGHTS)}, not {', '.join(self.weights)}")

    @property
    def adversarial_from(self) -> int:
        """First step with discriminators, counted from 0."""
        return self.steps - math.ceil(self.adversarial_share * self.steps)


class GeneratorLosses(nn.Module):
    """Losses of a model that turns frames (B, R, T) into samples (B, T * hop), summed over segments."""

    def __init__(
        self, model: nn.Module, audio: MelConfig, config: WaveformTrainConfig, adversaries: Discriminators | None
    ) -> None:
        super().__init__()
        self.model, self.audio, self.config = model, audio, config
        self.judged = config.adversarial_frames * audio.hop
        # In a list, so that their weights are not among the parameters.
        self._adversaries = [adversaries] if adversaries else []

    def forward(self, batch: Batch, step: int) -> dict[str, torch.Tensor]:
        """Return the losses `mel`, `spectrum` and, with discriminators, `adversarial` and `features` for a
        `SegmentBatches` batch."""
        real_BS, (fake_BS, losses) = batch["samples"], self.copy(batch["frames"])
        batch[FAKE] = fake_BS.detach()
        with torch.autocast(real_BS.device.type, enabled=False):
            losses |= {
                "mel": mel_distance(fake_BS.float(), real_BS, self.audio),
                "spectrum": spectral_distance(fake_BS.float(), real_BS, self.config.resolutions),
            }
        for adversaries in self._adversaries if step >= self.config.adversarial_from else ():
            fake_BW, real_BW = windows((fake_BS, real_BS), self.judged)
            adversaries.requires_grad_(False)
            judged = adversaries(fake_BW)
            with torch.no_grad():
                wanted = adversaries(real_BW)
            adversaries.requires_grad_(True)
            fooled = [_sum_of_means(F.relu(1 - score.float())) for score, _ in judged]
            losses["adversarial"] = torch.stack(fooled).mean()
            pairs = [pair for (_, a), (_, b) in zip(judged, wanted, strict=True) for pair in zip(a, b, strict=True)]
            losses["features"] = torch.stack([_sum_of_means((a.float() - b.float()).abs()) for a, b in pairs]).mean()
        return losses

    def copy(self, frames_BRT: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the model's output (B, T * hop), and any additional losses."""
        return self.model(frames_BRT), {}


class DiscriminatorLosses(nn.Module):
    """Hinge loss of the discriminators, summed over segments."""

    def __init__(self, discriminators: Discriminators, judged: int) -> None:
        super().__init__()
        self.discriminators, self.judged = discriminators, judged

    def forward(self, batch: Batch, step: int) -> dict[str, torch.Tensor]:
        """Return the loss `discriminator` for a batch with the generator's output under `FAKE`."""
        real, fake = (self.discriminators(x_BW) for x_BW in windows((batch["samples"], batch[FAKE]), self.judged))
        terms = [
            _sum_of_means(F.relu(1 - a.float())) + _sum_of_means(F.relu(1 + b.float()))
            for (a, _), (b, _) in zip(real, fake, strict=True)
        ]
        return {"discriminator": torch.stack(terms).mean()}


def windows(signals: Sequence[torch.Tensor], samples: int) -> list[torch.Tensor]:
    """Return the same random window (B, samples) of all `signals` (B, S), or the whole of shorter signals (Bińkowski et
    al. 2020, "GAN-TTS", section 3.2)."""
    rows, length = signals[0].shape
    if samples >= length:
        return list(signals)
    device = signals[0].device
    starts_B1 = torch.randint(length - samples + 1, (rows, 1), device=device)
    place_BW = starts_B1 + torch.arange(samples, device=device)
    return [signal.gather(1, place_BW) for signal in signals]


def _sum_of_means(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1).mean(1).sum()


class WaveformRecipe(Recipe):
    """Recipe of a waveform model; subclasses set `sizes` and `settings`."""

    config: WaveformTrainConfig
    sizes: ClassVar[type]
    settings: ClassVar[type[WaveformTrainConfig]]

    def __init__(self, model: dict[str, Any], train: dict[str, Any], features: Path) -> None:
        """`model` is as in `_build`; `train` contains fields of `settings`."""
        super().__init__(features)
        self.config = self.settings(**train)
        self.model = self._build(self.sizes, model)
        adversaries = Discriminators(self.config.adversarial_width) if self.config.adversarial else None
        judged = self.config.adversarial_frames * self.store.audio.hop
        if adversaries and judged <= LONGEST_TRANSFORM // 2:
            least = LONGEST_TRANSFORM // 2 // self.store.audio.hop + 1
            raise SonorantError(
                f"train_{self.name}.adversarial_frames must be at least {least}, not {self.config.adversarial_frames}: "
                f"a discriminator's transform is {LONGEST_TRANSFORM} samples long"
            )
        names = SPECTRAL + ADVERSARIAL if adversaries else SPECTRAL
        self.phases = [Phase("generator", self._losses(self.model, adversaries), self._terms(names, self.model))]
        if adversaries:
            hinge, begins = {"discriminator": Term(1.0, "segments")}, self.config.adversarial_from
            self.phases.append(Phase("discriminator", DiscriminatorLosses(adversaries, judged), hinge, begins))
        self.budget = None if self.config.segments_per_micro_batch == "auto" else self.config.segments_per_micro_batch
        self.items = utterances_of(self.store, "train")
        self.validation_items = utterances_of(self.store, "validation")
        # A window without a long enough utterance must not raise in `segment_plan`.
        long_enough = self.items[self.store.frames[self.items] >= self.config.segment_frames]
        items = self.items if self.config.window_shards is None else long_enough
        self.plan = plan_of(
            self.store, items, self.config, self._plan, lambda read: self.store.fetch(read, (MELS, PITCH, AUDIO))
        )

    def _plan(self, items: np.ndarray, epoch: int) -> list[MicroBatch]:
        if self.budget is None:
            key = f"train_{self.name}.segments_per_micro_batch"
            raise SonorantError(f"{key} is auto, but a plan needs a number; set one")
        seed, length = self.config.seed, self.config.segment_frames
        return segment_plan(self.store.frames, items, segments=self.budget, length=length, seed=seed, epoch=epoch)

    @property
    def notes(self) -> list[str]:
        frames, length = self.store.frames[self.items], self.config.segment_frames
        short = int((frames < length).sum())
        shorter = f"are shorter than train_{self.name}.segment_frames ({length}) and are not trained on"
        return [f"{self.name}: {short} of {len(frames)} utterances {shorter}"] if short else []

    def budget_range(self, steps_an_epoch: int) -> tuple[int, int]:
        segments = int((self.store.frames[self.items] >= self.config.segment_frames).sum())
        return 1, max(1, segments // (self.config.micro_batches_per_step * steps_an_epoch))

    def heaviest(self) -> list[MicroBatch]:
        return self.plan.first()[:1]

    def dataset(self, batches: list[MicroBatch]) -> Dataset[Batch]:
        return SegmentBatches(self.store, batches, self.config.segment_frames)

    def units(self, batch: MicroBatch) -> dict[str, float]:
        frames = float(len(batch.items) * self.config.segment_frames)
        return {"segments": float(len(batch.items)), "frames": frames, "padded_frames": frames}

    def validation(self) -> list[MicroBatch]:
        return self._plan(self.validation_items, 0)

    def losses(self, model: nn.Module) -> Phase:
        """Return only spectral losses, because losses from changing discriminators are not comparable."""
        return Phase("generator", self._losses(model, None), self._terms(SPECTRAL, model))

    def _losses(self, model: nn.Module, adversaries: Discriminators | None) -> GeneratorLosses:
        return GeneratorLosses(model, self.store.audio, self.config, adversaries)

    def _terms(self, names: Sequence[str], model: nn.Module) -> dict[str, Term]:
        return {name: Term(self.config.weights[name], "segments") for name in names}

    @torch.no_grad()
    def write_sample(self, model: nn.Module, folder: Path) -> None:
        item = int(self.validation_items[0])
        audio = self.store.audio
        frames_1RT = SourceRows(audio.sample_rate, audio.hop).append(self.store.mel_and_pitch(item).T[None])
        samples_S = self._copy(model, torch.from_numpy(frames_1RT).to(next(model.parameters()).device))[0].cpu()
        predicted_MT, target_MT = log_mel(samples_S, audio).numpy(), frames_1RT[0, : audio.n_mels]
        np.savez_compressed(folder / "mel.npz", predicted=predicted_MT, target=target_MT)
        write_wav(folder / "sample.wav", samples_S.clamp(-1.0, 1.0).numpy(), audio.sample_rate)

    def _copy(self, model: nn.Module, frames_BRT: torch.Tensor) -> torch.Tensor:
        samples_BS: torch.Tensor = model(frames_BRT)
        return samples_BS

    def start_from(self, initial: Initial) -> Taken:
        """Copy matching weights; discriminators start from random weights."""
        return take_over(self.model, self._description, initial)
