import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from scipy.signal import correlate

from sonorant.audio.containers import cut_off
from sonorant.audio.decoding import UndecodableError, decode, decode_blocks, header
from sonorant.audio.wav import read_audio
from sonorant.errors import SonorantError
from tests.support.encoding import FORMATS, encode, sweep, without_sound
from tests.support.imports import ROOT

SECONDS = 8.0
PRIMED = {"aac.aac": 1024, "fragments.mp4": 1024, "ac3.ac3": 256, "mp3.avi": 1105, "wma.wma": -2048}
"""Samples added by the encoder without marking them. WMA's decoder drops two frames, which Microsoft's encoder adds."""
FRAME = 4096
"""Number of samples in the longest codec frame here."""
LOSSLESS = ("alac.m4a", "pcm.mov", "flac.mka", "pcm.aiff", "alac.caf", "wav.wav", "flac.flac")
RATES = {name: how["rate"] for name, how in FORMATS.items()} | dict.fromkeys(("wav.wav", "flac.flac", "a.ogg"), 16000)


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    for name, rate in RATES.items():
        if name in FORMATS:
            encode(folder / name, sweep(SECONDS, rate), **FORMATS[name])
        else:
            soundfile.write(folder / name, sweep(SECONDS, rate), rate)
    return folder


@pytest.mark.parametrize("name", RATES)
def test_every_format_gives_the_sound_back_where_it_was_and_the_header_its_length(encoded: Path, name: str) -> None:
    rate = RATES[name]
    written = sweep(SECONDS, rate)[:, 0]
    samples, read_rate = decode(encoded / name)
    assert (samples.dtype, samples.shape[1], read_rate) == (np.float32, 1, rate)
    untold = name in PRIMED or name in ("amr.3gp", "alac.caf")  # FFmpeg's caf leaves out the last half frame
    assert abs(len(samples) - PRIMED.get(name, 0) - len(written)) <= (FRAME if untold else 0)
    heard, said = samples[: 4 * rate, 0], written[: 4 * rate]
    lag = int(correlate(heard, said, method="fft").argmax()) - (len(said) - 1)
    assert abs(lag - PRIMED.get(name, 0)) <= 0.002 * rate
    aligned = np.roll(heard, -lag)[rate : 3 * rate]
    assert np.corrcoef(aligned, said[rate : 3 * rate])[0, 1] > (0.8 if "amr" in name else 0.99)
    if name in LOSSLESS:
        assert np.abs(aligned - said[rate : 3 * rate]).max() <= 2**-15
    told = header(encoded / name)
    assert (told.sample_rate, told.channels) == (rate, 1) and told.form
    assert told.least <= len(samples)
    assert abs(told.frames - len(samples)) <= max(FRAME, 0.05 * rate)


