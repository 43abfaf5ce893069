"""What an aligner's frames say of a clip and a text: figures for the judge, and where each word is heard.

A figure is mostly a gain: by how many nats the best path scores higher if it may leave words of the text out, or fill
some frames with anything. Shapes as in `search.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sonorant.audio.arrays import Doubles, Floats, Ints
from sonorant.corpus.audit.aligner import SECONDS
from sonorant.corpus.audit.search import NEVER, best_gap, best_path, prefix_scores, suffix_scores

Word = tuple[int, ...]
"""The phones of a word, as labels from 1."""
FILLER_COST = 0.7
"""Nats that a frame filled with anything costs: about what the right phone lacks to the likeliest."""
LEFT_OUT = 3
"""Words in a row that may be left out."""
CUT_PHONES = 8
"""Phones at an edge that may be left out, for a clip whose sound is cut."""
IMPOSSIBLE = -99.0
_EDGE_FRAMES = 5


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A clip beside a text."""

    figures: dict[str, float]
    """What the judge decides by, in a fixed order of keys."""
    words: tuple[tuple[float, float, float], ...]
    """Start and end of each word (seconds from the start of the clip), and the nats a phone that it lacks."""
    gaps: tuple[tuple[float, float, float], ...]
    """Start, end and gain (nats) of the stretch at the start, inside and at the end that is best left to no word."""


def compare(logs_TL: Floats, energy: Floats, words: Sequence[Word]) -> Evidence:
    """Compare the aligner's log-probabilities (T, L) of a clip, and its level by mel frame (2 T,), with a text of one
    word or more."""
    emission_TL = logs_TL.astype(np.float64)
    phones_N = np.array([phone for word in words for phone in word], dtype=np.int64)
    first = np.cumsum([0, *(len(word) for word in words)])
    before, after = prefix_scores(emission_TL, phones_N), suffix_scores(emission_TL, phones_N)
    likeliest_T = emission_TL.max(axis=1)
    free = float(likeliest_T.sum())
    whole = max(float(before[-1, -1]), free - 50.0 * len(phones_N))  # more phones than frames: no path at all
    search = _Search(before, after, first, _sums(likeliest_T - FILLER_COST), whole)
    figures = {"lacking": free - whole, "lacking_a_phone": (free - whole) / len(phones_N)}
    figures |= search.left_out() | search.cut()
    gaps, found = search.gaps()
    figures |= found
    path_T = best_path(emission_TL, phones_N) if whole > NEVER / 2 else np.full(len(logs_TL), -1, np.int32)
    placed, more = _words(emission_TL, path_T, phones_N, first, likeliest_T)
    figures |= more | _edges(energy, logs_TL, path_T)
    figures["phones_a_second"] = len(phones_N) / (len(logs_TL) * SECONDS)
    figures["words"] = float(len(words))
    return Evidence(figures=figures, words=placed, gaps=gaps)


def _sums(values: Doubles) -> Doubles:
    return np.concatenate([[0.0], np.cumsum(values)])


