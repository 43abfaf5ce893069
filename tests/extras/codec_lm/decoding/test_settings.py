from dataclasses import replace
from pathlib import Path

import pytest

from sonorant.speech.decoding import DecodingConfig
from tasks.params import load
from tests.extras.codec_lm.decoding.tiny_model import CONFIG, DESCRIPTION


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("temperature", [-0.1, float("nan"), 10**400, 1e-40]),
        ("top_k", [-1, 10**30]),
        ("top_p", [0.0, 1.1]),
        ("repetition_penalty", [0.5]),
        ("repetition_window", [-1]),
        ("advance", ["argmax"]),
        ("budget", [0.0]),
        ("longest_phoneme", [0.0]),
        ("longest_silence", [-1.0]),
        ("longest_repeat", [float("inf")]),
        ("retries", [-1]),
    ],
)
def test_a_contradiction_is_named(name: str, values: list) -> None:
    for value in values:
        with pytest.raises(ValueError, match=name):
            replace(CONFIG, **{name: value})


def test_silence_has_a_code_for_each_codebook() -> None:
    with pytest.raises(ValueError, match="2 codebooks"):
        replace(DESCRIPTION, silence=(1,))


def test_the_demo_speaks_a_text_always_the_same_way() -> None:
    assert not load("decoding", DecodingConfig, Path(__file__).parents[4] / "params.yaml").varies
