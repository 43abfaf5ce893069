"""How far one rendering of a sentence lies from another: spectrum, pitch, length. `T` frames of 10 ms, `C` cepstral
coefficients, `P` aligned pairs of frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyworld
from numpy.typing import NDArray
from scipy.fft import dct
from scipy.spatial.distance import cdist

from sonorant.arrays import Floats, Ints
from sonorant.processes import spread

FRAME_MS = 10.0
ORDER = 24
"""Highest mel-cepstral coefficient compared; the 0th, loudness, is left out."""
MEL_POINTS = 128
"""Points of the envelope on the mel axis."""
SPEECH_DB = 50.0
"""Only frames at most this far below the reference's loudest count: silence has no spectrum worth comparing."""
QUIETEST = 1e-10
"""Floor of the power spectrum (full scale 1); digital silence would be minus infinity."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Distance:
    """Sums over the aligned speech frames of one sentence, so that a corpus weighs its frames alike."""

    pairs: int
    """Aligned pairs of frames."""
    distortion: float
    """Sum of mel-cepstral distortion, dB."""
    log_mel: float
    """Sum of the distance between log-mel envelopes, dB."""
    voiced_pairs: int
    """Pairs voiced on both sides."""
    squared_cents: float
    """Sum of squared pitch differences over them, cents squared."""
    voicing_errors: int
    """Pairs voiced on one side only."""
    seconds: float
    """Length."""
    reference_seconds: float
    """Length of the reference."""


@dataclass(frozen=True)
class _Analysis:
    log_mel_TN: Array  # natural log of the amplitude's envelope
    cepstra_TC: Array
    f0: Array  # Hz (T,), 0 where unvoiced
    level: Array  # dB (T,)
    seconds: float


def distance(samples: NDArray[np.floating], reference: NDArray[np.floating], rate: int) -> Distance:
    """Compare two renderings (S,) at `rate` Hz, aligned by dynamic time warping.

    Mel-cepstral distortion: Kubichek, "Mel-cepstral distance measure for objective speech quality assessment", PACRIM
    1993. Log-mel distance: root mean square over the mel axis, loudness included. Pitch and spectral envelope by WORLD
    (Morise et al. 2016: DIO with StoneMask, CheapTrick). Pitch differences count where both are voiced.
    """
    return _distance(_analyse(samples, rate), _analyse(reference, rate))


def _distance(ours: _Analysis, theirs: _Analysis) -> Distance:
    i, j = align(cdist(ours.cepstra_TC, theirs.cepstra_TC))
    speech = theirs.level[j] >= theirs.level.max() - SPEECH_DB
    i, j = i[speech], j[speech]
    difference = ours.cepstra_TC[i] - theirs.cepstra_TC[j]
    distortion = 10.0 / np.log(10.0) * np.sqrt(2.0 * np.square(difference).sum(axis=1))
    log_mel = 20.0 / np.log(10.0) * np.sqrt(np.square(ours.log_mel_TN[i] - theirs.log_mel_TN[j]).mean(axis=1))
    voiced, reference_voiced = ours.f0[i] > 0, theirs.f0[j] > 0
    both = voiced & reference_voiced
    cents = 1200.0 * np.log2(ours.f0[i][both] / theirs.f0[j][both])
    return Distance(
        pairs=len(i),
        distortion=float(distortion.sum()),
        log_mel=float(log_mel.sum()),
        voiced_pairs=int(both.sum()),
        squared_cents=float(np.square(cents).sum()),
        voicing_errors=int((voiced != reference_voiced).sum()),
        seconds=ours.seconds,
        reference_seconds=theirs.seconds,
    )


def summarize(distances: Sequence[Distance]) -> dict[str, Any]:
    """Means over all frames: `mcd_db`, `log_mel_db`, `f0_rmse_cents`, `voicing_error` (fraction), `duration_ratio`."""
    pairs = sum(d.pairs for d in distances)
    voiced = sum(d.voiced_pairs for d in distances)
    return {
        "mcd_db": round(sum(d.distortion for d in distances) / pairs, 3),
        "log_mel_db": round(sum(d.log_mel for d in distances) / pairs, 3),
        "f0_rmse_cents": round(float(np.sqrt(sum(d.squared_cents for d in distances) / voiced)), 1)
        if voiced
        else "not run: no frame is voiced in both",
        "voicing_error": round(sum(d.voicing_errors for d in distances) / pairs, 4),
        "duration_ratio": round(sum(d.seconds for d in distances) / sum(d.reference_seconds for d in distances), 4),
        "utterances": len(distances),
    }


@dataclass(frozen=True)
class Sounds:
    """A sentence's renderings (S,) and the recording they are compared with, all at `rate` Hz."""

    renderings: Mapping[str, Floats]
    reference: Floats
    rate: int


