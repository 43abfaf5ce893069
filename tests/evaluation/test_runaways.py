"""A runaway is counted whether or not another attempt went well."""

from __future__ import annotations

from sonorant.evaluation.renderings import Decoded, summarize


def test_a_sentence_that_went_well_only_in_another_attempt_ran_away() -> None:
    found = summarize(Decoded(finish_reasons=("well", "well", "stuck", "well", "silence"), attempts=(1, 2, 3, 1, 1)))
    assert found["sentences"] == 5 and found["runaways"] == 3 and found["runaway_rate"] == 0.6
    assert found["retries"] == 3 and found["unrecovered"] == 2
    assert found["finish_reasons"] == {"silence": 1, "stuck": 1, "well": 3}
