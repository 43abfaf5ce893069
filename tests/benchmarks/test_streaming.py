"""The streaming benchmark judges whatever variant a voice ships as its default."""

from __future__ import annotations

import pytest

from benchmarks.latency import PRECISIONS
from benchmarks.streaming import _claims


@pytest.mark.parametrize("variant", PRECISIONS)
def test_every_variant_is_judged(variant: str) -> None:
    first = {"words_over_sentence": 1.0, "paragraph_over_sentence": 1.0, "long_over_whole": 0.2}
    memory = {"words_1000": {"peak_mib": 100.0}, "words_10000": {"peak_mib": 101.0}}
    result = {"variant": variant, "first_speech": first, "memory": memory, "largest_difference": 0.0}
    assert all(_claims(result, 10_000).values())
    assert not all(_claims(result | {"largest_difference": 0.1}, 10_000).values())
