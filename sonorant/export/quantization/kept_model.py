"""Which of two quantised models ships, by their figures on the same utterances."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.export.quantization.utterance_losses import Judged
from sonorant.training.intervals import bootstrap

RESAMPLES = 2000


def summary(judged: Judged) -> dict[str, Any]:
    """Means over the utterances with their 95 % intervals."""
    return {
        "loss": _rounded(judged.loss.mean()),
        "loss_ci95": interval(judged.loss),
        judged.measure: _rounded(judged.error.mean()),
        f"{judged.measure}_ci95": interval(judged.error),
        "utterances": len(judged.loss),
    }


def above(judged: Judged, baseline: Judged) -> dict[str, Any]:
    """Difference to a baseline on the same utterances, with paired 95 % intervals; below zero is better."""
    loss = judged.loss - baseline.loss
    percent = 100.0 / float(baseline.loss.mean())
    error = judged.error - baseline.error
    return {
        "loss_percent": _rounded(percent * loss.mean()),
        "loss_percent_ci95": interval(percent * loss),
        judged.measure: _rounded(error.mean()),
        f"{judged.measure}_ci95": interval(error),
    }


def interval(values: NDArray[np.float64]) -> list[float]:
    """95 % interval of the mean of (U,) values."""
    return [_rounded(end) for end in bootstrap(np.mean, values, resamples=RESAMPLES)]


def in_words(difference: dict[str, Any]) -> str:
    """What `above` found of the loss, such as "the validation loss by +0.44 % (paired 95 % interval ...)"."""
    low, high = difference["loss_percent_ci95"]
    interval = f"paired 95 % interval {low:+.2f} to {high:+.2f}"
    return f"the validation loss by {difference['loss_percent']:+.2f} % ({interval})"


def choose(qat_above_ptq: dict[str, Any]) -> tuple[str, str]:
    """`ptq` or `qat`, and why in one line. Trained weights ship only if their loss is lower beyond the interval."""
    measured = f"training in int8 changed {in_words(qat_above_ptq)}"
    if qat_above_ptq["loss_percent_ci95"][1] < 0.0:
        return "qat", f"{measured}: it ships"
    return "ptq", f"{measured}: it brings nothing over post-training quantisation, which ships"


def _rounded(value: float) -> float:
    return round(float(value), 5)
