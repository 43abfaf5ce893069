"""Alternate timing: equal rounds for both voices."""

import pytest

from sonorant.registry import side_by_side


@pytest.mark.parametrize(
    ("longest", "rounds"), [(1e9, 1 + side_by_side.ROUNDS), (0.0, 1 + side_by_side.LEAST)], ids=["fast", "slow"]
)
def test_slow_voices_are_timed_in_fewer_rounds(longest: float, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "LONGEST", longest)
    called: list[str] = []
    assert side_by_side._ratio(lambda: called.append("a"), lambda: called.append("b")) > 0
    assert called.count("a") == called.count("b") == rounds
    assert called[0] != called[2], "who goes first alternates"
