"""Settings of quantisation. Knows nothing of how it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class QuantizeConfig:
    """What may be lost, and how long to train against it."""

    method: Literal["auto", "ptq", "qat"]
    """`ptq`: post-training quantisation; `qat`: training goes on in int8; `auto`: both; the better one ships, `ptq` in doubt."""
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
        if self.learning_rate <= 0:
            raise ValueError("learning_rate must be above 0")
