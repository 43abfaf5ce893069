"""Self-test before scoring: the recogniser must find no words in noise and the right words in speech."""

from collections.abc import Mapping, Sequence

import numpy as np

from sonorant.audio.recognizers import Clip
from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import Normalizer
from sonorant.evaluation.estimates import Figures
from sonorant.evaluation.recordings import score

NOISE_CLIPS = 4
REPEATED_CLIPS = 8
NOISE_LEVEL = 0.1
"""RMS of the white noise; full scale is 1."""
SILENCE = 1 / 32768
"""Peak below which a clip is silent: one 16-bit step."""
LEAST_NOISE_WER = 90.0
"""Minimum word error rate in percent for noise."""
LEAST_SHUFFLED_WER = 80.0
"""Minimum word error rate in percent for the wrong texts; sentences share a few short words."""
MOST_OWN_OF_SHUFFLED = 0.5
"""Maximum ratio of the recordings' error rate on their own texts to that on the wrong texts."""
LEAST_PLANTED_WER = 50.0
"""Minimum word error rate in percent for a sentence replaced by silence or noise."""
KNOWN_WITHIN = 5.0
"""Maximum difference in word error rate between processors, in percentage points."""


def noise_clips(recordings: Sequence[Clip]) -> list[Clip]:
    random = np.random.default_rng(0)
    shapes = [(clip.samples.shape, clip.rate) for clip in recordings[:NOISE_CLIPS]]
    return [Clip((random.standard_normal(shape) * NOISE_LEVEL).astype(np.float32), rate) for shape, rate in shapes]


def planted_clips(clip: Clip) -> list[Clip]:
    """Return silence and noise as long as a rendering, to simulate lost sound."""
    return [Clip(np.zeros_like(clip.samples), clip.rate), *noise_clips([clip])]


def check_planted(reference: str, heard: Mapping[str, Sequence[str]], normalizer: Normalizer) -> Figures:
    """Check that `planted_clips` have high word error rates; return the lowest. `heard` maps the replaced kinds of
    sound to transcripts. Raises SonorantError naming the kind that failed."""
    found = {kind: score([reference] * len(texts), texts, normalizer).wer for kind, texts in heard.items()}
    for kind, wer in found.items():
        _at_least(LEAST_PLANTED_WER, wer, f"silence and noise in place of {kind} score")
    lowest = round(min(found.values()), 3)
    return {"planted_wer": lowest, "planted_wer_at_least": LEAST_PLANTED_WER, "planted_in": ", ".join(found)}


def check_sound(kind: str, clips: Sequence[Clip]) -> None:
    silent = sum(float(np.abs(clip.samples).max(initial=0.0)) < SILENCE for clip in clips)
    _require(2 * silent <= len(clips), f"{silent} of {len(clips)} clips of {kind} are silent; train the voice again")


def check_texts(references: Sequence[str], transcripts: Sequence[str], normalizer: Normalizer) -> Figures:
    """Check that recordings match their own texts and not the next sentence's; return both error rates in percent.
    Requires no recogniser. Raises SonorantError if a limit is exceeded."""
    own = score(references, transcripts, normalizer).wer
    if len(references) < 2:
        return {"own_wer": round(own, 3), "shuffled_wer": "not run: requires two sentences"}
    shuffled = score([*references[1:], references[0]], transcripts, normalizer).wer
    _at_least(LEAST_SHUFFLED_WER, shuffled, "transcripts compared with other sentences' texts score")
    _require(
        own <= MOST_OWN_OF_SHUFFLED * shuffled,
        f"recordings score {own:.1f} % WER with their own texts and {shuffled:.1f} % with others'; "
        "check that the texts belong to these recordings and that the recogniser supports this speech",
    )
    return {"own_wer": round(own, 3), "shuffled_wer": round(shuffled, 3), "shuffled_wer_at_least": LEAST_SHUFFLED_WER}


def check_ears(
    references: Sequence[str],
    transcripts: Sequence[str],
    noise: Sequence[str],
    repeated: Sequence[str],
    normalizer: Normalizer,
) -> Figures:
    """Check that noise yields no words and recordings the same words as before; return the error rates in percent.

    `transcripts` are from `recognize_recordings`, `noise` from `noise_clips`, `repeated` from the first
    `REPEATED_CLIPS` recordings. Raises SonorantError naming the failed check.
    """
    in_noise = score(references[: len(noise)], noise, normalizer).wer
    _at_least(LEAST_NOISE_WER, in_noise, "white noise scores")
    count = len(repeated)
    now = score(references[:count], repeated, normalizer).wer
    known = score(references[:count], transcripts[:count], normalizer).wer
    _require(
        abs(known - now) <= KNOWN_WITHIN,
        f"the first recordings score {now:.1f} % WER now, {known:.1f} % before; run recognize_recordings again",
    )
    return {
        "noise_wer": round(in_noise, 3),
        "noise_wer_at_least": LEAST_NOISE_WER,
        "repeated_wer": round(now, 3),
        "repeated_wer_known": round(known, 3),
        "repeated_equal": sum(a == b for a, b in zip(repeated, transcripts[:count], strict=True)),
        "repeated": count,
    }


def _at_least(least: float, wer: float, what: str) -> None:
    _require(wer >= least, f"{what} {wer:.1f} % WER, must be at least {least:.0f} %; check the recogniser")


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise SonorantError(f"the evaluator's self-test failed: {problem}")
