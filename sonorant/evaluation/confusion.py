"""Speaker confusion matrix: for which speaker a voice's sentences are taken, by speaker embeddings."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sonorant.audio.arrays import Doubles
from sonorant.training.intervals import wilson_interval

NOBODY = "nobody"
"""Label of a sentence without detected speech."""


def confuse(spoken: Doubles, recordings: Doubles, speakers: Sequence[str]) -> list[dict[str, Any]] | str:
    """One row per speaker: `speaker`, `sentences`, `as` (recognised speaker -> sentences) and `recognised` (fraction
    correct) with its 95 % interval; "not run: <why>" for fewer than two speakers.

    A sentence goes to the speaker whose recordings of other sentences have the largest mean cosine. `spoken`,
    `recordings`: embeddings (U, D); `speakers`: of each. Passing the recordings as `spoken` gives the ceiling. Speakers
    with one sentence are left out.
    """
    said_by = np.array(speakers)
    names, counts = np.unique(said_by, return_counts=True)
    known = [str(name) for name in names[counts > 1]]
    if len(known) < 2:
        return "not run: there are not two speakers of two judged sentences"
    cosines_UU = spoken @ recordings.T
    np.fill_diagonal(cosines_UU, np.nan)
    likeness_UN = np.stack([np.nanmean(cosines_UU[:, said_by == name], axis=1) for name in known], axis=1)
    found = np.where(spoken.any(axis=1), np.array(known)[likeness_UN.argmax(axis=1)], NOBODY)
    return [_row(name, found[said_by == name].tolist(), known) for name in known]


def _row(name: str, found: Sequence[str], known: Sequence[str]) -> dict[str, Any]:
    counted = {other: found.count(other) for other in (*known, NOBODY)}
    own = counted[name]
    return {
        "speaker": name,
        "sentences": len(found),
        "as": {other: count for other, count in counted.items() if count or other in known},
        "recognised": round(own / len(found), 4),
        "recognised_ci95": [round(end, 4) for end in wilson_interval(own, len(found))],
    }
