"""DNSMOS, a neural rating of speech (Reddy et al., "DNSMOS P.835", ICASSP 2022; package speechmos). It was trained on
noisy calls, so differences between renderings are meaningful, but absolute scores are not."""

import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.arrays import Doubles, Floats
from sonorant.audio.wav import resample
from sonorant.errors import install
from sonorant.processes import spread

RATE = 16_000
"""Sample rate of the network's input in Hz."""
Clip = tuple[Floats, int]
"""Samples (S,) in -1..1 and their rate in Hz."""
WINDOW_SECONDS = 9.01
WINDOW = int(WINDOW_SECONDS * RATE)
"""Length of the network's input in samples."""
SCORES = {
    "ovrl": (-0.06766283, 1.11546468, 0.04602535),
    "sig": (-0.08397278, 1.22083953, 0.0052439),
    "bak": (-0.13166888, 1.60915514, -0.39604546),
}
"""Polynomials that map the network's outputs to scores from 1 to 5: overall, speech, background."""
OUTPUTS = ("sig", "bak", "ovrl")


def installed() -> bool:
    return importlib.util.find_spec("speechmos") is not None


def rate_clips(clips: Sequence[Clip]) -> Doubles | str:
    """Return scores (clips, 3) in the order of `SCORES`, or "not run: <reason>"."""
    if not installed():
        return f"not run: speechmos is not installed; run: {install('mos')}"
    return np.array(spread(rate_clip, clips, label="DNSMOS", unit="clip"))


@cache
def _network() -> Any:
    """Load the network directly, because the package would compile librosa and run a second network."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    package = importlib.util.find_spec("speechmos")
    assert package is not None and package.submodule_search_locations
    folder = Path(package.submodule_search_locations[0]) / "dnsmos_models"
    return onnxruntime.InferenceSession(folder / "sig_bak_ovr.onnx", options)


def rate_clip(clip: Clip) -> list[float]:
    """Return a clip's scores in the order of `SCORES`. Requires the package speechmos."""
    samples, rate = clip
    heard = np.clip(resample(samples, rate, RATE), -1.0, 1.0)
    if len(heard) < WINDOW:
        heard = np.resize(heard, WINDOW)
    seconds = range(int(np.floor(len(heard) / RATE) - WINDOW_SECONDS) + 1)
    windows = [heard[second * RATE : int((second + WINDOW_SECONDS) * RATE)].astype(np.float32) for second in seconds]
    raw = [_network().run(None, {"input_1": one[None]})[0][0] for one in windows if len(one) == WINDOW]
    places = [(scale, OUTPUTS.index(name)) for name, scale in SCORES.items()]
    return [float(np.mean([np.polyval(scale, row[place]) for row in raw])) for scale, place in places]
