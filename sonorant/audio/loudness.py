"""Loudness and true peak of a recording (ITU-R BS.1770-4).

Loudness: annex 1, by pyloudnorm with the coefficients of B. De Man (AES 145, 2018), which also follow the standard at
rates other than 48 kHz. True peak: annex 2, oversampled four times.
"""

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.audio.wav import resample

BLOCK = 0.4
"""Length in seconds of a gating block."""
OVERSAMPLING = 4


def loudness(samples: Floats, rate: int) -> float | None:
    """Return the integrated loudness in LUFS of samples (S,) at `rate` Hz; None if no block reaches -70 LUFS. Samples
    shorter than 0.4 s are one block."""
    import pyloudnorm  # not a dependency of synthesis

    if not len(samples):
        return None
    block = min(BLOCK, (len(samples) - 0.5) / rate)  # half a sample less, so that rounding cannot exceed the samples
    meter = pyloudnorm.Meter(rate, filter_class="DeMan", block_size=block)
    with np.errstate(divide="ignore"):
        found = float(meter.integrated_loudness(samples.astype(np.float64)))
    return found if np.isfinite(found) else None


def true_peak(samples: Floats, rate: int) -> float | None:
    """Return the true peak in dBTP of samples (S,) at `rate` Hz; None for digital silence."""
    if not len(samples):
        return None
    between = np.abs(resample(samples, rate, OVERSAMPLING * rate)).max()
    peak = max(float(between), float(np.abs(samples).max()))  # the first and last samples may exceed the filtered ones
    return 20 * float(np.log10(peak)) if peak > 0 else None
