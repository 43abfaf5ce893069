"""What the latency benchmark calls a request's percentiles: of timed rounds alone."""

from typing import Any, cast

import numpy as np
import pytest

from benchmarks.latency_worker import BASELINE, BURST, _cell
from benchmarks.turns import WARM_UP
from sonorant.speech.voice import Voice


class Counting:
    """Stands where a voice speaks; how long that takes is of no matter."""

    sample_rate = 16000

    def __init__(self) -> None:
        self.spoken = 0

    def synthesize(self, tokens: np.ndarray, lengths: np.ndarray, *_: Any) -> tuple[np.ndarray, np.ndarray]:
        self.spoken += 1
        return np.zeros((1, 16000), np.float32), np.array([16000])


@pytest.mark.parametrize("many", [2, 4])
def test_percentiles_leave_out_the_requests_that_warm_up(many: int) -> None:
    voice, texts = Counting(), [np.zeros((5, 3), np.int64)]
    row = _cell({BASELINE: cast(Voice, voice)}, texts, {BASELINE: 1.0}, many, seconds=0.0)[BASELINE]
    assert row["requests"] == row["rounds"] * many * BURST
    assert voice.spoken == (row["rounds"] + WARM_UP) * many * BURST
