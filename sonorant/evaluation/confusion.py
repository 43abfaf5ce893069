"""As whom a voice's sentences are recognised, by the embeddings that its likeness to the speakers is measured with.

A voice that speaks as the wrong person may be understood and sound well; only this matrix names who it sounds like."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sonorant.audio.arrays import Doubles
from sonorant.training.intervals import wilson_interval

NOBODY = "nobody"
"""Who says a sentence in which no voice is found."""


def confuse(spoken: Doubles, recordings: Doubles, speakers: Sequence[str]) -> list[dict[str, Any]] | str:
    """A row for each speaker: `speaker`, `sentences`, `as` (speaker to number of sentences recognised as theirs) and
    `recognised`, the fraction that is their own, with its 95 % interval; "not run: <why>" if there are not two.

    A sentence is recognised as the speaker to whose recordings of other sentences it has the largest mean cosine.
    `spoken`, `recordings`: embeddings (U, D) of the sentences and their recordings; `speakers`: of each. The recordings
    given as `spoken` too tell how well the network knows the speakers apart. A speaker of one sentence is left out.
    """
    said_by = np.array(speakers)
    names, counts = np.unique(said_by, return_counts=True)
    known = [str(name) for name in names[counts > 1]]
    if len(known) < 2:
        return "not run: there are not two speakers of two judged sentences"
    cosines_UU = spoken @ recordings.T
    np.fill_diagonal(cosines_UU, np.nan)  # never with the same sentence
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
