"""DNSMOS: how speech sounds to a network that learned from people.

Reddy et al., "DNSMOS P.835", ICASSP 2022, a network that comes in the package speechmos. It learned from noisy calls:
differences between two renderings mean something, the score itself little.
"""

import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.arrays import Doubles, Floats
from sonorant.audio.wav import resample
from sonorant.processes import spread

RATE = 16_000
"""Hz that the network listens at."""
Clip = tuple[Floats, int]
"""Samples (S,) in -1..1 and their rate in Hz."""
WINDOW_SECONDS = 9.01
WINDOW = int(WINDOW_SECONDS * RATE)
"""Samples that DNSMOS hears at once."""
SCORES = {
    "ovrl": (-0.06766283, 1.11546468, 0.04602535),
    "sig": (-0.08397278, 1.22083953, 0.0052439),
    "bak": (-0.13166888, 1.60915514, -0.39604546),
}
"""Overall, speech and background, 1 to 5, with the polynomial that makes a score of what the network gives."""
OUTPUTS = ("sig", "bak", "ovrl")
"""What the network gives, in its order."""
NOT_INSTALLED = "not run: speechmos is not installed; pip install 'sonorant[mos]'"


def installed() -> bool:
    return importlib.util.find_spec("speechmos") is not None


def rate_clips(clips: Sequence[Clip]) -> Doubles | str:
    """DNSMOS (clips, 3) of each clip in the order of `SCORES`, or "not run: <why>"."""
    if not installed():
        return NOT_INSTALLED
    return np.array(spread(rate_clip, clips, label="DNSMOS", unit="clip"))


@cache
def _network() -> Any:
    """Load the network directly: the package would compile librosa's functions and run a second network, for a score
    that is not among `SCORES`."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # each core has a process of its own
    package = importlib.util.find_spec("speechmos")
    assert package is not None and package.submodule_search_locations
    folder = Path(package.submodule_search_locations[0]) / "dnsmos_models"
    return onnxruntime.InferenceSession(folder / "sig_bak_ovr.onnx", options)


def rate_clip(clip: Clip) -> list[float]:
    """DNSMOS of a clip in the order of `SCORES`; the package speechmos must be installed."""
    samples, rate = clip
    heard = np.clip(samples if rate == RATE else resample(samples, rate, RATE), -1.0, 1.0)
    if len(heard) < WINDOW:  # repeated until it fills one window
        heard = np.resize(heard, WINDOW)
    scores: dict[str, list[float]] = {name: [] for name in SCORES}
    for second in range(int(np.floor(len(heard) / RATE) - WINDOW_SECONDS) + 1):
        window = heard[second * RATE : int((second + WINDOW_SECONDS) * RATE)].astype(np.float32)
        if len(window) < WINDOW:
            continue
        for name, raw in zip(OUTPUTS, _network().run(None, {"input_1": window[None]})[0][0], strict=True):
            scores[name].append(float(np.polyval(SCORES[name], raw)))
    return [float(np.mean(scores[name])) for name in SCORES]
