"""Base class of recipes that train on whole utterances."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from torch import nn

from sonorant.checked import Count, Whole
from sonorant.errors import SonorantError
from sonorant.features.batches import FRAMES_MULTIPLE, Batch
from sonorant.features.feature_store import MELS, PITCH, TOKENS
from sonorant.features.plan import MicroBatch, utterance_plan
from sonorant.layers.phoneme_encoder import PhonemeEncoder
from sonorant.training.config import TrainConfig
from sonorant.training.initial import Initial, Taken, take_over
from sonorant.training.newcomers import Newcomers
from sonorant.training.recipe import Recipe, plan_of, utterances_of


@dataclass(frozen=True, kw_only=True)
class UtteranceTrainConfig(TrainConfig):
    """Settings for training a speech model that learns to align utterances and texts."""

    learning_rate_batch: Count | None = 2200
    frames_per_micro_batch: Count | Literal["auto"] = 1100
    """Maximum number of padded mel frames per micro-batch; auto: as many as fit into memory (training/memory.py)."""
    diagonal_steps: Whole = 300
    """Number of steps over which the diagonal prior of the alignment search fades out."""
    freeze_steps: Whole = 0
    """Number of first fine-tuning steps (`init_from`) that train only the embeddings of new speakers. If equal to
    `steps`, other voices stay bit-identical."""

    def __post_init__(self) -> None:
        if self.freeze_steps > self.steps:
            raise ValueError(f"freeze_steps must be at most steps ({self.steps}), not {self.freeze_steps}")
        if self.freeze_steps and not self.init_from:
            raise ValueError(
                "freeze_steps is for fine-tuning: set init_from to the voice that new speakers are added to"
            )

    def from_scratch(self) -> Self:
        return replace(self, init_from=None, freeze_steps=0)


class Utterances(Recipe):
    model: PhonemeEncoder
    diagonal_steps: int

    def __init__(self, name: str, config: UtteranceTrainConfig, features: Path) -> None:
        """`name` is the recipe's name; its settings are in section train_<name>."""
        super().__init__(features)
        self.section = f"train_{name}"
        self.seed, self.steps, self.freeze_steps = config.seed, config.steps, config.freeze_steps
        self.budget = None if config.frames_per_micro_batch == "auto" else config.frames_per_micro_batch
        self.items = self._trainable("train")
        self.validation_items = self._trainable("validation")
        self.plan = plan_of(self.store, self.items, config, self._plan, self._fetch)

    def _plan(self, items: np.ndarray, epoch: int) -> list[MicroBatch]:
        if self.budget is None:
            raise SonorantError(f"{self.section}.frames_per_micro_batch is auto, but a plan needs a number; set one")
        return utterance_plan(self.store.frames, items, budget=self.budget, seed=self.seed, epoch=epoch)

    def _fetch(self, items: np.ndarray) -> None:
        self.store.fetch(items, (MELS, PITCH, TOKENS))

    def budget_range(self, steps_an_epoch: int) -> tuple[int, int]:
        smallest = int(max(self.store.frames[self.items].max(), self.store.frames[self.validation_items].max()))
        steps = self.plan.micro_batches_per_step * steps_an_epoch
        return smallest, max(smallest, int(self.store.frames[self.items].sum()) // steps)

    def heaviest(self) -> list[MicroBatch]:
        """Return the longest utterances that fit, and the micro-batch with the most tokens."""
        assert self.budget is not None
        longest = self.items[np.argsort(self.store.frames[self.items], kind="stable")[::-1]]
        count = max(1, self.budget // int(self.store.frames[longest[0]]))
        plan, tokens = self.plan.first(), self.store.tokens_count
        return [
            MicroBatch(0, 0, longest[:count]),
            max(plan, key=lambda batch: len(batch.items) * int(tokens[batch.items].max())),
        ]

    def units(self, batch: MicroBatch) -> dict[str, float]:
        frames = self.store.frames[batch.items]
        padded = -(-int(frames.max()) // FRAMES_MULTIPLE) * FRAMES_MULTIPLE * len(frames)
        tokens = float(self.store.tokens_count[batch.items].sum())
        return {"frames": float(frames.sum()), "padded_frames": float(padded), "tokens": tokens}

    def validation(self) -> list[MicroBatch]:
        return self._plan(self.validation_items, 0)

    def start_from(self, initial: Initial) -> Taken:
        """Copy matching weights, and the mel statistics they were trained with."""
        taken = take_over(self.model, self._description, initial)
        self._description |= {key: initial.description[key] for key in ("mel_mean", "mel_std")}
        # A model with these weights aligns without the diagonal prior.
        if taken.whole("symbol", "encoder", "near", "prior"):
            self.diagonal_steps = 0
            self.phases = [self.losses(self.model)]
        if self.freeze_steps:
            newcomers = self._newcomers(taken)
            self.phases = [replace(phase, newcomers=newcomers) for phase in self.phases]
        return taken

    def _newcomers(self, taken: Taken) -> Newcomers:
        """Return the new speakers. Raises SonorantError if other weights need training from the first step."""
        setting, speakers = f"{self.section}.freeze_steps {self.freeze_steps}", taken.new_rows["speakers"]
        if not speakers:
            known = ", ".join(self._description["speakers"])
            raise SonorantError(f"{setting}: {taken.source} already has all speakers ({known}); set it to 0")
        if taken.anew:
            raise SonorantError(
                f"{setting}: {taken.anew[0]} cannot be copied from {taken.source}, so it needs training from the "
                "first step; set it to 0, or use the sizes, codec and settings of that voice"
            )
        if self.freeze_steps == self.steps and (symbols := taken.new_rows["symbols"]):
            raise SonorantError(
                f"{setting}: {taken.source} lacks the phonemes {' '.join(symbols)}, which would never be "
                f"learned; set it below {self.section}.steps"
            )
        rows = tuple(self._description["speakers"].index(speaker) for speaker in speakers)
        return Newcomers(steps=self.freeze_steps, embedding=self.model.speaker, rows=rows)

    def example(self) -> MicroBatch:
        return MicroBatch(0, 0, self.validation()[0].items[:1])

    def _trainable(self, split: str) -> np.ndarray:
        store, items = self.store, utterances_of(self.store, split)
        too_short = items[store.frames[items] < store.tokens_count[items]]
        if len(too_short):
            raise SonorantError(
                f"utterance {store.ids[int(too_short[0])]} ({split}) has fewer mel frames than phonemes: "
                "its text does not match its audio; lower prepare.max_characters_per_second"
            )
        longest = int(items[store.frames[items].argmax()])
        if self.budget is not None and store.frames[longest] > self.budget:
            raise SonorantError(
                f"utterance {store.ids[longest]} ({split}) has {store.frames[longest]} frames, more than a micro-batch "
                f"may hold: raise {self.section}.frames_per_micro_batch ({self.budget}) or lower prepare.max_seconds"
            )
        return items


def on_device_of(model: nn.Module, batch: Batch) -> Batch:
    device = next(model.parameters()).device
    return {name: value.to(device) for name, value in batch.items()}


def write_alignment(path: Path, durations_N: torch.Tensor) -> None:
    """Write durations (N,) int64 to `path` as an image `alignment` (N, T) uint8."""
    owner_T = torch.repeat_interleave(torch.arange(len(durations_N)), durations_N.cpu())
    alignment_TN = nn.functional.one_hot(owner_T, len(durations_N))
    np.savez_compressed(path, alignment=alignment_TN.T.numpy().astype(np.uint8))
