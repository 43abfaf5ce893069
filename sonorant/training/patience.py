"""Early stopping: end training when validation stops improving significantly.

A validation is better if the 95 % interval of the mean per-utterance difference from the best validation is below zero.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sonorant.errors import SonorantError
from sonorant.training.intervals import LEAST, bootstrap

RESAMPLES = 1000


class Patience:
    def __init__(self, validations: int, name: str) -> None:
        """Training ends after `validations` validations in a row without improvement. `name` is the kind of model."""
        self.validations, self.name = validations, name
        self.best_step = 0
        self.waited = 0
        """Number of validations since the best."""
        self._best: list[float] = []
        """Loss of each held-out utterance at the best validation."""

    def check(self, utterances: int) -> None:
        if utterances < LEAST:
            raise SonorantError(
                f"train_{self.name}.patience: a 95 % interval requires at least {LEAST} validation utterances, but "
                f"there are {utterances}: raise prepare.validation, or set patience to null"
            )

    def judge(self, step: int, losses: Sequence[float]) -> dict[str, float]:
        """Compare each held-out utterance's loss with that at the best validation so far; return metrics."""
        figures: dict[str, float] = {}
        if self._best:
            differences_U = np.array(losses) - np.array(self._best)
            low, high = bootstrap(np.mean, differences_U, resamples=RESAMPLES)
            figures = {"difference": float(differences_U.mean()), "low": low, "high": high}
        if not self._best or figures["high"] < 0.0:
            self._best, self.best_step, self.waited = list(losses), step, 0
        else:
            self.waited += 1
        return {f"patience/{name}": value for name, value in (figures | {"waited": float(self.waited)}).items()}

    @property
    def exhausted(self) -> bool:
        return self.waited >= self.validations

    def why(self, step: int, steps: int) -> str:
        row = f"{self.waited} consecutive validations were" if self.waited > 1 else "one validation was"
        return (
            f"ended at step {step} of {steps}: {row} not significantly better than that of step {self.best_step} "
            f"on the same utterances (train_{self.name}.patience {self.validations})"
        )

    def state(self) -> dict[str, Any]:
        return {"best_step": self.best_step, "waited": self.waited, "best": self._best, "ended": self.exhausted}

    def load_state(self, state: dict[str, Any]) -> None:
        self.best_step, self.waited, self._best = state["best_step"], state["waited"], list(state["best"])
