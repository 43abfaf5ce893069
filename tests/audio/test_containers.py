"""Truncated files are detected, whole ones are not, and no bytes raise."""

import os
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


def test_a_live_stream_is_whole_between_its_clusters_alone(whole: Path, tmp_path: Path) -> None:
    data = (whole / "live.webm").read_bytes()
    assert data.count(b"\x1f\x43\xb6\x75") >= 1
    cuts = range(len(data) - 400, len(data))
    found = []
    for size in cuts:
        (tmp_path / "a.webm").write_bytes(data[:size])
        found.append(cut_off(tmp_path / "a.webm"))
    assert sum(one is None for one in found) <= 3  # where one element ends and the next begins


def test_a_streamed_wav_whose_length_was_never_filled_in_is_whole(whole: Path, tmp_path: Path) -> None:
    data = (whole / "a.wav").read_bytes()
    assert data[36:40] == b"data"
    (tmp_path / "a.wav").write_bytes(data[:40] + b"\xff\xff\xff\xff" + data[44:])
    assert cut_off(tmp_path / "a.wav") is None


MAGIC = [
    b"", b"RIFF", b"RIFF\0\0\0\0WAVEdata", b"RIFF\0\0\0\0AVI ", b"OggS", b"ID3", b"\xff\xfbInfo", b"FORM",
    b"caff\0\0\0\0data", b".snd", b"\0\0\0\x10ftyp", b"\0\0\0\1mdat", b"\x1a\x45\xdf\xa3",
    bytes.fromhex("18538067ffffff"),
    b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\xff", bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c"),
    bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6ca1dcab8c47a9cf118ee400c00c205365"),
]  # fmt: skip


@settings(max_examples=1000)
@given(data=st.binary(min_size=1, max_size=120), magic=st.sampled_from(MAGIC))
def test_no_bytes_whatever_upset_the_look_at_the_container(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, magic: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.wav"
    path.write_bytes(magic + data)
    assert cut_off(path) is None or cut_off(path)


@settings(max_examples=200)
@given(place=st.floats(0, 1), change=st.binary(min_size=1, max_size=12), name=st.sampled_from(TELLING))
def test_no_damage_upsets_the_look_either(whole: Path, place: float, change: bytes, name: str) -> None:
    data = bytearray((whole / name).read_bytes()[:4000])
    at = round(place * (len(data) - len(change)))
    data[at : at + len(change)] = change
    path = whole / "damaged"
    path.write_bytes(data)
    assert cut_off(path) is None or cut_off(path)
    os.truncate(path, 3)
    assert cut_off(path) is None or cut_off(path)
