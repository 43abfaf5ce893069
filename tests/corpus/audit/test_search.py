"""The compiled searches find the same as trying every path."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonorant.corpus.audit.evidence import NEVER, best_gap, best_path, prefix_scores, suffix_scores


def spelled(path: tuple[int, ...]) -> list[int]:
    """CTC's text of a path: repeats merged, blanks (0) dropped."""
    merged = [label for place, label in enumerate(path) if place == 0 or path[place - 1] != label]
    return [label for label in merged if label]


def best_by_trying(emission: np.ndarray, phones: list[int]) -> float:
    frames, labels = emission.shape
    paths = (path for path in product(range(labels), repeat=frames) if spelled(path) == phones)
    return max((float(emission[np.arange(frames), path].sum()) for path in paths), default=NEVER)


def same(score: float, best: float) -> bool:
    return (score < NEVER / 2 and best == NEVER) or score == pytest.approx(best, abs=1e-9)


CASES = st.tuples(st.integers(0, 2**31), st.integers(1, 6), st.lists(st.integers(1, 2), min_size=1, max_size=3))


@settings(max_examples=30, deadline=None)
@given(CASES)
def test_the_score_of_every_part_is_that_of_its_best_path(case: tuple[int, int, list[int]]) -> None:
    seed, frames, phones = case
    emission = np.random.default_rng(seed).normal(size=(frames, 3))
    before = prefix_scores(emission, np.array(phones))
    after = suffix_scores(emission, np.array(phones))
    for count in range(len(phones) + 1):
        for split in (0, frames // 2, frames):
            assert same(before[count, split], best_by_trying(emission[:split], phones[:count]))
            assert same(after[count, split], best_by_trying(emission[split:], phones[count:]))


@settings(max_examples=50, deadline=None)
@given(CASES)
def test_the_best_path_spells_the_text_and_has_the_best_score(case: tuple[int, int, list[int]]) -> None:
    seed, frames, phones = case
    emission = np.random.default_rng(seed).normal(size=(frames, 3))
    best = best_by_trying(emission, phones)
    if best == NEVER:
        return
    path = best_path(emission, np.array(phones))
    labels = np.where(path < 0, 0, np.array(phones)[np.maximum(path, 0)])
    assert spelled(tuple(labels.tolist())) == phones
    assert emission[np.arange(frames), labels].sum() == pytest.approx(best, abs=1e-9)


@given(st.integers(0, 2**31), st.integers(0, 8))
def test_the_best_gap_is_the_best_of_all(seed: int, frames: int) -> None:
    before, filler, after = np.random.default_rng(seed).normal(size=(3, frames + 1))
    found, start, end = best_gap(before, filler, after)
    scores = {
        (left, right): before[left] + filler[right] - filler[left] + after[right]
        for left in range(frames + 1)
        for right in range(left, frames + 1)
    }
    assert found == pytest.approx(max(scores.values()))
    assert scores[start, end] == pytest.approx(found)
