"""The command `sonorant` as a person types it: a wav comes out, or one line that says why not and no file."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile

from sonorant.registry import RegisterConfig, register
from sonorant.runtime.voice import AT_ONCE
from tests.support.waiting import PATIENCE, wait_until


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
    sonorant(
        "say",
        "Hello there.",
        "--voice",
        voice_bundle,
        "-o",
        tmp_path / "hello.wav",
        "--speaker",
        "ben",
        "--speed",
        "1.5",
    )
    piped = sonorant(
        "say", "-", "--voice", voice_bundle, "-o", "-", "--speaker", "ben", "--speed", "1.5", text=b"Hello there.\n"
    )
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
        (["Hi.", "--voice", "BUNDLE", "--variant", "int3"], b"", "error: BUNDLE: no variant 'int3'"),
        (
            ["Hi.", "--voice", "BUNDLE", "--runtime", "abacus"],
            b"",
            "error: unknown runtime 'abacus'; there are: onnxruntime",
        ),
        (["...", "--voice", "BUNDLE", "--stream"], b"", "error: nothing in the text can be spoken"),
        (
            ["-", "--voice", "BUNDLE", "--stream"],
            b"Hello there. And a caf\xe9",
            "error: standard input: not UTF-8 (byte 22)",
        ),
        (
            ["-", "--voice", "BUNDLE", "--stream"],
            b"Fine. " * 400 + b"x" * 9000,
            "error: a word of more than 300 characters",
        ),
    ],
)
def test_an_error_is_one_line_and_no_file(
    voice_bundle: Path, tmp_path: Path, arguments: list[str], text: bytes, message: str
) -> None:
    filled = [str(voice_bundle) if argument == "BUNDLE" else argument for argument in arguments]
    done = sonorant("say", *filled, "-o", tmp_path / "out.wav", text=text)
    assert done.returncode == 1
    assert done.stderr.decode().startswith(message.replace("BUNDLE", str(voice_bundle)))
    assert done.stderr.count(b"\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "line"),
    [
        (("--seed", "1"), "this voice is of the family parallel, which says a text in one way"),
        (("--temperature", "0.7"), "this voice is of the family parallel, which says a text in one way"),
        (("--candidates", "2"), "this voice is of the family parallel, which says a text in one way"),
        (("--prompt", "nowhere.wav"), "this voice is of the family parallel, which says a text in one way"),
    ],
)
def test_a_parallel_voice_refuses_what_concerns_decoding(
    voice_bundle: Path, tmp_path: Path, option: tuple[str, str], line: str
) -> None:
    for more in ((), ("--stream",)):
        done = sonorant("say", "Hi.", "--voice", voice_bundle, *option, *more, "-o", tmp_path / "out.wav")
        assert done.returncode == 1
        assert done.stderr.decode().startswith(f"error: {line}")
        assert done.stderr.count(b"\n") == 1
        assert list(tmp_path.iterdir()) == []


def test_a_voice_of_codes_says_the_same_for_the_same_seed(codec_lm_bundle: Path, tmp_path: Path) -> None:
    drawn = [
        "--voice",
        str(codec_lm_bundle),
        "--threads",
        "1",
        "--temperature",
        "0.9",
        "--top-k",
        "10",
        "--top-p",
        "0.95",
    ]
    for name, seed in (("one", "1"), ("again", "1"), ("other", "2")):
        assert sonorant("say", TEXT, *drawn, "--seed", seed, "-o", tmp_path / f"{name}.wav").returncode == 0
    one, again, other = ((tmp_path / f"{name}.wav").read_bytes() for name in ("one", "again", "other"))
    assert one == again
    assert one != other
    best = sonorant("say", "-", "--stream", "--raw", *drawn, "--candidates", "3", "-o", "-", text=TEXT.encode())
    assert best.returncode == 0
    assert sonorant("say", TEXT, "--raw", *drawn, "--candidates", "3", "-o", tmp_path / "best.raw").returncode == 0
    said = np.frombuffer((tmp_path / "best.raw").read_bytes(), "<i2").astype(int)
    assert np.abs(np.frombuffer(best.stdout, "<i2") - said).max() <= 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--speed", "1.2"), "error: this voice speaks at its own pace"),
        (("--seed", "-1"), "error: seed must be 0 to"),
        (("--temperature", "-1"), "error: temperature must be at least 0, not -1.0"),
        (("--top-p", "2"), "error: top_p must be above 0 and at most 1, not 2.0"),
        (("--candidates", "2"), "error: 2 candidates would all be the same"),
        (("--prompt", "mine.wav"), "error: mine.wav: this voice was trained without references (prompt_frames 0)"),
    ],
)
def test_what_a_voice_of_codes_cannot_do_is_one_line(
    codec_lm_bundle: Path, tmp_path: Path, options: tuple[str, str], line: str
) -> None:
    done = sonorant("say", "Hi.", "--voice", codec_lm_bundle, *options, "-o", tmp_path / "out.wav")
    assert done.returncode == 1
    assert done.stderr.decode().startswith(line)
    assert done.stderr.count(b"\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_sentence_that_did_not_go_well_is_told_in_a_line(codec_lm_bundle: Path, tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(codec_lm_bundle, tmp_path / "voice"))
    described = json.loads((bundle / "voice.json").read_text(encoding="utf-8"))
    described["decoding"]["defaults"] |= {"budget": 0.05, "retries": 1}  # no sentence ends in so short a time
    (bundle / "voice.json").write_text(json.dumps(described), encoding="utf-8")
    for more in ((), ("--stream",)):
        done = sonorant("say", "Hello there.", "--voice", bundle, *more, "-o", tmp_path / "hello.wav")
        assert done.returncode == 0
        assert (
            done.stderr
            == b"WARNING: sentence 1 did not go well (budget) and is given as it is; another seed may help\n"
        )
        assert soundfile.info(tmp_path / "hello.wav").duration > 0


def registered(voice_bundle: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, now the working one, with a registry that holds models:/tiny@challenger."""
    folder = tmp_path_factory.mktemp("registry")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    register(voice_bundle, {}, folder / "no report", RegisterConfig(model="tiny"), {})
    return folder


