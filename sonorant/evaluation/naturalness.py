"""Naturalness of variants and copies relative to the recordings: section `naturalness`."""

from collections.abc import Sequence
from dataclasses import dataclass

from sonorant.audio.arrays import Doubles
from sonorant.audio.dnsmos import rate_clips
from sonorant.evaluation.estimates import Figures
from sonorant.evaluation.likeness import Pair, Sounds, compare_sentences, paired_below
from sonorant.evaluation.likeness import summarize as summarize_figures
from sonorant.evaluation.raters import SPEAKER_BELOW, compare, confuse, embed_renderings
from sonorant.evaluation.raters import summarize as summarize_ratings
from sonorant.evaluation.recordings import RECORDINGS, VOCODER
from sonorant.evaluation.renderings import Renderings
from sonorant.evaluation.spectral_distances import summarize as summarize_distances
from sonorant.training.intervals import LEAST

DNSMOS_BELOW = "dnsmos_below_recordings"


@dataclass(frozen=True, kw_only=True)
class JudgedSound:
    speakers: tuple[str, ...]
    pairs: dict[str, list[Pair]]
    """Comparisons of copies and variants with the recordings."""
    ratings: dict[str, Doubles | str]
    """DNSMOS scores (R, 3) of the first R sentences for recordings, copies and each variant, or why there are none."""
    embeddings: dict[str, Doubles] | str
    """Speaker embeddings (S, D) for recordings, copies and each variant, or why there are none."""

    def summary(self) -> Figures:
        """Return the section `naturalness` of metrics.json over all sentences. Recordings have only DNSMOS."""
        found = self.figures()
        copies = found[VOCODER]
        named = (key for key in copies if not key.endswith("_ci95"))
        itself = dict.fromkeys(named, "not run: compared with themselves")
        kept = {"utterances": copies["utterances"], "dnsmos": _summary(self.ratings[RECORDINGS])}
        return {RECORDINGS: itself | kept} | found

    def figures(self, speaker: str | None = None) -> Figures:
        chosen = [place for place, name in enumerate(self.speakers) if speaker in (None, name)]
        return {
            kind: summarize_figures([pairs[place].figures for place in chosen])
            | summarize_distances([pairs[place].distance for place in chosen])
            | self._rated(kind, chosen)
            | self._similar(kind, speaker)
            for kind, pairs in self.pairs.items()
        }

    def confusion(self) -> Figures:

        found = self.embeddings
        if isinstance(found, str):
            return dict.fromkeys((RECORDINGS, *self.pairs), found)
        return {kind: confuse(spoken, found[RECORDINGS], self.speakers) for kind, spoken in found.items()}

    @property
    def opinions(self) -> dict[str, Doubles]:
        """Overall DNSMOS scores per kind of sound; empty if DNSMOS did not run."""
        return {kind: found[:, 0] for kind, found in self.ratings.items() if not isinstance(found, str)}

    def _rated(self, kind: str, chosen: Sequence[int]) -> Figures:
        ours, theirs = self.ratings[kind], self.ratings[RECORDINGS]
        if isinstance(ours, str) or isinstance(theirs, str):
            return {"dnsmos": ours, DNSMOS_BELOW: ours}
        rated = [place for place in chosen if place < len(ours)]
        if len(rated) < min(LEAST, len(ours)):
            why = f"not run: only {len(rated)} of these sentences were rated; increase evaluate.mos_sentences"
            return {"dnsmos": why, DNSMOS_BELOW: why}
        below = paired_below(ours[rated, 0], theirs[rated, 0], DNSMOS_BELOW)
        return {"dnsmos": _summary(ours[rated])} | below

    def _similar(self, kind: str, speaker: str | None) -> Figures:
        found = self.embeddings
        if isinstance(found, str):
            return {"speaker_similarity": found, SPEAKER_BELOW: found}
        return compare(found[kind], found[RECORDINGS], self.speakers, of=speaker)


def judge_sound(renderings: Renderings, speakers: Sequence[str], rated: int) -> JudgedSound:
    """Measure all sounds, with DNSMOS for the first `rated` sentences."""
    return JudgedSound(
        speakers=tuple(speakers),
        ratings=_dnsmos(renderings, rated),
        pairs=compare_sentences(_sounds(renderings)),
        embeddings=embed_renderings(renderings),
    )


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


def _summary(scores: Doubles | str) -> Figures | str:
    return scores if isinstance(scores, str) else summarize_ratings(scores)
