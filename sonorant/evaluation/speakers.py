"""Per-speaker figures of a multi-speaker voice."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from sonorant.corpus.manifest import Utterance
from sonorant.evaluation.estimates import Figures
from sonorant.evaluation.naturalness import JudgedSound
from sonorant.evaluation.renderings import Renderings, summarize
from sonorant.evaluation.words import JudgedWords, intelligibility


def trained_speakers(utterances: Iterable[Utterance]) -> list[str]:
    return sorted({utterance.speaker for utterance in utterances if utterance.split == "train"})


def by_speaker(words: JudgedWords, sound: JudgedSound, renderings: Renderings, trained: Iterable[str]) -> list[Figures]:
    """Return a row for each trained or evaluated speaker, with `speaker` and `sentences`.

    With several speakers, rows also have `intelligibility`, `naturalness` and `decoding` of that speaker's sentences,
    or null if there are none.
    """
    names = sorted({*trained, *sound.speakers})
    rows = []
    for name in names:
        own = np.array([speaker == name for speaker in sound.speakers], dtype=bool)
        row: Figures = {"speaker": name, "sentences": int(own.sum())}
        if len(names) > 1:
            judged = bool(own.any())
            row["intelligibility"] = _understood(words, own) if judged else None
            row["naturalness"] = sound.figures(name) if judged else None
            row["decoding"] = _decoding(renderings, own) if judged else None
        rows.append(row)
    return rows


def _decoding(renderings: Renderings, own: Any) -> Figures:
    return {
        variant: summarize([each for each, chosen in zip(spoken, own, strict=True) if chosen])
        for variant, spoken in renderings.decoded.items()
    }


def _understood(words: JudgedWords, own: Any) -> Figures:
    if not words.counts:  # the figures contain the reason
        return words.figures
    return intelligibility({kind: counts.of(own) for kind, counts in words.counts.items()}, {})
