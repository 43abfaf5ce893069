"""The interface between the training loop and a model."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from sonorant.errors import SonorantError
from sonorant.features.batches import Batch
from sonorant.features.feature_store import FeatureStore
from sonorant.features.plan import MicroBatch, Plan, balanced, times_heard
from sonorant.features.windows import Windows
from sonorant.layers.model_folder import build, describe
from sonorant.training.config import TrainConfig
from sonorant.training.initial import Initial, Taken
from sonorant.training.newcomers import Newcomers

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Term:
    weight: float
    unit: str
    """Key of `Recipe.units`; the loss is divided by this unit's total over the global batch."""


@dataclass(frozen=True)
class Phase:
    """A module with a separate optimizer. Adversarial training has two phases."""

    name: str
    module: nn.Module
    """`forward(batch, step)` returns summed losses by name; all parameters get gradients."""
    terms: dict[str, Term] = field(default_factory=dict)
    """Weight and unit of each possible loss."""
    begins: int = 0
    """First optimizer step of the phase, counted from 0."""
    newcomers: Newcomers | None = None
    """New speakers; only they are trained in the first steps of fine-tuning."""


class Recipe(ABC):
    """A model with its data and losses."""

    name: str
    """Kind of the model in `model.json`."""
    config: TrainConfig
    model: nn.Module
    """Model that is averaged, validated and saved."""
    phases: list[Phase]
    """Phases in training order on each micro-batch; the first phase's loss is logged as the run's."""
    plan: Plan
    budget: int | None
    """Maximum size of a micro-batch in the recipe's unit; None until `auto` is resolved."""
    _description: dict[str, Any]

    def __init__(self, features: Path) -> None:
        self.store = FeatureStore.open(features)
        self.seconds_per_frame = self.store.audio.hop / self.store.audio.sample_rate

    def _build(self, sizes: type, model: dict[str, Any], **more: Any) -> nn.Module:
        """Build the model from the seed, and keep its description, extended by `more`. `model` contains the fields of
        `sizes` and, for int8 layers, `quantization` as in `model.json`."""
        fields = {key: value for key, value in model.items() if key != "quantization"}
        self._description = describe(self.name, sizes(**fields), self.store.header, model.get("quantization")) | more
        torch.manual_seed(self.config.seed)
        return build(self._description)

    @property
    def notes(self) -> list[str]:
        """Lines to log before training starts."""
        return []

    @abstractmethod
    def budget_range(self, steps_an_epoch: int) -> tuple[int, int]:
        """Return the smallest budget that holds every sample, and the largest that leaves `steps_an_epoch` steps."""

    @abstractmethod
    def heaviest(self) -> list[MicroBatch]:
        """Return the micro-batches of the plan that need the most memory."""

    @abstractmethod
    def dataset(self, batches: list[MicroBatch]) -> Dataset[Batch]: ...

    @abstractmethod
    def units(self, batch: MicroBatch) -> dict[str, float]:
        """Count each unit in a micro-batch, including `frames` and `padded_frames`, from the plan alone."""

    @abstractmethod
    def validation(self) -> list[MicroBatch]:
        """Return the fixed micro-batches of the validation split."""

    @abstractmethod
    def losses(self, model: nn.Module) -> Phase:
        """Return the losses to validate `model` (the EMA); the best checkpoint has the smallest weighted sum."""

    @abstractmethod
    def write_sample(self, model: nn.Module, folder: Path) -> None:
        """Write `mel.npz`, `sample.wav` and other samples to `folder`."""

    @abstractmethod
    def start_from(self, initial: Initial) -> Taken:
        """Copy the weights that match in name and shape. Raises SonorantError if none does."""

    def description(self) -> dict[str, Any]:
        """Return the fields of `model.json` without provenance."""
        return self._description


def utterances_of(store: FeatureStore, split: str) -> np.ndarray:
    """Return the utterance indices (int64) of a split. Raises SonorantError if it is empty."""
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
    """Plan training on `items` (int64), over the whole corpus or one window of shards at a time. `make` turns items and
    an epoch into micro-batches; `fetch` downloads items."""
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
    terms = [term.weight / totals[term.unit] * losses[name] for name, term in phase.terms.items() if name in losses]
    return torch.stack(terms).sum()
