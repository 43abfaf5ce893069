"""How a voice and the waveform model's copies sound beside the recordings: section `naturalness` of the figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sonorant.arrays import Doubles
from sonorant.audio.dnsmos import rate_clips
from sonorant.evaluation.distances import summarize as summarize_distances
from sonorant.evaluation.likeness import Sounds, compare_sentences, paired_below
from sonorant.evaluation.likeness import summarize as summarize_figures
from sonorant.evaluation.raters import speaker_similarities
from sonorant.evaluation.raters import summarize as summarize_ratings
from sonorant.evaluation.recordings import RECORDINGS, VOCODER
from sonorant.evaluation.renderings import Renderings

DNSMOS_BELOW = "dnsmos_below_recordings"
"""Overall DNSMOS of the recordings less that of a kind, in pairs."""


@dataclass(frozen=True, kw_only=True)
class JudgedSound:
    """How all renderings sound."""

    figures: dict[str, Any]
    """By kind. The recordings themselves have a DNSMOS alone."""
    opinions: dict[str, Doubles]
    """Overall DNSMOS of the first sentences, by kind; empty where it did not run."""


def judge_sound(renderings: Renderings, speakers: Sequence[str], rated: int, resamples: int) -> JudgedSound:
    """Rate the first `rated` sentences by DNSMOS, and lay every rendering beside its recording. `speakers`: who says
    each sentence; `resamples`: behind each interval."""
    scores = _dnsmos(renderings, rated)
    pairs = compare_sentences(_sounds(renderings))
    found = {
        kind: summarize_figures([pair.figures for pair in pairs[kind]], resamples)
        | summarize_distances([pair.distance for pair in pairs[kind]])
        | _rated(scores, kind, resamples)
        for kind in renderings.kinds
    }
    for kind, similarity in speaker_similarities(renderings, speakers, resamples).items():
        found[kind] |= similarity
    copies = found[VOCODER]
    itself = dict.fromkeys((key for key in copies if not key.endswith("_ci95")), "not run: compared with themselves")
    kept = {"utterances": copies["utterances"], "dnsmos": _summary(scores[RECORDINGS], resamples)}
    opinions = {kind: found[:, 0] for kind, found in scores.items() if not isinstance(found, str)}
    return JudgedSound(figures={RECORDINGS: itself | kept} | found, opinions=opinions)


def _sounds(renderings: Renderings) -> list[Sounds]:
    rows = zip(*renderings.sounds.values(), strict=True)  # recordings first
    kinds = tuple(renderings.sounds)[1:]
    return [Sounds(dict(zip(kinds, sounds[1:], strict=True)), sounds[0], renderings.rate) for sounds in rows]


def _dnsmos(renderings: Renderings, rated: int) -> dict[str, Doubles | str]:
    clips = {
        kind: [(samples, renderings.rate) for samples in sounds[:rated]] for kind, sounds in renderings.sounds.items()
    }
    scores = rate_clips([clip for group in clips.values() for clip in group])
    if isinstance(scores, str):
        return dict.fromkeys(clips, scores)
    count = len(clips[RECORDINGS])
    return {kind: scores[i * count : (i + 1) * count] for i, kind in enumerate(clips)}


def _rated(scores: Mapping[str, Doubles | str], kind: str, resamples: int) -> dict[str, Any]:
    ours, theirs = scores[kind], scores[RECORDINGS]
    if isinstance(ours, str) or isinstance(theirs, str):
        return {"dnsmos": ours, DNSMOS_BELOW: ours}
    return {"dnsmos": _summary(ours, resamples)} | paired_below(ours[:, 0], theirs[:, 0], DNSMOS_BELOW, resamples)


def _summary(scores: Doubles | str, resamples: int) -> dict[str, Any] | str:
    return scores if isinstance(scores, str) else summarize_ratings(scores, resamples)
