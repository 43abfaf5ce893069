"""What the alignment benchmark claims: only what the whole interval says."""

from __future__ import annotations

import pytest

from benchmarks.alignment import AS_IT_IS, PREFIX, UNCORRUPTED, claims_of


@pytest.mark.parametrize(
    ("prefix", "uncorrupted", "broken"),
    [
        ([20.0, 40.0], [-1.0, 3.0], []),
        ([20.0, 40.0], [-5.0, -1.0], [f"{UNCORRUPTED} has not certainly fewer words wrong"]),
        ([-1.0, 40.0], [-1.0, 3.0], ["a prefix alone has certainly more words wrong than the pointer"]),
    ],
)
def test_a_claim_holds_where_the_whole_interval_does(prefix: list[float], uncorrupted: list[float], broken: list[str]) -> None:
    speech = {
        AS_IT_IS: {"wer": 14.0},
        PREFIX: {"above_as_it_is": {"wer_ci95": prefix}},
        UNCORRUPTED: {"above_as_it_is": {"wer_ci95": uncorrupted}},
    }
    assert [claim for claim, holds in claims_of(speech).items() if not holds] == broken
