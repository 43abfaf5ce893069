"""How natural speech sounds to a network that learned from listeners: DNSMOS. Knows nothing of words and of recordings.

Reddy et al., "DNSMOS P.835: a non-intrusive perceptual objective speech quality metric to evaluate noise suppressors",
ICASSP 2022. The networks come in the package speechmos. They learned from noisy calls: differences between two
renderings mean something, the score itself little.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.wav import resample
from sonorant.processes import spread
from sonorant.statistics import bootstrap

RATE = 16_000
"""Hz that the networks listen at."""
WINDOW = int(9.01 * RATE)
"""Samples that the networks hear at once."""
SCORES = {"ovrl": "ovrl_mos", "sig": "sig_mos", "bak": "bak_mos"}
"""Overall, speech and background, 1 to 5, and what the package calls them."""
MODULES = ("speechmos", "librosa")
NOT_INSTALLED = "not run: speechmos is not installed; pip install 'sonorant[mos]'"

Clip = tuple[NDArray[np.float32], int]


def rate_clips(clips: Sequence[Clip]) -> NDArray[np.float64] | str:
    """Samples (S,) in -1..1 with their rates in Hz -> scores (clips, 3) in the order of `SCORES`, or "not run:
    <why>"."""
    if any(importlib.util.find_spec(module) is None for module in MODULES):
        return NOT_INSTALLED
    return np.array(spread(_rate, clips, label="DNSMOS", unit="clip", prepare=_load))


def summarize(scores: NDArray[np.float64], resamples: int) -> dict[str, Any]:
    """Mean of each score over clips (U, 3) with its 95 % percentile interval by bootstrap over clips."""
    figures: dict[str, Any] = {"utterances": len(scores)}
    for column, name in enumerate(SCORES):
        figures[name] = round(float(scores[:, column].mean()), 3)
        figures[f"{name}_ci95"] = [round(end, 3) for end in bootstrap(np.mean, scores[:, column], resamples=resamples)]
    return figures


_model: Any = None
"""Of this process; loaded once, used for every clip it is given."""


def _load() -> None:
    global _model
    import onnxruntime
    from speechmos import dnsmos

    class OneThread(dnsmos.DNSMOS):
        """The package's own would start a thread a core in each of several processes."""

        def __init__(self, *models: Path) -> None:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            self.onnx_sess, self.p808_onnx_sess = (onnxruntime.InferenceSession(model, options) for model in models)

    folder = Path(dnsmos.__file__).parent / "dnsmos_models"
    _model = OneThread(folder / "sig_bak_ovr.onnx", folder / "model_v8.onnx")


def _rate(clip: Clip) -> list[float]:
    samples, rate = clip
    heard = samples if rate == RATE else resample(samples, rate, RATE)
    if (
        len(heard) < WINDOW
    ):  # the package would double it until it is longer, and rate up to nine windows of the same sound
        heard = np.resize(heard, WINDOW)
    found = _model(np.clip(heard, -1.0, 1.0), RATE, is_personalized_MOS=False)
    return [float(found[name]) for name in SCORES.values()]
