"""A runaway is counted whether or not another attempt went well, and none in few sentences is no proof."""

from __future__ import annotations

import pytest

from sonorant.evaluation.runaways import Decoded, summarize, wilson_interval


def test_a_sentence_that_went_well_only_in_another_attempt_ran_away() -> None:
    found = summarize(Decoded(finish_reasons=("well", "well", "stuck", "well", "silence"), attempts=(1, 2, 3, 1, 1)))
    assert found["sentences"] == 5 and found["runaways"] == 3 and found["runaway_rate"] == 0.6
    assert found["retries"] == 3 and found["unrecovered"] == 2
    assert found["finish_reasons"] == {"silence": 1, "stuck": 1, "well": 3}


def test_no_runaway_at_all_has_an_interval_that_narrows_with_the_sentences() -> None:
    uppers = [wilson_interval(0, sentences)[1] for sentences in (4, 40, 160, 10_000)]
    assert uppers == sorted(uppers, reverse=True) and uppers[0] > 0.4 and uppers[2] < 0.025
    assert all(wilson_interval(0, sentences)[0] == 0 for sentences in (4, 160))


@pytest.mark.parametrize(
    ("events", "trials", "low", "high"), [(5, 50, 0.0435, 0.2136), (10, 20, 0.2993, 0.7007), (20, 20, 0.8389, 1.0)]
)
def test_intervals_are_those_of_the_formula(events: int, trials: int, low: float, high: float) -> None:
    """Computed by hand from Wilson's formula with z = 1.96."""
    assert wilson_interval(events, trials) == pytest.approx((low, high), abs=1e-3)
