"""The evaluator judged before it judges: a recogniser that hears words in noise, or not in speech, must not score a voice.

Knows nothing of which recogniser it is; it is given transcripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import ErrorCounts
from sonorant.evaluation.normalizer import Normalizer
from sonorant.evaluation.recordings import score
from sonorant.evaluation.transcription import Clip

NOISE_CLIPS = 4
REPEATED_CLIPS = 8
NOISE_LEVEL = 0.1
"""RMS of the white noise, full scale 1."""
LEAST_NOISE_WER = 90.0
"""Percent; no words are in noise, so nearly all must be missed."""
LEAST_SHUFFLED_WER = 80.0
"""Percent; a sentence shares only a few short words with another."""
MOST_OWN_OF_SHUFFLED = 0.5
"""A recording must fit its own text at least twice as well as another's."""
KNOWN_WITHIN = 5.0
"""Points between the recorded and the repeated score; zero on one machine, a little for another processor's rounding."""


@dataclass(frozen=True)
class Heard:
    """The recordings of the judged sentences, and what the self-test had recognised beside them."""

    references: Sequence[str]
    """What each recording says."""
    transcripts: Sequence[str]
    """What was heard in each by the stage `recognize_recordings`."""
    noise: Sequence[str]
    """What was heard in each clip of `noise_clips`."""
    repeated: Sequence[str]
    """What was heard in the first `REPEATED_CLIPS` recordings this time."""


def noise_clips(recordings: Sequence[Clip]) -> list[Clip]:
    """White noise as long as the first recordings, the same each time."""
    random = np.random.default_rng(0)
    shapes = [(clip.samples.shape, clip.rate) for clip in recordings[:NOISE_CLIPS]]
    return [Clip((random.standard_normal(shape) * NOISE_LEVEL).astype(np.float32), rate) for shape, rate in shapes]


def run_self_test(heard: Heard, normalizer: Normalizer) -> dict[str, Any]:
    """Score noise, shuffled texts and repeated recordings; returns the figures in percent, and the limits they kept.

    Raises SonorantError naming the first check that fails.
    """
    own = score(list(heard.references), list(heard.transcripts), normalizer)
    noise = score(list(heard.references[: len(heard.noise)]), list(heard.noise), normalizer).wer
    _require(noise >= LEAST_NOISE_WER, f"white noise scores {noise:.1f} % WER, must be at least {LEAST_NOISE_WER:.0f} %")
    known, repeated = _repeated(heard, normalizer)
    _require(
        abs(known - repeated) <= KNOWN_WITHIN,
        f"the first recordings score {repeated:.1f} % WER now, {known:.1f} % when they were recognised; run recognize_recordings again",
    )
    return {
        "passed": True,
        "noise_wer": round(noise, 3),
        "noise_wer_at_least": LEAST_NOISE_WER,
        **_shuffled(heard, own, normalizer),
        "repeated_wer": round(repeated, 3),
        "repeated_wer_known": round(known, 3),
        "repeated_equal": sum(a == b for a, b in zip(heard.repeated, heard.transcripts, strict=False)),
        "repeated": len(heard.repeated),
    }


def _repeated(heard: Heard, normalizer: Normalizer) -> tuple[float, float]:
    count = len(heard.repeated)
    references = list(heard.references[:count])
    return score(references, list(heard.transcripts[:count]), normalizer).wer, score(
        references, list(heard.repeated), normalizer
    ).wer


def _shuffled(heard: Heard, own: ErrorCounts, normalizer: Normalizer) -> dict[str, Any]:
    """Each transcript against the text after its own."""
    if len(heard.references) < 2:
        return {"shuffled_wer": "not run: needs two sentences"}
    wer = score([*heard.references[1:], heard.references[0]], list(heard.transcripts), normalizer).wer
    _require(
        wer >= LEAST_SHUFFLED_WER,
        f"transcripts score {wer:.1f} % WER against other sentences' texts, must be at least {LEAST_SHUFFLED_WER:.0f} %",
    )
    _require(
        own.wer <= MOST_OWN_OF_SHUFFLED * wer,
        f"recordings score {own.wer:.1f} % WER against their own texts and {wer:.1f} % against others'; "
        "the texts may belong to other recordings, or the recogniser does not understand this speech",
    )
    return {"shuffled_wer": round(wer, 3), "shuffled_wer_at_least": LEAST_SHUFFLED_WER, "own_wer": round(own.wer, 3)}


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise SonorantError(f"the evaluator's self-test failed: {problem}")
