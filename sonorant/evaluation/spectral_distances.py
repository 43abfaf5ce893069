"""Spectral, pitch and length distances between two renderings. `T` 10 ms frames, `C` cepstral coefficients, `P`
aligned pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from sonorant.audio.arrays import Doubles, Ints
from sonorant.evaluation.analysis import SPEECH_DB, Analysis
from sonorant.evaluation.estimates import Figures


@dataclass(frozen=True)
class Distance:
    """Sums over aligned speech frames of a sentence."""

    pairs: int
    distortion: float
    """Sum of the mel-cepstral distortion in dB."""
    log_mel: float
    """Sum of the log-mel distance in dB."""
    voiced_pairs: int
    squared_cents: float
    voicing_errors: int
    """Number of pairs voiced in only one sound."""
    seconds: float
    reference_seconds: float


def measure_distance(ours: Analysis, theirs: Analysis, i: Ints, j: Ints) -> Distance:
    """Compare two sounds along an alignment path of frame indices `i`, `j` (P,).

    Mel-cepstral distortion: Kubichek, "Mel-cepstral distance measure for objective speech quality assessment", PACRIM
    1993. Log-mel distance: RMS over the mel axis, including loudness.
    """
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


def summarize(distances: Sequence[Distance]) -> Figures:
    """Return means over frames: `mcd_db`, `log_mel_db`, `f0_rmse_cents`, `voicing_error`, `duration_ratio`."""
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


def align_sounds(ours: Analysis, theirs: Analysis) -> tuple[Ints, Ints]:
    return align(cdist(ours.cepstra_TC, theirs.cepstra_TC))


def align(cost: Doubles) -> tuple[Ints, Ints]:
    """Find the cheapest path through `cost` (A, B), as row and column indices (P,), by dynamic time warping (Sakoe and
    Chiba 1978). Vectorised by diagonals."""
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