def distances(sentences: Sequence[Sounds]) -> dict[str, list[Distance]]:
    """`distance` of every rendering, by its name, in several processes."""
    found = spread(_distances, sentences, label="distances", unit="sentence")
    return {name: [sentence[name] for sentence in found] for name in sentences[0].renderings}


def _distances(sounds: Sounds) -> dict[str, Distance]:
    reference = _analyse(sounds.reference, sounds.rate)
    return {name: _distance(_analyse(samples, sounds.rate), reference) for name, samples in sounds.renderings.items()}


def align(cost: Array) -> tuple[Ints, Ints]:
    """The cheapest monotonic path through cost (A, B) from corner to corner, as indices (P,) into each side. Dynamic
    time warping (Sakoe and Chiba 1978), steps of one on either side or both; a diagonal of the table at a time."""
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0.0
    for diagonal in range(rows + columns - 1):
        i = np.arange(max(0, diagonal - columns + 1), min(rows, diagonal + 1))
        j = diagonal - i
        before = np.minimum(np.minimum(total[i, j + 1], total[i + 1, j]), total[i, j])
        total[i + 1, j + 1] = cost[i, j] + before
    path = [(rows, columns)]
    while path[-1] != (1, 1):
        a, b = path[-1]
        path.append(min(((a - 1, b - 1), (a - 1, b), (a, b - 1)), key=lambda cell: total[cell]))
    left, right = np.array(path[::-1]).T - 1
    return left, right


def _analyse(samples: NDArray[np.floating], rate: int) -> _Analysis:
    signal = np.ascontiguousarray(samples, dtype=np.float64)
    rough, times = pyworld.dio(signal, rate, frame_period=FRAME_MS)
    f0 = pyworld.stonemask(signal, rough, times, rate)
    power_TF = np.maximum(pyworld.cheaptrick(signal, f0, times, rate), QUIETEST)
    level = 10.0 * np.log10(power_TF.mean(axis=1))
    log_mel_TN = log_mel_envelope(power_TF, rate)
    return _Analysis(log_mel_TN, mel_cepstra(log_mel_TN), f0, level, len(samples) / rate)


def log_mel_envelope(power_TF: Array, rate: int) -> Array:
    """Power envelopes (T, F) over 0 to rate / 2 Hz -> natural log of amplitude on the mel axis (T, MEL_POINTS)."""
    return 0.5 * np.log(power_TF) @ _mel_interpolation(rate, power_TF.shape[1])


def mel_cepstra(log_mel_TN: Array) -> Array:
    """Coefficients 1 to `ORDER` of log-mel envelopes: (T, C), scaled as the distortion in dB expects: on the mel axis
    ln|H| is c_0 plus the sum of c_k cos(k w)."""
    return dct(log_mel_TN, axis=1)[:, 1 : ORDER + 1] / MEL_POINTS


@lru_cache
def _mel_interpolation(rate: int, bins: int) -> Array:
    """Matrix (bins, MEL_POINTS): a spectrum over Hz, read at the middles of equal mel steps (1127 ln(1 + f / 700))."""
    highest = 1127.0 * np.log1p(rate / 2 / 700.0)
    points = 700.0 * np.expm1((np.arange(MEL_POINTS) + 0.5) / MEL_POINTS * highest / 1127.0)
    frequencies = np.linspace(0.0, rate / 2, bins)
    return np.stack([np.interp(points, frequencies, unit) for unit in np.eye(bins)])
