"""Per-speaker figures of a multi-speaker voice."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from sonorant.corpus.manifest import Utterance
from sonorant.evaluation.naturalness import JudgedSound
from sonorant.evaluation.renderings import Renderings, summarize
from sonorant.evaluation.words import JudgedWords, intelligibility


def trained_speakers(utterances: Iterable[Utterance]) -> list[str]:
    """Sorted speakers of the training split."""
    return sorted({utterance.speaker for utterance in utterances if utterance.split == "train"})


def by_speaker(
    words: JudgedWords, sound: JudgedSound, renderings: Renderings, trained: Iterable[str]
) -> list[dict[str, Any]]:
    """One row for each trained or evaluated speaker: `speaker` and `sentences`.

    With several speakers also `intelligibility`, `naturalness` and `decoding` over that speaker's sentences, or null
    without any.
    """
    names = sorted({*trained, *sound.speakers})
    rows = []
    for name in names:
        own = np.array([speaker == name for speaker in sound.speakers], dtype=bool)
        row: dict[str, Any] = {"speaker": name, "sentences": int(own.sum())}
        if len(names) > 1:
            judged = bool(own.any())
            row["intelligibility"] = _understood(words, own, sound.resamples) if judged else None
            row["naturalness"] = sound.figures(name) if judged else None
            went = {kind: summarize(decoded.of(own)) for kind, decoded in renderings.decoded.items()}
            row["decoding"] = went if judged else None
        rows.append(row)
    return rows


def _understood(words: JudgedWords, own: Any, resamples: int) -> dict[str, Any]:
    """Error rates of one speaker; `own`: sentence mask (S,)."""
    if not words.counts:  # the figures hold the reason
        return words.figures
    return intelligibility({kind: counts.of(own) for kind, counts in words.counts.items()}, resamples, {})
