"""Error rates by speaker: a voice of several may be understood in one and not in another."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sonorant.data.manifest import Utterance
from sonorant.evaluation.error_rates import ErrorCounts
from sonorant.statistics import rate


def trained_speakers(utterances: Iterable[Utterance]) -> list[str]:
    """Everyone whom the training split has, in order: those that the voice can speak as."""
    return sorted({utterance.speaker for utterance in utterances if utterance.split == "train"})


def by_speaker(
    counts: Mapping[str, ErrorCounts], speakers: Sequence[str], trained: Iterable[str], not_run: str | None
) -> list[dict[str, Any]]:
    """A row for each speaker, of `trained` or judged: `speaker`, `sentences` and `wer`, a percentage for each kind.

    `counts`: by kind, one entry a sentence; `speakers`: who says each sentence. `wer` is null for a speaker of whom no
    sentence was judged, and `not_run`, the reason, if the recogniser did not run.
    """
    rows: list[dict[str, Any]] = []
    for speaker in sorted({*trained, *speakers}):
        own = np.array([name == speaker for name in speakers], dtype=bool)
        wer: Any = not_run
        if not_run is None and own.any():
            wer = {kind: round(float(rate(of.word_errors[own], of.words[own])), 3) for kind, of in counts.items()}
        rows.append({"speaker": speaker, "sentences": int(own.sum()), "wer": wer})
    return rows
