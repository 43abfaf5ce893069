import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.training.intervals import bootstrap, check_enough, rate, wilson_interval


def test_the_interval_covers_the_true_rate_as_often_as_it_says() -> None:
    """100 corpora of 160 sentences, true word error rate 20 %: about 95 intervals contain it."""
    random = np.random.default_rng(0)
    held = 0
    for _ in range(100):
        words = random.integers(4, 15, size=160)
        low, high = bootstrap(rate, random.binomial(words, 0.2), words, resamples=500)
        held += low <= 20.0 <= high
    assert 88 <= held <= 99


def test_an_interval_without_spread_is_a_point_and_more_sentences_narrow_it() -> None:
    even = np.full(50, 10)
    assert bootstrap(rate, np.full(50, 1), even, resamples=200) == (10.0, 10.0)
    errors = np.array([0, 2] * 25)
    few = bootstrap(rate, errors, even, resamples=1000)
    many = bootstrap(rate, np.tile(errors, 16), np.tile(even, 16), resamples=1000)
    assert (few[1] - few[0]) / (many[1] - many[0]) == pytest.approx(4, rel=0.25)
    assert bootstrap(rate, errors, even, resamples=1000) == few


def test_a_paired_difference_is_blind_to_what_is_hard_for_both() -> None:
    random = np.random.default_rng(0)
    words = np.full(160, 10)
    hard = random.integers(0, 8, size=160)
    worse = hard + (np.arange(160) % 2)  # half an error per sentence: 5 points
    low, high = bootstrap(rate, worse - hard, words, resamples=1000)
    assert low <= 5.0 <= high
    assert high - low < 2
    alone = bootstrap(rate, worse, words, resamples=1000)
    assert alone[1] - alone[0] > 2 * (high - low)


def test_few_sentences_are_not_enough_for_a_gate() -> None:
    check_enough(20)
    with pytest.raises(SonorantError, match="at least 20"):
        check_enough(19)


@pytest.mark.parametrize(
    ("events", "trials", "low", "high"), [(0, 160, 0.0, 0.0234), (5, 50, 0.0435, 0.2136), (20, 20, 0.8389, 1.0)]
)
def test_intervals_are_those_of_the_formula(events: int, trials: int, low: float, high: float) -> None:
    """Wilson's formula by hand, z = 1.96."""
    assert wilson_interval(events, trials) == pytest.approx((low, high), abs=1e-3)