@dataclass(frozen=True)
class _Search:
    before: Doubles
    after: Doubles
    first: Ints
    """(W + 1,): the first phone of each word, and the number of phones."""
    filler: Doubles
    whole: float
    """Score of the text as it is."""

    def left_out(self) -> dict[str, float]:
        """Gains of leaving out words: one to three at the start, at the end, and the best inside."""
        words, found = len(self.first) - 1, {}
        for count in range(1, LEFT_OUT + 1):
            fits = count < words
            found[f"without_first_{count}"] = self._gain(self.after[self.first[count], 0]) if fits else IMPOSSIBLE
            found[f"without_last_{count}"] = self._gain(self.before[self.first[-1 - count], -1]) if fits else IMPOSSIBLE
        inside = [
            self._gain((self.before[self.first[word]] + self.after[self.first[word + count]]).max())
            for count in range(1, LEFT_OUT + 1)
            for word in range(1, words - count)
        ]
        return found | {"without_inner": max(inside, default=IMPOSSIBLE)}

    def cut(self) -> dict[str, float]:
        """Gains of leaving out phones at either edge, and how many are best left out."""
        most = max(1, min(CUT_PHONES, len(self.before) - 2))
        starts = [self._gain(self.after[count, 0]) for count in range(1, most + 1)]
        ends = [self._gain(self.before[-1 - count, -1]) for count in range(1, most + 1)]
        return {
            "cut_start": max(starts),
            "cut_start_phones": float(np.argmax(starts) + 1),
            "cut_first_phone": starts[0],
            "cut_end": max(ends),
            "cut_end_phones": float(np.argmax(ends) + 1),
            "cut_last_phone": ends[0],
        }

    def gaps(self) -> tuple[tuple[tuple[float, float, float], ...], dict[str, float]]:
        """Gains of filling a stretch with anything: before the first word, between two, after the last, and instead of
        one or two words."""
        words = len(self.first) - 1
        start, end = self._gap(0, 0), self._gap(words, words)
        inside = max((self._gap(word, word) for word in range(1, words)), default=(IMPOSSIBLE, 0, 0))
        instead = max(
            self._gap(word, word + count)[0] for count in (1, 2) for word in range(words) if word + count <= words
        ) if words else IMPOSSIBLE  # fmt: skip
        found = {"filled_instead": instead}
        for name, (gain, left, right) in {"start": start, "inside": inside, "end": end}.items():
            found[f"filled_{name}"] = gain
            found[f"filled_{name}_seconds"] = (right - left) * SECONDS
        return tuple((left * SECONDS, right * SECONDS, gain) for gain, left, right in (start, inside, end)), found

    def _gap(self, last: int, following: int) -> tuple[float, int, int]:
        score, left, right = best_gap(self.before[self.first[last]], self.filler, self.after[self.first[following]])
        return self._gain(score), left, right

    def _gain(self, score: float) -> float:
        return max(float(score) - self.whole, IMPOSSIBLE)


def _words(
    emission_TL: Doubles, path_T: np.ndarray, phones_N: Ints, first: Ints, likeliest_T: Doubles
) -> tuple[tuple[tuple[float, float, float], ...], dict[str, float]]:
    """Each word's place, and how well the worst, the first, the last and the average word is heard."""
    frames = len(path_T)
    labels_T = np.where(path_T < 0, 0, phones_N[np.maximum(path_T, 0)])
    lacking_T = likeliest_T - emission_TL[np.arange(frames), labels_T]
    word_T = np.where(path_T < 0, -1, np.searchsorted(first, path_T, side="right") - 1)
    placed, lengths = [], []
    for word in range(len(first) - 1):
        own = np.flatnonzero(word_T == word)
        start, end = (own[0], own[-1] + 1) if len(own) else (0, 0)
        phones = first[word + 1] - first[word]
        placed.append((start * SECONDS, end * SECONDS, float(lacking_T[own].sum() / phones)))
        lengths.append(len(own) * SECONDS / phones)
    lacking = [word[2] for word in placed]
    silent_T = np.where(path_T < 0, lacking_T, 0.0)
    figures = {
        "worst_word": max(lacking),
        "mean_word": float(np.mean(lacking)),
        "first_word": lacking[0],
        "last_word": lacking[-1],
        "first_word_seconds_a_phone": lengths[0],
        "last_word_seconds_a_phone": lengths[-1],
        "shortest_seconds_a_phone": min(lengths),
        "longest_seconds_a_phone": max(lengths),
        "between_words": float(silent_T.sum()),
        "worst_fifth_of_a_second_between": float(np.convolve(silent_T, np.ones(10), "same").max()),
    }
    return tuple(placed), figures


def _edges(energy: Floats, logs_TL: Floats, path_T: np.ndarray) -> dict[str, float]:
    """Whether the clip begins and ends in speech: level at both edges between the clip's quiet (0) and loud (1)
    frames, seconds before the first and after the last phone, probability of a blank."""
    quiet, loud = np.percentile(energy, [5, 95])
    level = (energy - quiet) / max(loud - quiet, 0.5)
    heard = np.flatnonzero(path_T >= 0)
    lead, trail = (heard[0], len(path_T) - 1 - heard[-1]) if len(heard) else (0, 0)
    return {
        "level_at_start": float(level[:_EDGE_FRAMES].mean()),
        "level_at_end": float(level[-_EDGE_FRAMES:].mean()),
        "peak_at_start": float(level[:3].max()),
        "peak_at_end": float(level[-3:].max()),
        "seconds_before": float(lead * SECONDS),
        "seconds_after": float(trail * SECONDS),
        "blank_at_start": float(np.exp(logs_TL[:3, 0]).mean()),
        "blank_at_end": float(np.exp(logs_TL[-3:, 0]).mean()),
    }
