"""Align recognised words with a text, with jumps where the reader skips or repeats parts.

Uses a Viterbi search over word positions (Prahallad and Black 2011, "Segmentation of monologues in audio books").
Shapes: M recognised words, N words of the text.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from sonorant.audio.arrays import Doubles
from sonorant.extras.long.script import Script
from sonorant.layers.alignment_kernel import compiled

PUT_IN, LEFT_OUT, MISHEARD, JUMP, JUMP_TO_SENTENCE = 1.0, 1.0, 1.5, 4.0, 2.6
"""Costs of an extra word, a skipped word, a wrong word (less for similar letters), a jump, and a jump to a sentence's
start."""
_AT_ONCE, _AHEAD = 400, 120  # recognised words aligned at a time, and context after them
_AROUND = 800  # words searched on each side of the expected position
_ANCHOR = 3  # consecutive words that form an anchor
NOWHERE = -1


def place_words(heard: Sequence[str], script: Script) -> NDArray[np.int64]:
    """Return the position in the text of each recognised word, or `NOWHERE`, int64 (M,)."""
    text = script.words
    starts = np.array([word in script.sentence_ends for word in range(len(text))])
    places = np.full(len(heard), NOWHERE, np.int64)
    anchors = _anchors(heard, text)
    at = NOWHERE  # position of the last aligned word
    for first in range(0, len(heard) if text else 0, _AT_ONCE):
        last = min(first + _AT_ONCE + _AHEAD, len(heard))
        near = anchors[first:last]
        near = near[near >= 0]
        low, high = (near.min(), near.max()) if len(near) else (at, at)
        low, high = max(min(low, at) - _AROUND, 0), min(max(high, at) + _AROUND, len(text))
        costs_MN = _costs(heard[first:last], text[low:high])
        jumps_N = np.where(starts[low:high], JUMP_TO_SENTENCE, JUMP)
        found = _search(costs_MN, jumps_N, at - low)
        found[found >= 0] += low
        done = min(first + _AT_ONCE, len(heard))
        places[first:done] = found[: done - first]
        placed = places[first:done][places[first:done] >= 0]
        at = int(placed[-1]) if len(placed) else at
    return places


def _anchors(heard: Sequence[str], text: Sequence[str]) -> NDArray[np.int64]:
    """Return the position (M,) of each recognised word that starts three words which are unique in the text, otherwise
    `NOWHERE`."""
    threes = list(zip(*(text[place:] for place in range(_ANCHOR)), strict=False))
    counts = Counter(threes)
    place_of = {three: place for place, three in enumerate(threes) if counts[three] == 1}
    found = np.full(len(heard), NOWHERE, np.int64)
    for place, three in enumerate(zip(*(heard[place:] for place in range(_ANCHOR)), strict=False)):
        found[place] = place_of.get(three, NOWHERE)
    return found


def _costs(heard: Sequence[str], text: Sequence[str]) -> Doubles:
    """Return the cost (M, N) of matching recognised words with words of the text."""
    own, rows = np.unique(np.array(heard), return_inverse=True)
    known, columns = np.unique(np.array(text), return_inverse=True)
    alike: Any = process.cdist(own.tolist(), known.tolist(), scorer=fuzz.ratio, dtype=np.uint8)
    costs = np.where(alike == 100, 0.0, MISHEARD * (1 - 0.5 * alike / 100))
    return np.ascontiguousarray(costs[rows][:, columns])


@compiled
def _search(costs_MN: Doubles, jumps_N: Doubles, at: int) -> NDArray[np.int64]:
    """Return the cheapest position of each recognised word, -1 for extra words, (M,). `at`: position of the previous
    word."""
    heard, count = costs_MN.shape
    # State s is at word s - 1; state 0 is before all words.
    before = np.full(count + 1, jumps_N.max())
    before[at + 1] = 0.0
    now = np.empty(count + 1)
    came_MS = np.zeros((heard, count + 1), np.int8)  # 0: extra word; 1 to 3: advance; 4: jump
    best_M = np.empty(heard, np.int64)  # best state before each word
    for m in range(heard):
        best = np.argmin(before)
        best_M[m] = best
        now[0] = before[0] + PUT_IN
        for s in range(1, count + 1):
            cost, came = before[best] + jumps_N[s - 1], 4
            for far in range(1, min(s, 3) + 1):
                if before[s - far] + (far - 1) * LEFT_OUT < cost:
                    cost, came = before[s - far] + (far - 1) * LEFT_OUT, far
            cost += costs_MN[m, s - 1]
            if before[s] + PUT_IN < cost:
                cost, came = before[s] + PUT_IN, 0
            now[s], came_MS[m, s] = cost, came
        before, now = now, before
    found = np.full(heard, -1, np.int64)
    s = int(np.argmin(before))
    for m in range(heard - 1, -1, -1):
        came = came_MS[m, s]
        if came:
            found[m] = s - 1
            s = int(best_M[m]) if came == 4 else s - came
    return found
