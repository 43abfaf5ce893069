import os
import shutil
from pathlib import Path

import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from sonorant.audio.containers import cut_off
from tests.support.encoding import FORMATS, encode, sweep

TELLING = [name for name in FORMATS if name not in ("aac.aac", "ac3.ac3")]
"""Formats with a stored length."""
BY_LIBSNDFILE = ("a.wav", "a.ogg", "a.mp3", "a.aiff", "a.au", "a.caf")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    for name in TELLING:
        encode(folder / name, sweep(3, FORMATS[name]["rate"]), **FORMATS[name])
    for name in BY_LIBSNDFILE:
        soundfile.write(folder / name, sweep(3, 16000), 16000)
    return folder


@pytest.mark.parametrize("name", [*TELLING, *BY_LIBSNDFILE])
def test_a_truncated_file_is_told_from_a_whole_one(whole: Path, tmp_path: Path, name: str) -> None:
    assert cut_off(whole / name) is None
    data = (whole / name).read_bytes()
    for kept in (0.02, 0.1, 0.37, 0.5, 0.9, 0.99):
        (tmp_path / name).write_bytes(data[: round(len(data) * kept)])
        found = cut_off(tmp_path / name)
        assert found and "\n" not in found, kept


def test_a_streamed_wav_whose_length_was_never_filled_in_is_whole(whole: Path, tmp_path: Path) -> None:
    data = (whole / "a.wav").read_bytes()
    assert data[36:40] == b"data"
    (tmp_path / "a.wav").write_bytes(data[:40] + b"\xff\xff\xff\xff" + data[44:])
    assert cut_off(tmp_path / "a.wav") is None


def test_more_sound_than_the_header_can_state_is_told(whole: Path, tmp_path: Path) -> None:
    shutil.copy(whole / "a.aiff", tmp_path)
    os.truncate(tmp_path / "a.aiff", 2**32 + (whole / "a.aiff").stat().st_size)  # sparse
    assert "should contain" in str(cut_off(tmp_path / "a.aiff"))


@settings(max_examples=500)
@given(
    place=st.floats(0, 0.3), change=st.binary(max_size=40), kept=st.integers(1, 4000),
    name=st.sampled_from([*TELLING, *BY_LIBSNDFILE]),
)  # fmt: skip
def test_no_damage_upsets_the_look(whole: Path, place: float, change: bytes, kept: int, name: str) -> None:
    data = bytearray((whole / name).read_bytes()[:kept])
    at = round(place * len(data))
    data[at : at + len(change)] = change
    (whole / "damaged").write_bytes(data or b"x")
    assert cut_off(whole / "damaged") != ""
