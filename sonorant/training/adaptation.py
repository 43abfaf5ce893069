"""How a waveform model learns on, once both models are trained, from what the predictor says: section `adapt`."""

import dataclasses
from dataclasses import dataclass

from sonorant.training.waveform import WaveformTrainConfig


@dataclass(frozen=True, kw_only=True)
class AdaptConfig:
    """What differs from the model's own training."""

    steps: int
    """Optimizer steps; 0: the model stays as it was trained."""
    learning_rate: float
    """Its peak, reached after a tenth of the steps."""

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"steps must be at least 0, not {self.steps}")
        if self.learning_rate <= 0:
            raise ValueError(f"learning_rate must be above 0, not {self.learning_rate}")

    def continued(self, trained: WaveformTrainConfig, start: str) -> WaveformTrainConfig:
        """The settings of the model's training, changed for this one, which begins with the weights in the folder
        `start`. Discriminators, if there were any, begin anew and judge from the first step."""
        return dataclasses.replace(
            trained,
            steps=self.steps,
            learning_rate=self.learning_rate,
            warmup_steps=max(1, self.steps // 10),
            adversarial_share=1.0,
            init_from=start,
        )
