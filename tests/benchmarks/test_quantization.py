"""The verdict on int8: what is slower, or faster by chance alone, is not called faster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.quantization import System, claims_of, race
from tests.registry.planted import slowed

FASTER = "int8 as shipped: certainly faster than float on one thread"


def result(speed: dict[str, Any]) -> dict[str, Any]:
    return {"wer": {"shipped": {"above_float": {"wer": 0.0}}}, "size_over_float": 0.3, "speed": {"shipped": speed}}


@pytest.mark.parametrize(("low", "holds"), [(1.01, True), (0.98, False)])
def test_faster_is_what_the_whole_interval_says(low: float, holds: bool) -> None:
    claims = claims_of(result({"ms": 9.0, "speedup": 1.1, "speedup_ci95": [low, 1.3]}))
    assert claims.pop(FASTER) is holds
    assert all(claims.values())


def test_every_system_is_timed_beside_float(voice_bundle: Path, tmp_path: Path) -> None:
    slow = System(slowed(voice_bundle, tmp_path / "slow", operations=200), "fp32")
    as_float = System(voice_bundle, "fp32")
    found = race({"float": as_float, "control": as_float, "ptq": slow, "qat": slow, "shipped": slow}, repeats=8)
    assert list(found) == ["float", "control", "ptq", "qat", "shipped"]
    assert found["float"]["speedup_ci95"] == found["control"]["speedup_ci95"] == [1.0, 1.0]
    assert found["shipped"] == found["ptq"] and found["ptq"]["speedup_ci95"][1] < 1
    assert not claims_of(result(found["shipped"]))[FASTER]