def test_say_with_a_voice_of_the_registry(
    voice_bundle: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = registered(voice_bundle, tmp_path_factory, monkeypatch)
    done = sonorant("say", "Hello there.", "--voice", "models:/tiny@challenger", "-o", "hello.wav")
    assert (done.returncode, done.stderr) == (0, b"")
    assert soundfile.info(folder / "hello.wav").duration > 0.1
    done = sonorant("say", "Hello there.", "--voice", "models:/tiny@nobody", "-o", "nobody.wav")
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: models:/tiny@nobody")
    assert done.stderr.count(b"\n") == 1
    assert not (folder / "nobody.wav").exists()


def test_a_demo_page_that_is_terminated_leaves_no_bundle(
    voice_bundle: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(voice_bundle, tmp_path_factory, monkeypatch)
    temporary = tmp_path_factory.mktemp("temporary")
    command = [sys.executable, "-m", "sonorant.cli", "demo-page", "--voice", "models:/tiny@challenger", "--port", "0"]
    surroundings = os.environ | {"TMPDIR": str(temporary)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=surroundings) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"open http://127.0.0.1:")
        assert list(temporary.rglob("voice.json"))
        process.terminate()
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        assert process.stderr.read() == b""
    assert list(temporary.rglob("voice.json")) == []


TEXT = "One apple. Two pears, and what else?\n\nThe end."


def test_a_stream_is_the_same_wav_as_it_is_in_a_file(voice_bundle: Path, tmp_path: Path) -> None:
    common: list[str | Path] = ["--voice", voice_bundle, "--speaker", "ben", "--threads", "1"]
    assert sonorant("say", TEXT, *common, "-o", tmp_path / "whole.wav").returncode == 0
    assert sonorant("say", "-", *common, "--stream", "-o", tmp_path / "file.wav", text=TEXT.encode()).returncode == 0
    piped = sonorant("say", "-", *common, "--stream", "-o", "-", text=TEXT.encode())
    raw = sonorant("say", TEXT, *common, "--stream", "--raw", "-o", "-")
    whole, _ = soundfile.read(tmp_path / "whole.wav", dtype="int16")
    file, rate = soundfile.read(tmp_path / "file.wav", dtype="int16")
    assert rate == 16000
    assert (tmp_path / "file.wav").stat().st_size == 44 + 2 * len(file)
    np.testing.assert_allclose(file, whole, atol=1)
    np.testing.assert_array_equal(np.frombuffer(raw.stdout, "<i2"), file)
    np.testing.assert_array_equal(np.frombuffer(piped.stdout[44:], "<i2"), file)
    assert soundfile.info(io.BytesIO(piped.stdout)).samplerate == 16000  # though its header cannot say how long it is


def speaking(voice_bundle: Path, *arguments: str | Path) -> subprocess.Popen[bytes]:
    """A process that has begun to speak from a standard input that stays open."""
    command = [sys.executable, "-m", "sonorant.cli", "say", "-", "--stream", "--voice", voice_bundle, *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    assert process.stdin is not None
    process.stdin.write(TEXT.encode() * 20)
    process.stdin.flush()
    return process


def test_speech_comes_while_the_text_is_still_written(voice_bundle: Path) -> None:
    with speaking(voice_bundle, "-o", "-") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert len(process.stdout.read(20_000)) == 20_000
        rest, errors = process.communicate(b"And more. ")
        assert (process.returncode, errors) == (0, b"")
        assert len(rest) > 100_000


@pytest.mark.parametrize("typed", [b"Hello there.\n", b"(Who is it?) \n", b"Then he said:\n"])
def test_a_sentence_that_a_person_types_is_heard_before_the_next_word(voice_bundle: Path, typed: bytes) -> None:
    keyboard, terminal = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "sonorant.cli",
        "say",
        "-",
        "--stream",
        "--raw",
        "--voice",
        voice_bundle,
        "-o",
        "-",
    ]
    with (
        os.fdopen(keyboard, "wb", buffering=0) as typing,
        subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE) as process,
    ):
        os.close(terminal)
        try:
            typing.write(typed)
            assert process.stdout is not None
            heard, _, _ = select.select([process.stdout], [], [], PATIENCE)
            assert heard
            assert os.read(process.stdout.fileno(), 1)
        finally:
            process.kill()