@pytest.mark.parametrize("name", RATES)
def test_a_part_is_the_whole_cut(encoded: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    whole, rate = decode(encoded / name)
    stamped = ("webm", "mkv", "mka", "wma")  # timestamps in milliseconds
    reach = round(0.001 * rate) if name.endswith(stamped) else 0
    for start, end in ((0.0, 1.5), (0.3, 2.0), (1.7, 2.2), (3.21, 6.4), (6.0, None), (7.5, 30.0), (2.0, 2.0)):
        part, _ = decode(encoded / name, start, end)
        first = round(start * rate)
        expected = whole[first : len(whole) if end is None else round(end * rate)]
        assert abs(len(part) - len(expected)) <= reach
        shifts = [np.roll(whole, -first - shift, axis=0)[: len(part)] for shift in range(-reach, reach + 1)]
        difference = min(np.abs(part - cut).max(initial=0.0) for cut in shifts)
        assert difference < (0.03 if any(mark in name for mark in ("aac", "mp4", "ac3", "amr")) else 1e-4), (start, end)
    assert decode(encoded / name, 60.0, 61.0)[0].shape == (0, 1)
    assert capfd.readouterr() == ("", "")


def test_sound_behind_its_stated_end_or_without_a_length_is_read(encoded: Path, tmp_path: Path) -> None:
    """Headers that were never completed, joined files, and streams cut anywhere: no loop is endless."""
    wav, ogg, flac, mp3 = ((encoded / name).read_bytes() for name in ("wav.wav", "a.ogg", "flac.flac", "mp3.mp3"))
    riff = encode(tmp_path / "riff.wav", sweep(SECONDS, 48000), rate=48000, codec="libmp3lame", container="wav")
    stream, tag = riff.read_bytes(), b"ID3\3\0\0\0\0\2\0" + bytes(256)
    count = int.from_bytes(flac[18:26], "big") >> 36 << 36  # a number of 36 bits
    odd = {
        "zero.wav": (wav[:40] + bytes(4) + wav[44:], 8),
        "died.wav": (wav[:40] + b"\0\x10\0\0" + wav[44:], 8),
        "empty.wav": (wav[:40] + bytes(4) + b"LIST\4\0\0\0INFO", 0),
        "tagged.wav": (wav + b"TAG" + bytes(125), 8),
        "joined.ogg": (ogg + ogg, 16),
        "joined.flac": (flac + flac, 16),
        "joined.mp3": (mp3 + tag + mp3 + tag + mp3, 24),
        "none.flac": (flac[:18] + count.to_bytes(8, "big") + flac[26:], 8),
        "most.flac": (flac[:18] + (count + 2**36 - 1).to_bytes(8, "big") + flac[26:], 8),
        "riff.wav": (stream, 8),
        "cut.mp3": (stream[len(stream) // 2 :], 4),
    }
    for name, (content, _) in odd.items():
        (tmp_path / name).write_bytes(content)
    odd["gsm.wav"] = b"", 8  # libsndfile cannot seek in it
    soundfile.write(tmp_path / "gsm.wav", sweep(SECONDS, 8000), 8000, subtype="GSM610")
    for name, (_, seconds) in odd.items():
        file = tmp_path / name
        whole, rate = decode(file)
        assert abs(len(whole) / rate - seconds) < 0.2, name
        assert sum(len(piece) for piece, _ in decode_blocks(file)) == len(whole), name
        assert header(file).least <= len(whole) and cut_off(file) is None, name
        part = decode(file, seconds - 2, seconds - 1)[0]
        np.testing.assert_allclose(part, whole[(seconds - 2) * rate : (seconds - 1) * rate], atol=0.01, err_msg=name)
    (tmp_path / "other.ogg").write_bytes(ogg + (encoded / "opus.opus").read_bytes())
    with pytest.raises(UndecodableError, match=r"other\.ogg: cannot be read as audio \(decoding failed after [^\n]+$"):
        decode(tmp_path / "other.ogg")


@pytest.mark.parametrize("stated", [48_000, 2**32 - 1])
def test_a_wav_of_more_than_4_gib_has_its_whole_length(tmp_path: Path, stated: int) -> None:
    """The stated length wraps, or is the greatest possible."""
    size = 2**32 + 48_000
    soundfile.write(tmp_path / "a.wav", np.zeros(0), 16000)
    with (tmp_path / "a.wav").open("r+b") as file:
        file.seek(40)
        file.write(stated.to_bytes(4, "little"))
        file.seek(44 + stated)
        file.write(b"\1\2\3\4\xf0\xff\xff\xff")  # no chunk: longer than the file
        file.truncate(44 + size)  # sparse
    assert abs(header(tmp_path / "a.wav").frames - size // 2) <= 32


def test_any_error_of_a_decoder_names_the_file(encoded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OverflowError("two\nlines")

    monkeypatch.setattr(soundfile.SoundFile, "read", fail)
    with pytest.raises(UndecodableError, match=r"wav\.wav: cannot be read as audio \(decoding failed: two lines\)"):
        decode(encoded / "wav.wav")


def test_an_hour_is_not_decoded_for_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sonorant.audio import ffmpeg

    file = encode(tmp_path / "long.m4a", np.tile(sweep(60, 8000), (10, 1)), rate=8000, codec="aac")
    made: list[ffmpeg._Sound] = []
    sounds = ffmpeg._sounds
    monkeypatch.setattr(ffmpeg, "_sounds", lambda opened: (made.append(sound) or sound for sound in sounds(opened)))
    assert decode(file, 500.0, 501.0)[0].shape == (8000, 1)
    assert sum(samples.shape[1] for _, samples in made) < 4 * 8000


@pytest.mark.parametrize("name", ["a.webm", "a.mp4"])
def test_a_gap_in_the_time_stamps_is_silence(tmp_path: Path, name: str) -> None:
    rate, codec = 48000, "libopus" if name.endswith("webm") else "aac"
    file = encode(tmp_path / name, sweep(SECONDS, rate), rate=rate, codec=codec, gap=(4.0, 0.5))
    whole, _ = decode(file)
    assert len(whole) / rate == pytest.approx(SECONDS + 0.5, abs=0.05)
    assert np.abs(whole[round(4.1 * rate) : round(4.4 * rate)]).max() < 0.01
    part, _ = decode(file, 5.0, 6.0)
    lag = correlate(whole[: 8 * rate, 0], part[:, 0], mode="valid", method="fft").argmax() - 5 * rate
    assert abs(lag) <= 0.002 * rate


@pytest.mark.parametrize(("name", "codec"), [("a.m4a", "alac"), ("a.mka", "flac"), ("a.mov", "pcm_s16le")])
def test_stereo_stays_stereo_whatever_the_suffix(tmp_path: Path, name: str, codec: str) -> None:
    samples = np.stack([sweep(2, 44100)[:, 0], sweep(2, 44100)[::-1, 0]], axis=1)
    file = encode(tmp_path / name, samples, rate=44100, codec=codec).rename(tmp_path / "wrong.wav")
    np.testing.assert_allclose(decode(file)[0], samples, atol=2**-15)
    np.testing.assert_allclose(read_audio(file)[0], samples.mean(axis=1), atol=2**-15)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("text.m4a", b"No sound at all.\n" * 40),
        ("empty.webm", b""),
        ("one.mp4", b"x"),
        ("picture.mp4", b"\x89PNG\r\n\x1a\n" + bytes(100)),
        ("noise.wav", np.random.default_rng(3).bytes(50_000)),
        ("noise.m4a", np.random.default_rng(4).bytes(50_000)),
        ("samples.raw", np.random.default_rng(5).bytes(5_000)),
        ("list.m4a", b"#EXTM3U\n#EXTINF:3,\nother.wav\n"),
        ("concat.m4a", b"ffconcat version 1.0\nfile other.wav\n"),
    ],
)
def test_what_is_no_sound_is_one_line(
    tmp_path: Path, name: str, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    soundfile.write(tmp_path / "other.wav", sweep(1, 16000), 16000)
    (tmp_path / name).write_bytes(content)
    for read in (header, decode, read_audio):
        with pytest.raises(UndecodableError, match=rf"{name}: cannot be read as audio \(.+\)") as caught:
            read(tmp_path / name)
        assert "\n" not in str(caught.value)
        with pytest.raises(SonorantError, match=r"none\.m4a: no such audio file"):
            read(tmp_path / "none.m4a")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("codec", "old", "new", "reason"),
    [
        ("aac", b"mp4a", b"drms", "protected"),
        ("aac", b"mp4a", b"enca", "protected"),
        ("alac", b"alac", b"xxxx", "codec"),
    ],
)
def test_sound_that_cannot_be_had_is_one_line(
    tmp_path: Path, codec: str, old: bytes, new: bytes, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = encode(tmp_path / "a.m4a", sweep(2, 44100), rate=44100, codec=codec)
    data = file.read_bytes()
    table = data.index(b"stsd")
    file.write_bytes(data[:table] + data[table:].replace(old, new))
    mute = without_sound(tmp_path / "mute.mp4")
    for read in (header, decode):
        with pytest.raises(UndecodableError, match=reason):
            read(file)
        with pytest.raises(UndecodableError, match="it contains no audio stream"):
            read(mute)
    assert capfd.readouterr() == ("", "")


def test_damage_in_the_middle_is_told_or_survived(
    encoded: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("aac.m4a", "opus.webm", "wma.wma", "mp3.avi", "ac3.ac3", "flac.mka"):
        data = bytearray((encoded / name).read_bytes())
        middle = len(data) // 2
        data[middle : middle + 2000] = np.random.default_rng(6).bytes(2000)
        (tmp_path / name).write_bytes(data)
        try:
            assert np.isfinite(decode(tmp_path / name)[0]).all()
        except UndecodableError as error:
            assert "\n" not in str(error)
    assert capfd.readouterr() == ("", "")


def test_without_pyav_one_line_says_what_to_install(encoded: Path) -> None:
    code = (
        "import sys; from pathlib import Path; sys.modules['av'] = None\n"
        "from sonorant.audio.wav import read_audio; from sonorant.errors import SonorantError\n"
        f"print(len(read_audio(Path({str(encoded / 'mp3.mp3')!r}), start=1.0, end=2.0)[0]))\n"
        f"try: read_audio(Path({str(encoded / 'aac.m4a')!r}))\n"
        "except SonorantError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    length, line = done.stdout.splitlines()
    assert length == "22050" and "[pipeline]" in line
