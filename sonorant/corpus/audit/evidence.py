"""Evidence from an aligner's output for a clip and a text: measurements for the judge, and the position of each word.

Most measurements are gains: nats by which the best CTC path improves if it may skip words, or fill frames with any
label. Shapes: T frames, N phones. Scores are natural logarithms.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Doubles, Floats, Ints
from sonorant.corpus.audit.aligner import SECONDS
from sonorant.layers.alignment_kernel import compiled

NEVER = -1e9


@compiled
def _paths(emission_TL: Doubles, phones_N: Ints) -> tuple[Doubles, NDArray[np.int8]]:
    """Return the score and last step of the best path to each frame and state, (T, 2 N + 1). States are phones, with
    blanks between."""
    frames, count = emission_TL.shape[0], len(phones_N)
    scores_TS = np.full((frames, 2 * count + 1), NEVER)
    steps_TS = np.zeros((frames, 2 * count + 1), np.int8)
    for t in range(frames):
        for s in range(2 * count + 1):
            phone = s // 2
            label = phones_N[phone] if s % 2 else 0
            best, step = (0.0 if s < 2 else NEVER), 0
            if t:
                best = scores_TS[t - 1, s]
                if s > 0 and scores_TS[t - 1, s - 1] > best:
                    best, step = scores_TS[t - 1, s - 1], 1
                fresh = s % 2 == 1 and s > 1 and phones_N[phone] != phones_N[phone - 1]
                if fresh and scores_TS[t - 1, s - 2] > best:
                    best, step = scores_TS[t - 1, s - 2], 2
            scores_TS[t, s] = best + emission_TL[t, label]
            steps_TS[t, s] = step
    return scores_TS, steps_TS


def prefix_scores(emission_TL: Doubles, phones_N: Ints) -> Doubles:
    """Return float64 (N + 1, T + 1): [n, t] is the best score of the first n phones on the first t frames."""
    scores_TS, _ = _paths(emission_TL, phones_N)
    scores = np.full((len(phones_N) + 1, len(emission_TL) + 1), NEVER)
    scores[0, 0] = 0.0
    scores[0, 1:] = scores_TS[:, 0]
    scores[1:, 1:] = np.maximum(scores_TS[:, 1::2], scores_TS[:, 2::2]).T
    return scores


def suffix_scores(emission_TL: Doubles, phones_N: Ints) -> Doubles:
    """Return float64 (N + 1, T + 1): [n, t] is the best score of phones n to N on frames t to T."""
    return prefix_scores(emission_TL[::-1].copy(), phones_N[::-1].copy())[::-1, ::-1]


def best_path(emission_TL: Doubles, phones_N: Ints) -> NDArray[np.int32]:
    """Return the phone index of each frame, int32 (T,); -1 means blank."""
    scores_TS, steps_TS = _paths(emission_TL, phones_N)
    path_T = np.empty(len(emission_TL), np.int32)
    state = 2 * len(phones_N)
    state -= scores_TS[-1, state] <= scores_TS[-1, state - 1]
    for t in range(len(path_T) - 1, -1, -1):
        path_T[t] = state // 2 if state % 2 else -1
        state -= steps_TS[t, state]
    return path_T


@compiled
def best_gap(before_T: Doubles, filler_T: Doubles, after_T: Doubles) -> tuple[float, int, int]:
    """Return the best score, start and end of a gap: frames with any label between two parts of a text. The arguments
    (T + 1,) are scores of the first part up to frame t, of any label up to t, and of the second part from t."""
    best, start, end = 2 * NEVER, 0, 0
    head, head_at = 2 * NEVER, 0
    for t in range(len(filler_T)):
        if before_T[t] - filler_T[t] > head:
            head, head_at = before_T[t] - filler_T[t], t
        whole = head + filler_T[t] + after_T[t]
        if whole > best:
            best, start, end = whole, head_at, t
    return best, start, end


Word = tuple[int, ...]
"""Phone labels of a word, counted from 1."""
FILLER_COST = 0.7
"""Cost in nats of a frame filled with any label: the typical distance between the correct phone and the likeliest."""
LEFT_OUT = 3
"""Maximum number of consecutive words that may be skipped."""
CUT_PHONES = 8
"""Maximum number of phones that may be skipped at either end of a text."""
IMPOSSIBLE = -99.0
_EDGE_FRAMES = 5


@dataclass(frozen=True, kw_only=True)
class ClipEvidence:
    figures: dict[str, float]
    """Inputs of the judge, in a fixed order."""
    words: tuple[tuple[float, float, float], ...]
    """Start and end of each word in seconds, and its distance from the likeliest labels in nats per phone."""
    gaps: tuple[tuple[float, float, float], ...]
    """Start and end (seconds) and gain (nats) of the best gap before, inside and after the text."""


def compare(logs_TL: Floats, energy: Floats, words: Sequence[Word]) -> ClipEvidence:
    """Compare a clip with a text of at least one word. `logs_TL` contains log-probabilities, `energy` (2 T,) the level
    of each mel frame."""
    emission_TL = logs_TL.astype(np.float64)
    phones_N = np.array([phone for word in words for phone in word], dtype=np.int64)
    first = np.cumsum([0, *(len(word) for word in words)])
    before, after = prefix_scores(emission_TL, phones_N), suffix_scores(emission_TL, phones_N)
    likeliest_T = emission_TL.max(axis=1)
    free = float(likeliest_T.sum())
    whole = max(float(before[-1, -1]), free - 50.0 * len(phones_N))  # no path: more phones than frames
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
    return ClipEvidence(figures=figures, words=placed, gaps=gaps)


def _sums(values: Doubles) -> Doubles:
    return np.concatenate([[0.0], np.cumsum(values)])


@dataclass(frozen=True)
class _Search:
    before: Doubles
    after: Doubles
    first: Ints
    """Index of each word's first phone, then the number of phones: (W + 1,)."""
    filler: Doubles
    whole: float
    """Score of the whole text."""

    def left_out(self) -> dict[str, float]:
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
        """Return the gains of skipping phones at the start and end, and the best number of phones to skip."""
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
        """Return the best gap before, inside and after the text, and the gains of gaps, including one that replaces
        words."""
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
    """Measure whether the clip starts and ends in speech."""
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
