"""Every runtime is timed at every length and number of threads; one that cannot run says why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.evaluation.latency import measure, sentence_classes


def tokens_of(length: int) -> np.ndarray:
    tokens = np.zeros((length, 3), np.int64)
    tokens[:, 0] = np.arange(length) % 20 + 3
    return tokens


def test_classes_are_the_shortest_the_median_and_the_longest() -> None:
    classes = sentence_classes([tokens_of(length) for length in (9, 3, 50, 4, 20)])
    assert {name: len(tokens) for name, tokens in classes.items()} == {"short": 3, "medium": 9, "long": 50}


def test_a_required_runtime_that_cannot_run_stops_the_measurement(voice_bundle: Path, tmp_path: Path) -> None:
    absent = (tmp_path / "acoustic", tmp_path / "vocoder")
    with pytest.raises(SonorantError, match="acoustic"):
        measure(voice_bundle, absent, {"short": tokens_of(4)}, 3)