def test_whoever_stops_listening_ends_it_without_a_word(voice_bundle: Path) -> None:
    with speaking(voice_bundle, "-o", "-") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(5_000)
        process.stdout.close()
        with suppress(BrokenPipeError):  # it may have ended before it was given more to say
            process.stdin.write(TEXT.encode() * 500)
            process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 128 + signal.SIGPIPE


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_leaves_no_file(voice_bundle: Path, tmp_path: Path, stop: signal.Signals) -> None:
    with speaking(voice_bundle, "-o", tmp_path / "book.wav") as process:
        assert process.stdin is not None
        assert process.stderr is not None
        wait_until(lambda: any(file.stat().st_size >= 20_000 for file in tmp_path.iterdir()))
        assert [file.name for file in tmp_path.iterdir()] != ["book.wav"]
        process.send_signal(stop)
        assert process.wait(PATIENCE) == 128 + stop
        assert process.stderr.read() == b""
        process.stdin.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_as_output_is_refused(voice_bundle: Path, tmp_path: Path) -> None:
    done = sonorant("say", "Hi.", "--voice", voice_bundle, "-o", tmp_path)
    assert done.returncode == 1
    assert b"is a folder" in done.stderr


@pytest.mark.parametrize("raw", [True, False])
def test_a_pipe_as_output_is_spoken_into_and_stays_a_pipe(voice_bundle: Path, tmp_path: Path, raw: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    options = ["--raw"] if raw else []
    command = [
        sys.executable,
        "-m",
        "sonorant.cli",
        "say",
        "One.",
        "--voice",
        voice_bundle,
        *options,
        "-o",
        tmp_path / "pipe",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process, os.fdopen(reader, "rb") as pipe:
        heard = b""
        while process.poll() is None:
            heard += pipe.read() or b""
            time.sleep(0.01)
        heard += pipe.read() or b""
        assert process.stderr is not None
        assert (process.returncode, process.stderr.read()) == (0, b"")
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]
    assert (tmp_path / "pipe").is_fifo()
    piped = sonorant("say", "One.", "--voice", voice_bundle, *options, "-o", "-").stdout
    assert (heard if raw else heard[44:]) == (piped if raw else piped[44:])


def test_a_link_as_output_stays_a_link(voice_bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "link.wav").symlink_to("file.wav")
    assert sonorant("say", "One.", "--voice", voice_bundle, "-o", tmp_path / "link.wav").returncode == 0
    assert (tmp_path / "link.wav").is_symlink()
    assert soundfile.info(tmp_path / "file.wav").duration > 0


def test_standard_input_without_an_end_is_read_no_further_than_the_limit(voice_bundle: Path) -> None:
    command = [sys.executable, "-m", "sonorant.cli", "say", "-", "--voice", voice_bundle, "-o", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            process.stdin.write(b"y\n" * (AT_ONCE.characters // 2 + 1))  # and stays open
            process.stdin.flush()
            assert process.wait(PATIENCE) == 1
        finally:
            process.kill()
        assert b"error: the text has more than 50000 characters" in process.stderr.read()


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("say - -o out.wav <&-", "standard input is closed"),
        ("say - --stream -o out.wav <&-", "standard input is closed"),
        ("say - -o out.wav 0> /dev/null", "standard input: cannot be read"),
        ("say One. -o - >&-", "standard output is closed"),
        ("say One. -o - > /dev/full", "standard output: cannot be written"),
        ("say One. --stream --raw -o - > /dev/full", "standard output: cannot be written"),
    ],
)
def test_standard_input_or_output_that_is_none_is_said_in_a_line(
    voice_bundle: Path, tmp_path: Path, shell: str, line: str
) -> None:
    say = f"'{sys.executable}' -m sonorant.cli say --voice '{voice_bundle}'"
    done = subprocess.run(["bash", "-c", shell.replace("say", say, 1)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {line}")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_teaches_by_example() -> None:
    done = sonorant("say", "--help")
    assert done.returncode == 0
    assert done.stdout.count(b"sonorant say") >= 5
