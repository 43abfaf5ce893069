"""How the parallel acoustic model learns: alignment, durations, mel. Knows nothing of ranks, checkpoints or steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from sonorant.audio.griffin_lim import griffin_lim
from sonorant.audio.wav import write_wav
from sonorant.data.batches import FRAMES_MULTIPLE, Batch, UtteranceBatches
from sonorant.data.features import FeatureStore
from sonorant.data.plan import MicroBatch, Plan, utterance_plan
from sonorant.errors import SonorantError
from sonorant.models.acoustic import AcousticConfig, AcousticModel
from sonorant.models.alignment import diagonal_prior, monotonic_alignment
from sonorant.models.saved import build, describe
from sonorant.training.config import TrainConfig
from sonorant.training.initial import Initial, Taken, take_over
from sonorant.training.recipe import Phase, Term, utterances_of

DIAGONAL_WEIGHT = 2000.0
"""Strength of the diagonal prior at step 0, in nats of a frame's log-likelihood at a distance of the whole utterance."""


@dataclass(frozen=True, kw_only=True)
class AcousticTrainConfig(TrainConfig):
    """Training of the acoustic model."""

    frames_per_micro_batch: int | Literal["auto"]
    """Padded mel frames a micro-batch may hold; auto: found at the start of a run, see training/budget.py."""
    diagonal_steps: int
    """Steps over which the alignment search's pull to the diagonal fades out."""


class AcousticLosses(nn.Module):
    """The summed losses of a batch, and the alignment they rest on."""

    def __init__(self, model: AcousticModel, diagonal_steps: int) -> None:
        super().__init__()
        self.model = model
        self.diagonal_steps = diagonal_steps

    def forward(self, batch: Batch, step: int) -> dict[str, torch.Tensor]:
        """Batch of `UtteranceBatches` -> `mel` and `prior` summed over frames, `duration` summed over tokens."""
        model = self.model
        mel_BTM = (batch["mel"] - model.mel_mean) / model.mel_std
        encoded = model.encode(batch["tokens"], batch["token_lengths"], batch["speaker"])
        prior_BNM = encoded.prior_BNM.float()
        durations_BN = self.align(prior_BNM, mel_BTM, batch["token_lengths"], batch["mel_lengths"], step)
        time_T = torch.arange(mel_BTM.shape[1], device=mel_BTM.device)
        hidden_BTC, owner_BT, mask_BT1 = model.expand(encoded.states_BNC, durations_BN.cumsum(1), time_T)
        aligned_BTM = prior_BNM.gather(1, owner_BT[..., None].expand(-1, -1, mel_BTM.shape[2]))
        prior = (0.5 * ((aligned_BTM - mel_BTM) ** 2).mean(2, keepdim=True) * mask_BT1).sum()
        mel = model.decoder.loss(hidden_BTC + model.speaker(batch["speaker"])[:, None], mask_BT1, mel_BTM)
        log_BN = encoded.log_duration_BN.float()
        # Poisson deviance: unlike a squared error of the logarithm its mean is right, so speech is not shortened.
        wanted_BN = durations_BN.clamp(min=1)
        deviance_BN = log_BN.exp() - wanted_BN + wanted_BN * (wanted_BN.log() - log_BN)
        duration = (deviance_BN / 8.0 * encoded.mask_BN).sum()
        return {"mel": mel, "prior": prior, "duration": duration}

    @torch.no_grad()
    def align(
        self, prior_BNM: torch.Tensor, mel_BTM: torch.Tensor, token_lengths: torch.Tensor, mel_lengths: torch.Tensor, step: int
    ) -> torch.Tensor:
        """(B, N) int64 durations by alignment search under unit-variance Gaussians around each token's prior."""
        distance_BNT = torch.cdist(prior_BNM, mel_BTM.float(), compute_mode="use_mm_for_euclid_dist")
        score_BNT = -0.5 * distance_BNT.square()
        fade = max(0.0, 1.0 - step / self.diagonal_steps) if self.diagonal_steps else 0.0
        if fade:
            score_BNT = score_BNT + fade * DIAGONAL_WEIGHT * diagonal_prior(token_lengths, mel_lengths, *score_BNT.shape[1:])
        return monotonic_alignment(score_BNT, token_lengths, mel_lengths)


