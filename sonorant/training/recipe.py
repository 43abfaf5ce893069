"""What the training loop must know of a model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from sonorant.errors import SonorantError
from sonorant.features.batches import Batch
from sonorant.features.feature_store import FeatureStore
from sonorant.features.plan import MicroBatch, Plan, balanced, times_heard
from sonorant.features.windows import Windows
from sonorant.training.config import TrainConfig
from sonorant.training.initial import Initial, Taken
from sonorant.training.newcomers import Newcomers

Tensors = dict[str, torch.Tensor]
"""By name: losses, gradient norms, a part of the state."""


@dataclass(frozen=True)
class Term:
    """One term of a loss: its weight and what its sum is divided by."""

    weight: float
    unit: str
    """Name of a count of `Recipe.units`: the term's sum over the global batch is divided by the global count."""


@dataclass(frozen=True)
class Phase:
    """A module trained by an optimizer of its own. A plain model has one phase, an adversarial one has two."""

    name: str
    module: nn.Module
    """`forward(batch, step) -> dict of summed losses`, of `terms`; all its parameters get gradients."""
    terms: dict[str, Term] = field(default_factory=dict)
    """Of all losses there may be: a step may leave some out."""
    begins: int = 0
    """The optimizer step, from 0, before which the phase is left out."""
    newcomers: Newcomers | None = None
    """Who learns alone in the first steps of a fine-tuning; None: nobody."""


class Recipe(Protocol):
    """A model with its data and losses."""

    @property
    def name(self) -> str:
        """Kind of the model, as `model.json` names it."""

    @property
    def config(self) -> TrainConfig:
        """How to train it."""

    @property
    def model(self) -> nn.Module:
        """What is averaged, validated and saved."""

    @property
    def store(self) -> FeatureStore:
        """The features it learns from."""

    @property
    def phases(self) -> list[Phase]:
        """Trained one after the other on each micro-batch; the first one's loss is the run's loss."""

    @property
    def plan(self) -> Plan:
        """Which utterances meet in which step."""

    budget: int | None
    """What a micro-batch of the plan may hold, in the recipe's own measure; None while it has to be found (`auto`)."""

    @property
    def notes(self) -> list[str]:
        """Lines that a person should read before this training starts."""

    def budget_range(self, steps_an_epoch: int) -> tuple[int, int]:
        """The smallest budget that holds every sample, and the largest (not below it) that leaves as many steps."""

    def heaviest(self) -> list[MicroBatch]:
        """Micro-batches that take as much memory as any of the plan at the present budget."""

    @property
    def seconds_per_frame(self) -> float:
        """Turns frames into audio-seconds."""

    def dataset(self, batches: list[MicroBatch]) -> Dataset[Batch]:
        """The tensors of these micro-batches."""

    def units(self, batch: MicroBatch) -> dict[str, float]:
        """Counts of a micro-batch, known from the plan alone; among them `frames` and `padded_frames`."""

    def validation(self) -> list[MicroBatch]:
        """Fixed micro-batches of the validation split."""

    def losses(self, model: nn.Module) -> Phase:
        """The losses to validate `model` (the EMA) with; the best checkpoint has the smallest weighted sum."""

    def write_sample(self, model: nn.Module, folder: Path) -> None:
        """Write `mel.npz`, `sample.wav` and whatever else shows how `model` does into `folder`."""

    def start_from(self, initial: Initial) -> Taken:
        """Take over the trained weights that fit, before the first step. Raises SonorantError if none does."""

    def description(self) -> dict[str, Any]:
        """The content of the trained model's `model.json`, without the provenance of the run."""


def utterances_of(store: FeatureStore, split: str) -> np.ndarray:
    """Indices int64 of the utterances of a split. Raises SonorantError if there are none, before training starts."""
    items = store.indices(split)
    if not len(items):
        remedy = "add recordings or change prepare.validation and prepare.test"
        raise SonorantError(f"the feature store has no utterances in its {split} split: {remedy}")
    return items


def plan_of(
    store: FeatureStore,
    items: np.ndarray,
    config: TrainConfig,
    make: Callable[[np.ndarray, int], list[MicroBatch]],
    fetch: Callable[[np.ndarray], None],
) -> Plan:
    """The plan of a training on `items`, int64 indices into `store`: of the whole corpus, or by windows of shards.

    Args:
        make: plans the micro-batches of some items in an epoch.
        fetch: brings what is read of some items onto this machine.
    """
    if config.window_shards is None or not len(items):

        def whole(epoch: int) -> list[MicroBatch]:
            how: dict[str, Any] = {"balance": config.speaker_balance, "seed": config.seed, "epoch": epoch}
            return make(balanced(items, store.speaker, store.frames, **how), epoch)

        return Plan(config.micro_batches_per_step, whole)
    times = times_heard(items, store.speaker, store.frames, config.speaker_balance)
    windows = Windows(store.index, items, times, shards=config.window_shards, seed=config.seed)

    def planned(number: int) -> list[MicroBatch]:
        taken = windows.items(number)
        return make(taken, number) if len(taken) else []

    return Plan(config.micro_batches_per_step, planned, windows.count, lambda number: fetch(windows.items(number)))


def weighted(phase: Phase, losses: Tensors, totals: dict[str, float]) -> torch.Tensor:
    """The scalar to minimise: each summed loss over its global count, weighted."""
    terms = [term.weight / totals[term.unit] * losses[name] for name, term in phase.terms.items() if name in losses]
    return torch.stack(terms).sum()
