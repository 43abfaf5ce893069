"""The streaming benchmark judges whatever variant a voice ships as its default."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.latency import PRECISIONS
from benchmarks.streaming import FIRST_AUDIO_MS, _claims

HEARD = f"a sentence is first heard within {FIRST_AUDIO_MS:g} ms (p95)"


def sound(family: str, variant: str) -> dict[str, Any]:
    """A result of which every claim holds."""
    first = {"words_over_sentence": 1.0, "paragraph_over_sentence": 1.0, "long_over_whole": 0.2}
    memory = {"words_1000": {"peak_mib": 100.0}, "words_10000": {"peak_mib": 101.0}}
    return {"family": family, "variant": variant, "first_speech": first, "memory": memory, "largest_difference": 0.0}


@pytest.mark.parametrize("variant", PRECISIONS)
def test_every_variant_is_judged(variant: str) -> None:
    result = sound("parallel", variant)
    assert all(_claims(result, 10_000).values())
    assert not all(_claims(result | {"largest_difference": 0.1}, 10_000).values())


def test_a_voice_that_decodes_is_judged_by_its_first_audio_alone_on_the_machine() -> None:
    for first, broken in ((FIRST_AUDIO_MS, []), (FIRST_AUDIO_MS + 1, [HEARD])):
        listeners = {"1": {"first_p95_ms": first}, "8": {"first_p95_ms": 999.0}}
        claims = _claims(sound("codec_lm", "int8") | {"listeners": listeners}, 10_000)
        assert [name for name, holds in claims.items() if not holds] == broken
