"""The evaluator is tested before it judges: a recogniser that hears words in noise, or none in speech, scores no
voice."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sonorant.audio.recognizers import Clip
from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import Normalizer
from sonorant.evaluation.recordings import score

NOISE_CLIPS = 4
REPEATED_CLIPS = 8
NOISE_LEVEL = 0.1
"""RMS of the white noise, full scale 1."""
SILENCE = 1 / 32768
"""Full scale 1: less is nothing in a file of 16 bit."""
LEAST_NOISE_WER = 90.0
"""Percent; no words are in noise, so nearly all must be missed."""
LEAST_SHUFFLED_WER = 80.0
"""Percent; a sentence shares only a few short words with another."""
MOST_OWN_OF_SHUFFLED = 0.5
"""A recording must fit its own text at least twice as well as another's."""
LEAST_PLANTED_WER = 50.0
"""Percent, of one sentence, where one word heard by chance counts much; real speech scores far below."""
KNOWN_WITHIN = 5.0
"""Points between the recorded and the repeated score: zero on one machine, a little on another processor."""


def noise_clips(recordings: Sequence[Clip]) -> list[Clip]:
    """White noise as long as the first recordings, the same each time."""
    random = np.random.default_rng(0)
    shapes = [(clip.samples.shape, clip.rate) for clip in recordings[:NOISE_CLIPS]]
    return [Clip((random.standard_normal(shape) * NOISE_LEVEL).astype(np.float32), rate) for shape, rate in shapes]


def planted_clips(clip: Clip) -> list[Clip]:
    """Silence and noise in place of one rendering: what an evaluator would be fed that lost a variant's sound."""
    return [Clip(np.zeros_like(clip.samples), clip.rate), *noise_clips([clip])]


def check_planted(reference: str, heard: Mapping[str, Sequence[str]], normalizer: Normalizer) -> dict[str, Any]:
    """Nothing may be heard in `planted_clips` in place of one sentence of each kind; returns the lowest error rate.
    `reference`: what that sentence says; `heard`: for each kind, what was heard in each planted clip. Raises
    SonorantError naming the kind in which words were heard all the same."""
    found = {kind: score([reference] * len(texts), texts, normalizer).wer for kind, texts in heard.items()}
    for kind, wer in found.items():
        _require(
            wer >= LEAST_PLANTED_WER,
            f"silence and noise in place of {kind} score {wer:.1f} % WER, must be at least {LEAST_PLANTED_WER:.0f} %",
        )
    return {
        "planted_wer": round(min(found.values()), 3),
        "planted_wer_at_least": LEAST_PLANTED_WER,
        "planted_in": ", ".join(found),
    }


def check_sound(kind: str, clips: Sequence[Clip]) -> None:
    """Raises SonorantError if most clips of a kind that everything is compared with hold nothing but silence."""
    silent = sum(float(np.abs(clip.samples).max(initial=0.0)) < SILENCE for clip in clips)
    _require(
        2 * silent <= len(clips), f"{silent} of {len(clips)} clips of {kind} are silent; nothing can be judged by them"
    )


def check_texts(references: Sequence[str], transcripts: Sequence[str], normalizer: Normalizer) -> dict[str, Any]:
    """Recordings must fit their own texts, and not those of the sentence after; returns both error rates in percent.
    Needs no recogniser, so it comes first. Raises SonorantError if a limit is not kept."""
    own = score(references, transcripts, normalizer).wer
    if len(references) < 2:
        return {"own_wer": round(own, 3), "shuffled_wer": "not run: needs two sentences"}
    shuffled = score([*references[1:], references[0]], transcripts, normalizer).wer
    _require(
        shuffled >= LEAST_SHUFFLED_WER,
        f"transcripts score {shuffled:.1f} % WER against other sentences' texts, "
        f"must be at least {LEAST_SHUFFLED_WER:.0f} %",
    )
    _require(
        own <= MOST_OWN_OF_SHUFFLED * shuffled,
        f"recordings score {own:.1f} % WER against their own texts and {shuffled:.1f} % against others'; "
        "the texts may belong to other recordings, or the recogniser does not understand this speech",
    )
    return {"own_wer": round(own, 3), "shuffled_wer": round(shuffled, 3), "shuffled_wer_at_least": LEAST_SHUFFLED_WER}


def check_ears(
    references: Sequence[str],
    transcripts: Sequence[str],
    noise: Sequence[str],
    repeated: Sequence[str],
    normalizer: Normalizer,
) -> dict[str, Any]:
    """The recogniser must hear nothing in noise, and in recordings what it heard before; returns the error rates in
    percent.

    `references`, `transcripts`: what the recordings say, and what `recognize_recordings` heard in them; `noise`: what
    was heard in each of `noise_clips`; `repeated`: in the first `REPEATED_CLIPS` recordings this time. Raises
    SonorantError naming the first check that fails.
    """
    in_noise = score(references[: len(noise)], noise, normalizer).wer
    _require(
        in_noise >= LEAST_NOISE_WER,
        f"white noise scores {in_noise:.1f} % WER, must be at least {LEAST_NOISE_WER:.0f} %",
    )
    count = len(repeated)
    now = score(references[:count], repeated, normalizer).wer
    known = score(references[:count], transcripts[:count], normalizer).wer
    _require(
        abs(known - now) <= KNOWN_WITHIN,
        f"the first recordings score {now:.1f} % WER now, {known:.1f} % when they were recognised; "
        "run recognize_recordings again",
    )
    return {
        "noise_wer": round(in_noise, 3),
        "noise_wer_at_least": LEAST_NOISE_WER,
        "repeated_wer": round(now, 3),
        "repeated_wer_known": round(known, 3),
        "repeated_equal": sum(a == b for a, b in zip(repeated, transcripts[:count], strict=True)),
        "repeated": count,
    }


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise SonorantError(f"the evaluator's self-test failed: {problem}")
