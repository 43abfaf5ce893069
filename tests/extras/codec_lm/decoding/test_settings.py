from dataclasses import replace
from pathlib import Path

import pytest

from sonorant.speech.decoding import DecodingConfig
from tasks.params import load
from tests.extras.codec_lm.decoding.tiny_model import CONFIG, DESCRIPTION


def test_a_temperature_that_overflows_logits_is_refused() -> None:
    with pytest.raises(ValueError, match="temperature must be 0 or at least"):
        replace(CONFIG, temperature=1e-40)


def test_silence_has_a_code_for_each_codebook() -> None:
    with pytest.raises(ValueError, match="2 codebooks"):
        replace(DESCRIPTION, silence=(1,))


def test_the_demo_speaks_a_text_always_the_same_way() -> None:
    assert not load("decoding", DecodingConfig, Path(__file__).parents[4] / "params.yaml").varies
