from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from sonorant.audio.wav import read_audio, write_wav
from sonorant.errors import SonorantError


def sine(rate: int, hertz: float = 440.0, seconds: float = 1.0, level: float = 0.5) -> np.ndarray:
    return (level * np.sin(2 * np.pi * hertz * np.arange(round(rate * seconds)) / rate)).astype(np.float32)


@pytest.mark.parametrize(("rate", "wanted"), [(44100, 16000), (16000, 48000)])
def test_resampling_keeps_a_tone_where_it_was(tmp_path: Path, rate: int, wanted: int) -> None:
    soundfile.write(tmp_path / "a.wav", sine(rate), rate, subtype="FLOAT")
    samples, read_rate = read_audio(tmp_path / "a.wav", wanted)
    assert (samples.dtype, read_rate) == (np.float32, wanted)
    assert abs(len(samples) - wanted) <= 1
    middle = slice(wanted // 10, wanted // 10 * 9)
    assert np.abs(samples[:wanted][middle] - sine(wanted)[middle]).max() < 1e-3


@settings(max_examples=25)
@given(
    integers=st.lists(st.integers(-32768, 32767), min_size=1, max_size=300), rate=st.sampled_from([8000, 16000, 44100])
)
def test_sixteen_bits_survive_writing_and_reading(
    tmp_path_factory: pytest.TempPathFactory, integers: list[int], rate: int
) -> None:
    path = tmp_path_factory.mktemp("wav") / "a.wav"
    samples = np.array(integers, dtype=np.int16)
    write_wav(path, (samples / 32768).astype(np.float32), rate)
    again, read_rate = read_audio(path)
    assert read_rate == rate and np.array_equal(again * 32768, samples)


def test_writing_clips_what_is_too_loud(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", np.array([2.0, -2.0, 0.5], dtype=np.float32), 16000)
    np.testing.assert_allclose(read_audio(tmp_path / "a.wav")[0], [1.0, -1.0, 0.5], atol=2**-15)


@pytest.mark.parametrize("samples", [np.array([0.0, np.nan]), np.array([np.inf]), np.zeros((2, 2))])
def test_what_cannot_be_a_recording_is_not_written(tmp_path: Path, samples: np.ndarray) -> None:
    with pytest.raises(SonorantError, match=r"a\.wav"):
        write_wav(tmp_path / "a.wav", samples, 16000)
    assert list(tmp_path.iterdir()) == []
