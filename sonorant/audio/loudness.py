"""How loud a recording is to people, and how high its waveform goes between the samples.

Loudness: ITU-R BS.1770-4, annex 1, by pyloudnorm, with the coefficients of B. De Man ("Evaluation of implementations of
the EBU R128 loudness measurement", AES 145, 2018), which are the standard's own at 48 kHz and follow it at other rates.
True peak: annex 2, the largest value after oversampling four times. A mono recording counts as one channel.
"""

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.audio.wav import resample

BLOCK = 0.4
"""Seconds of the standard's gating blocks."""
OVERSAMPLING = 4


def loudness(samples: Floats, rate: int) -> float | None:
    """Integrated loudness in LUFS of samples (S,) at `rate` Hz; None if no block reaches -70 LUFS.

    Shorter than the standard's block of 0.4 s, the whole is one block.
    """
    import pyloudnorm  # not needed for speaking, so not a dependency of the runtime

    if not len(samples):
        return None
    block = min(BLOCK, (len(samples) - 0.5) / rate)  # half a sample less, or rounding makes it longer than the samples
    meter = pyloudnorm.Meter(rate, filter_class="DeMan", block_size=block)
    with np.errstate(divide="ignore"):
        found = float(meter.integrated_loudness(samples.astype(np.float64)))
    return found if np.isfinite(found) else None


def true_peak(samples: Floats, rate: int) -> float | None:
    """True peak in dB of full scale (dBTP) of samples (S,) at `rate` Hz; None for digital silence."""
    if not len(samples):
        return None
    between = np.abs(resample(samples, rate, OVERSAMPLING * rate)).max()
    peak = max(float(between), float(np.abs(samples).max()))  # an end's own sample may lie above the filtered ones
    return 20 * float(np.log10(peak)) if peak > 0 else None
