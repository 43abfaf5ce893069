"""The command `sonorant` as a person types it: a wav comes out, or one line that says why not and no file."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from sonorant.registry import RegisterConfig, register


def sonorant(*arguments: str | Path, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "sonorant.cli", *map(str, arguments)], input=text, capture_output=True, check=False
    )


def test_say_writes_a_wav(voice_bundle: Path, tmp_path: Path) -> None:
    done = sonorant("say", "Hello there.", "--voice", voice_bundle, "--threads", "1", "-o", tmp_path / "hello.wav")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    samples, rate = soundfile.read(tmp_path / "hello.wav")
    assert rate == 16000
    assert np.abs(samples).max() > 0
    assert [file.name for file in tmp_path.iterdir()] == ["hello.wav"]


def test_standard_input_and_output(voice_bundle: Path, tmp_path: Path) -> None:
    sonorant("say", "Hello there.", "--voice", voice_bundle, "-o", tmp_path / "hello.wav", "--speaker", "ben", "--speed", "1.5")
    piped = sonorant("say", "-", "--voice", voice_bundle, "-o", "-", "--speaker", "ben", "--speed", "1.5", text=b"Hello there.\n")
    assert piped.returncode == 0
    assert piped.stdout == (tmp_path / "hello.wav").read_bytes()
    assert soundfile.info(io.BytesIO(piped.stdout)).samplerate == 16000


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (["", "--voice", "BUNDLE"], b"", "error: the text is empty"),
        (["-", "--voice", "BUNDLE"], b"caf\xe9", "error: standard input: not UTF-8 (byte 3)"),
        (["Hi.", "--voice", "nowhere"], b"", "error: nowhere: no voice bundle here"),
        (["Hi.", "--voice", "BUNDLE", "--speaker", "carl"], b"", "error: no speaker 'carl'; the voice has: anna, ben"),
        (["Hi.", "--voice", "BUNDLE", "--speed", "9"], b"", "error: speed must be 0.5 to 2.0"),
        (["Hi.", "--voice", "BUNDLE", "--threads", "0"], b"", "error: threads must be at least 1"),
    ],
)
def test_an_error_is_one_line_and_no_file(
    voice_bundle: Path, tmp_path: Path, arguments: list[str], text: bytes, message: str
) -> None:
    filled = [str(voice_bundle) if argument == "BUNDLE" else argument for argument in arguments]
    done = sonorant("say", *filled, "-o", tmp_path / "out.wav", text=text)
    assert done.returncode == 1
    assert done.stderr.decode().startswith(message)
    assert done.stderr.count(b"\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_say_with_a_voice_of_the_registry(
    voice_bundle: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("registry")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    register(voice_bundle, {}, folder / "no report", RegisterConfig(model="tiny"), {})
    done = sonorant("say", "Hello there.", "--voice", "models:/tiny@challenger", "-o", "hello.wav")
    assert (done.returncode, done.stderr) == (0, b"")
    assert soundfile.info(folder / "hello.wav").duration > 0.1
    done = sonorant("say", "Hello there.", "--voice", "models:/tiny@nobody", "-o", "nobody.wav")
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: models:/tiny@nobody")
    assert done.stderr.count(b"\n") == 1
    assert not (folder / "nobody.wav").exists()


def test_a_folder_as_output_is_refused(voice_bundle: Path, tmp_path: Path) -> None:
    done = sonorant("say", "Hi.", "--voice", voice_bundle, "-o", tmp_path)
    assert done.returncode == 1
    assert b"is a folder" in done.stderr


def test_help_teaches_by_example() -> None:
    done = sonorant("say", "--help")
    assert done.returncode == 0
    assert done.stdout.count(b"sonorant say") >= 5