class AcousticRecipe:
    """The acoustic model with its features; implements `Recipe`."""

    name = "acoustic"

    def __init__(self, model: dict[str, Any], train: dict[str, Any], features: Path) -> None:
        """`model`: fields of AcousticConfig and, for int8 layers, `quantization` of `model.json`; `train`: of AcousticTrainConfig."""
        self.config = AcousticTrainConfig(**train)
        self.store = FeatureStore.open(features)
        self.seconds_per_frame = self.store.audio.hop / self.store.audio.sample_rate
        self.budget = None if self.config.frames_per_micro_batch == "auto" else self.config.frames_per_micro_batch
        self.items = _trainable(self.store, "train", self.config)
        self.validation_items = _trainable(self.store, "validation", self.config)
        sizes = {key: value for key, value in model.items() if key != "quantization"}
        self._description = describe("acoustic", AcousticConfig(**sizes), self.store.header, model.get("quantization"))
        torch.manual_seed(self.config.seed)
        self.model = cast(AcousticModel, build(self._description))
        self.diagonal_steps = self.config.diagonal_steps
        self.phases = [self.losses(self.model)]
        self.plan = Plan(self.config.micro_batches_per_step, lambda epoch: self._plan(self.items, epoch))

    def _plan(self, items: np.ndarray, epoch: int) -> list[MicroBatch]:
        if self.budget is None:
            raise SonorantError("train_acoustic.frames_per_micro_batch is auto and not yet found: no plan without it")
        return utterance_plan(self.store.frames, items, budget=self.budget, seed=self.config.seed, epoch=epoch)

    @property
    def notes(self) -> list[str]:
        """None."""
        return []

    def budget_range(self, steps_an_epoch: int) -> tuple[int, int]:
        """From the longest utterance to an equal share of all frames."""
        smallest = int(max(self.store.frames[self.items].max(), self.store.frames[self.validation_items].max()))
        steps = self.config.micro_batches_per_step * steps_an_epoch
        return smallest, max(smallest, int(self.store.frames[self.items].sum()) // steps)

    def heaviest(self) -> list[MicroBatch]:
        """As many of the longest utterances as fit, and the micro-batch with the most tokens."""
        assert self.budget is not None
        longest = self.items[np.argsort(self.store.frames[self.items], kind="stable")[::-1]]
        count = max(1, self.budget // int(self.store.frames[longest[0]]))
        tokens = max(
            self.plan.micro_batches(0), key=lambda batch: len(batch.items) * int(self.store.tokens_count[batch.items].max())
        )
        return [MicroBatch(0, 0, longest[:count]), tokens]

    def dataset(self, batches: list[MicroBatch]) -> Dataset[Batch]:
        """Whole utterances."""
        return UtteranceBatches(self.store, batches)

    def units(self, batch: MicroBatch) -> dict[str, float]:
        """Real frames and tokens, and frames as the dataset pads them."""
        frames = self.store.frames[batch.items]
        padded = -(-int(frames.max()) // FRAMES_MULTIPLE) * FRAMES_MULTIPLE * len(frames)
        tokens = float(self.store.tokens_count[batch.items].sum())
        return {"frames": float(frames.sum()), "padded_frames": float(padded), "tokens": tokens}

    def validation(self) -> list[MicroBatch]:
        """The whole validation split, in one fixed order."""
        return self._plan(self.validation_items, 0)

    def losses(self, model: nn.Module) -> Phase:
        """Mel, prior and duration losses around `model`."""
        assert isinstance(model, AcousticModel)
        terms = {"mel": Term(1.0, "frames"), "prior": Term(1.0, "frames"), "duration": Term(0.5, "tokens")}
        return Phase("acoustic", AcousticLosses(model, self.diagonal_steps), terms)

    @torch.no_grad()
    def write_sample(self, model: nn.Module, folder: Path) -> None:
        """The first validation utterance: predicted and real mel, the alignment, and audio by Griffin-Lim (the vocoder trains apart)."""
        assert isinstance(model, AcousticModel)
        item = int(self.validation()[0].items[0])
        device = next(model.parameters()).device
        batch = {
            name: value.to(device) for name, value in UtteranceBatches(self.store, [MicroBatch(0, 0, np.array([item]))])[0].items()
        }
        mel_BMT, _ = model.synthesize(batch["tokens"], batch["token_lengths"], batch["speaker"], torch.ones(1, device=device))
        encoded = model.encode(batch["tokens"], batch["token_lengths"], batch["speaker"])
        losses = AcousticLosses(model, 0)
        mel_BTM = (batch["mel"] - model.mel_mean) / model.mel_std
        durations = losses.align(encoded.prior_BNM.float(), mel_BTM, batch["token_lengths"], batch["mel_lengths"], 0)[0].cpu()
        owner = torch.repeat_interleave(torch.arange(len(durations)), durations)
        np.savez_compressed(
            folder / "mel.npz", predicted=mel_BMT[0].cpu().numpy(), target=self.store.mel(item).T.astype(np.float32)
        )
        np.savez_compressed(
            folder / "alignment.npz", alignment=torch.nn.functional.one_hot(owner, len(durations)).T.numpy().astype(np.uint8)
        )
        audio = self.store.audio
        write_wav(folder / "sample.wav", griffin_lim(mel_BMT[0].cpu(), audio).numpy(), audio.sample_rate)

    def start_from(self, initial: Initial) -> Taken:
        """Take over what fits, and the statistics of the mel that the weights were trained with: they speak in their units."""
        taken = take_over(self.model, self._description, initial)
        self._description |= {key: initial.description[key] for key in ("mel_mean", "mel_std")}
        if taken.whole("symbol", "encoder", "prior"):  # it can align: the pull to the diagonal would only disturb it
            self.diagonal_steps = 0
            self.phases = [self.losses(self.model)]
        return taken

    def description(self) -> dict[str, Any]:
        """What `model.json` says."""
        return self._description


def _trainable(store: FeatureStore, split: str, config: AcousticTrainConfig) -> np.ndarray:
    items = utterances_of(store, split)
    too_short = items[store.frames[items] < store.tokens_count[items]]
    if len(too_short):
        raise SonorantError(
            f"utterance {store.ids[int(too_short[0])]} ({split}) has fewer mel frames than phonemes: "
            "its text cannot belong to its audio; lower prepare.max_characters_per_second"
        )
    longest = int(items[store.frames[items].argmax()])
    if config.frames_per_micro_batch != "auto" and store.frames[longest] > config.frames_per_micro_batch:
        raise SonorantError(
            f"utterance {store.ids[longest]} ({split}) has {store.frames[longest]} frames, more than a micro-batch may hold: "
            f"raise train_acoustic.frames_per_micro_batch ({config.frames_per_micro_batch}) or lower prepare.max_seconds"
        )
    return items
