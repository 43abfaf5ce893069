from pathlib import Path

import pytest

from sonorant.speech.bundle import Bundle, read_bundle
from sonorant.speech.voice import Voice


@pytest.fixture(scope="module")
def bundle(voice_bundle: Path) -> Bundle:
    return read_bundle(voice_bundle)


@pytest.fixture(scope="module")
def voice(voice_bundle: Path) -> Voice:
    return Voice.load(voice_bundle, threads=1)


@pytest.fixture(scope="module", params=["voice_bundle", "codec_lm_bundle"])
def any_voice(request: pytest.FixtureRequest) -> Voice:
    return Voice.load(request.getfixturevalue(request.param), threads=1)


@pytest.fixture
def own_voice(voice_bundle: Path) -> Voice:
    return Voice.load(voice_bundle, threads=1)
