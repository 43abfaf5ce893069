"""Settings of quantisation. Knows nothing of how it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sonorant.families import FAMILIES

NEVER_TRAINED = {"codec": "a codec is not trained on, as a language model has learned its codes"}
"""Kinds of model whose weights may not change any more, and why."""


@dataclass(frozen=True, kw_only=True)
class QuantizeConfig:
    """What may be lost, and how long to train against it."""

    method: Literal["auto", "ptq", "qat"]
    """`ptq`: post-training quantisation; `qat`: training goes on in int8; `auto`: both; the better one ships, `ptq` in doubt."""
    auto_trains: list[str]
    """Kinds of model that `auto` trains in int8 too; the others ship after calibration alone."""
    calibration_utterances: int
    """Utterances of the training split whose largest activations become the scales."""
    sensitivity_utterances: int
    """Utterances of the validation split that each layer is tried on alone."""
    max_layer_loss: float
    """A layer stays in float if it alone, in int8, raises the validation loss by more than so many percent."""
    steps: int
    """Optimizer steps of the training in int8; all other settings but those below are those of the float training."""
    learning_rate: float
    """Its peak, reached after a tenth of the steps."""

    def __post_init__(self) -> None:
        for name in ("calibration_utterances", "sensitivity_utterances", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        kinds = [kind for parts in FAMILIES.values() for kind in (parts.speech, parts.sound)]
        for kind in self.auto_trains:
            if kind not in kinds:
                raise ValueError(f"auto_trains: unknown kind of model '{kind}'; there are: {', '.join(kinds)}")
        if self.learning_rate <= 0:
            raise ValueError("learning_rate must be above 0")

    def trains(self, kind: str) -> bool:
        """Whether a model of this kind is trained on in int8."""
        return kind not in NEVER_TRAINED and (self.method == "qat" or (self.method == "auto" and kind in self.auto_trains))

    def why_not(self, kind: str) -> str:
        """Why a model of this kind is not trained on in int8, for a person."""
        if self.method == "ptq":
            return "quantize.method is ptq"
        return NEVER_TRAINED.get(kind, f"{kind} is not among quantize.auto_trains")
