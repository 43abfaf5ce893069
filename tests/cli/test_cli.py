import io
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

from sonorant.audio.wav import read_audio
from sonorant.files import read_json
from sonorant.processes import usable_cores
from sonorant.registry import RegisterConfig, register
from sonorant.speech.voice import AT_ONCE
from tests.support.command import error_line, run_command
from tests.support.edited import edited
from tests.support.processes import start
from tests.support.waiting import PATIENCE, wait_until

SAY = [sys.executable, "-m", "sonorant.cli.main", "say"]
PATIENT = "--patience must be at least 0 seconds, and needs --stream and the text -"
TEXT = "One apple. Two pears, and what else?\n\nThe end."


def say(*words: str | Path, text: bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_command("sonorant.cli.main", "say", *words, stdin=text, cwd=cwd)


def heard(done: subprocess.CompletedProcess[str]) -> bytes:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.encode(errors="surrogateescape")


def assert_refused(done: subprocess.CompletedProcess[str], line: str, folder: Path) -> None:
    assert error_line(done).startswith(line)
    assert list(folder.iterdir()) == []


def test_say_writes_a_wav(voice_bundle: Path, tmp_path: Path) -> None:
    """Runs in a process without the tests' imports."""
    command = [*SAY, "Hello there.", "--voice", voice_bundle, "--threads", "1", "-o", tmp_path / "hello.wav"]
    done = subprocess.run(command, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    samples, rate = soundfile.read(tmp_path / "hello.wav")
    assert rate == 16000
    assert np.abs(samples).max() > 0
    assert [file.name for file in tmp_path.iterdir()] == ["hello.wav"]


def test_standard_input_and_output(voice_bundle: Path, tmp_path: Path) -> None:
    common: list[str | Path] = ["--voice", voice_bundle, "--speaker", "ben", "--speed", "1.5", "-o"]
    heard(say("Hello there.", *common, tmp_path / "hello.wav"))
    piped = heard(say("-", *common, "-", text=b"Hello there.\n"))
    assert piped == (tmp_path / "hello.wav").read_bytes()
    assert soundfile.info(io.BytesIO(piped)).samplerate == 16000


@pytest.mark.parametrize(("bundle", "streamed"), [("voice_bundle", False), ("codec_lm_bundle", True)])
def test_timings_are_written_beside_the_speech(
    bundle: str, streamed: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    voice: list[str | Path] = ["--voice", request.getfixturevalue(bundle), *(["--stream"] if streamed else [])]
    for kind in ("json", "vtt"):
        heard(say(TEXT, *voice, "-o", tmp_path / "out.wav", "--timings", tmp_path / f"words.{kind}"))
    words = read_json(tmp_path / "words.json")["words"]
    assert [word["text"] for word in words] == TEXT.replace(",", "").replace(".", "").replace("?", "").split()
    assert 0 <= words[0]["start"] < words[-1]["end"] <= soundfile.info(tmp_path / "out.wav").duration + 1e-4
    assert all(TEXT[word["first"] : word["last"]] == word["text"] for word in words)
    lines = (tmp_path / "words.vtt").read_text(encoding="utf-8").splitlines()
    sentences = ["One apple.", "Two pears, and what else?", "The end."]
    assert [line for line in lines if line.endswith((".", "?"))] == sentences


def test_an_error_leaves_neither_speech_nor_timings(voice_bundle: Path, tmp_path: Path) -> None:
    out = ["-o", tmp_path / "out.wav", "--timings", tmp_path / "out.vtt"]
    for text in (b"Fine. " * 400 + b"x" * 9000, b"..."):
        done = say("-", "--stream", "--voice", voice_bundle, *out, text=text)
        assert error_line(done)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "text", "line"),
    [
        (["-", "--voice", "BUNDLE"], b"caf\xe9", "standard input: not UTF-8 (byte 3)"),
        (["caf\udce9", "--voice", "BUNDLE", "--timings", "a.vtt"], b"", r"argument 'caf\udce9': not UTF-8 (byte 3)"),
        (["Hi.", "--voice", "BUNDLE", "--lexicon", "ODD"], b"", "ODD: line 2: 'Hi': 'q' does not begin with a phoneme"),
        (["Hi.", "--voice", "nowhere"], b"", "nowhere: no voice bundle here"),
        (["Hi.", "--voice", "BUNDLE", "--speed", "9"], b"", "speed must be 0.5 to 2.0"),
        (["Hi.", "--voice", "BUNDLE", "--seed", "1"], b"", "this voice is of the family parallel, which speaks a text"),
        (["Hi.", "--voice", "BUNDLE", "--prompt", "nowhere.wav"], b"", "this voice is of the family parallel"),
        (
            ["Hi.", "--voice", "CODES", "--top-p", "2"],
            b"",
            "decoding: key 'top_p': input should be less than or equal to 1, not 2.0",
        ),
        (
            ["Hi.", "--voice", "CODES", "--prompt", "mine.wav"],
            b"",
            "mine.wav: this voice was trained without prompts",
        ),
        (["Hi.", "--voice", "BUNDLE", "--threads", "0"], b"", "threads must be at least 1"),
        (["-", "--voice", "BUNDLE", "--stream"], b"<speak>a", "SSML line 1, column 9: no element found"),
        (["-", "--voice", "BUNDLE", "--stream"], b"Hello. And a caf\xe9", "standard input: not UTF-8 (byte 16)"),
        (["-", "--voice", "BUNDLE", "--stream"], b"Fine. " * 400 + b"x" * 9000, "a word of more than 300 characters"),
    ],
)
def test_an_error_is_one_line_and_no_file(
    voice_bundle: Path, codec_lm_bundle: Path, tmp_path: Path, words: list[str], text: bytes, line: str
) -> None:
    odd = codec_lm_bundle.with_name("ODD")
    odd.write_text("[en-us]\nHi  q\n")
    bundles = {"BUNDLE": str(voice_bundle), "CODES": str(codec_lm_bundle), "ODD": str(odd)}
    done = say(*(bundles.get(word, word) for word in words), "-o", tmp_path / "out.wav", text=text)
    assert_refused(done, line.replace("ODD", str(odd)), tmp_path)


@pytest.mark.parametrize("ending", ["flac", "mp3", "ogg", "opus", "raw", "WAV"])
def test_the_ending_of_the_name_is_the_format(voice_bundle: Path, tmp_path: Path, ending: str) -> None:
    out, common = tmp_path / f"{'n' * 240}.{ending}", ["--voice", voice_bundle, "--threads", "1", "--stream"]
    heard(say(TEXT, *common, "-o", out))
    spoken = np.frombuffer(heard(say(TEXT, *common, "--raw", "-o", "-")), "<i2") / 32768
    if ending == "raw":
        assert np.array_equal(np.frombuffer(out.read_bytes(), "<i2") / 32768, spoken)
        return
    assert soundfile.info(out).format == {"opus": "OGG"}.get(ending, ending.upper())
    found, _ = read_audio(out, 16000)
    assert len(found) == len(spoken) and np.corrcoef(found, spoken)[0, 1] > 0.9  # without an encoder's padding


def test_a_lexicon_and_too_many_threads(voice_bundle: Path, tmp_path: Path) -> None:
    lexicon, common = tmp_path / "lexicon.txt", ("--voice", voice_bundle, "--raw", "-o", "-")
    lexicon.write_text("[en]\napple  m ˈi n\n[de]\nHaus  h aʊ s\n")
    expected = heard(say("One [[m ˈi n]].", *common))
    assert heard(say("One apple.", *common, "--lexicon", lexicon)) == expected
    done = say("One apple.", *common, "--lexicon", lexicon, "--threads", "100000")
    assert done.stderr == f"WARNING: threads: {usable_cores()} instead of 100000, one for each usable core\n"
    lexicon.write_text("[de]\nHaus  h aʊ s\n")
    assert error_line(say("Hi.", *common, "--lexicon", lexicon)).startswith(f"{lexicon}: has no words of en-us")


def test_marks_are_spoken_or_left_as_they_are(voice_bundle: Path) -> None:
    common = ("--voice", voice_bundle, "--threads", "1", "--raw", "-o", "-")
    marked = heard(say("One [[pause 0.5]] apple.", *common))
    ssml = '<speak>One <break time="0.5s"/> apple.</speak>'
    assert heard(say("-", *common, text=ssml.encode())) == marked
    assert heard(say("One [[pause 0.5]] apple.", *common, "--no-markup")) != marked


def test_a_voice_of_codes_says_the_same_for_the_same_seed(codec_lm_bundle: Path) -> None:
    voice = ["--voice", codec_lm_bundle, "--threads", "1", "--raw", "-o", "-"]
    drawn: list[str | Path] = [*voice, "--temperature", "0.9", "--top-k", "10", "--top-p", "0.95"]
    one, again, other = (heard(say(TEXT, *drawn, "--seed", seed)) for seed in ("1", "1", "2"))
    assert one == again
    assert one != other


def test_a_sentence_that_did_not_go_well_is_told_in_a_line(codec_lm_bundle: Path, tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(codec_lm_bundle, tmp_path / "voice"))
    with edited(bundle / "voice.json") as described:
        described["decoding"]["defaults"] |= {"budget": 0.05, "retries": 1}  # no sentence fits
    warning = "WARNING: sentence 1 did not go well (budget) and is returned as it is; another seed may help\n"
    done = say("Hello there.", "--voice", bundle, "-o", tmp_path / "hello.wav")
    assert (done.returncode, done.stderr) == (0, warning)
    assert soundfile.info(tmp_path / "hello.wav").duration > 0


def test_a_voice_of_the_registry_speaks(
    voice_bundle: Path, tracked_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tracked_project, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    register(voice_bundle, {}, tmp_path / "no report", RegisterConfig(model="tiny"), {})
    heard(say("Hello there.", "--voice", "models:/tiny@challenger", "-o", "hello.wav"))
    assert soundfile.info(tmp_path / "hello.wav").duration > 0.1
    refused = say("Hi.", "--voice", "models:/tiny@nobody", "-o", "nobody.wav")
    assert error_line(refused).startswith("models:/tiny@nobody")
    assert not (tmp_path / "nobody.wav").exists()


def test_a_stream_is_the_same_wav_as_it_is_in_a_file(voice_bundle: Path, tmp_path: Path) -> None:
    common: list[str | Path] = ["--voice", voice_bundle, "--speaker", "ben", "--threads", "1"]
    heard(say(TEXT, *common, "-o", tmp_path / "whole.wav"))
    heard(say("-", *common, "--stream", "-o", tmp_path / "file.wav", text=TEXT.encode()))
    piped = heard(say("-", *common, "--stream", "-o", "-", text=TEXT.encode()))
    raw = heard(say(TEXT, *common, "--stream", "--raw", "-o", "-"))
    whole, _ = soundfile.read(tmp_path / "whole.wav", dtype="int16")
    file, rate = soundfile.read(tmp_path / "file.wav", dtype="int16")
    assert rate == 16000
    assert (tmp_path / "file.wav").stat().st_size == 44 + 2 * len(file)
    np.testing.assert_allclose(file, whole, atol=1)
    np.testing.assert_allclose(np.frombuffer(raw, "<i2"), file, atol=1)  # in other chunks
    np.testing.assert_array_equal(np.frombuffer(piped[44:], "<i2"), file)
    assert soundfile.info(io.BytesIO(piped)).samplerate == 16000  # a piped header has no length


def speaking(voice_bundle: Path, *arguments: str | Path) -> subprocess.Popen[bytes]:
    """Start a process that speaks its open standard input."""
    command = [*SAY, "-", "--stream", "--voice", voice_bundle, *arguments]
    process = start(command, **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE))
    process.stdin.write(TEXT.encode() * 20)
    process.stdin.flush()
    return process


def test_speech_comes_while_the_text_is_still_written(voice_bundle: Path) -> None:
    with speaking(voice_bundle, "-o", "-") as process:
        assert len(process.stdout.read(20_000)) == 20_000
        rest, errors = process.communicate(b"And more. ")
        assert (process.returncode, errors) == (0, b"")
        assert len(rest) > 100_000


@pytest.mark.parametrize("typed", [b"Hello there.\n", b"Then he said:\n"])
def test_a_sentence_that_a_person_types_is_heard_before_the_next_word(voice_bundle: Path, typed: bytes) -> None:
    keyboard, terminal = pty.openpty()
    command = [*SAY, "-", "--stream", "--raw", "--voice", voice_bundle, "-o", "-"]
    with (
        os.fdopen(keyboard, "wb", buffering=0) as typing,
        subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE) as process,
    ):
        os.close(terminal)
        try:
            typing.write(typed)
            readable, _, _ = select.select([process.stdout], [], [], PATIENCE)
            assert readable
            assert os.read(process.stdout.fileno(), 1)
        finally:
            process.kill()


def test_a_sentence_is_heard_once_its_writer_has_paused_for_as_long_as_the_patience(voice_bundle: Path) -> None:
    command = [*SAY, "-", "--stream", "--raw", "--patience", "0.1", "--voice", voice_bundle, "-o", "-"]
    with start(command, **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)) as process:
        process.stdin.write(b"One apple.")
        process.stdin.flush()
        alone = heard(say("One apple.", "--voice", voice_bundle, "--raw", "-o", "-"))
        assert len(process.stdout.read(len(alone))) == len(alone)
        rest, errors = process.communicate(b" The end")
        assert (process.returncode, errors) == (0, b"")
        assert len(rest) > 1000


def test_whoever_stops_listening_ends_it_without_a_word(voice_bundle: Path) -> None:
    with speaking(voice_bundle, "-o", "-") as process:
        process.stdout.read(5_000)
        process.stdout.close()
        with suppress(BrokenPipeError):  # it may have exited already
            process.stdin.write(TEXT.encode() * 500)
            process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 128 + signal.SIGPIPE


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_leaves_no_file(voice_bundle: Path, tmp_path: Path, stop: signal.Signals) -> None:
    with speaking(voice_bundle, "-o", tmp_path / "book.wav") as process:
        wait_until(lambda: any(file.stat().st_size >= 20_000 for file in tmp_path.iterdir()))
        assert [file.name for file in tmp_path.iterdir()] != ["book.wav"]
        process.send_signal(stop)
        assert process.wait(PATIENCE) == 128 + stop
        assert process.stderr.read() == b""
        process.stdin.close()
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_as_output_is_spoken_into_and_stays_a_pipe(voice_bundle: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    command = [*SAY, "One.", "--voice", voice_bundle, "-o", tmp_path / "pipe"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process, os.fdopen(reader, "rb") as pipe:
        read = b""
        while process.poll() is None:
            read += pipe.read() or b""
            time.sleep(0.01)
        read += pipe.read() or b""
        assert (process.returncode, process.stderr.read()) == (0, b"")
    assert (tmp_path / "pipe").is_fifo()
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]
    assert read[44:] == heard(say("One.", "--voice", voice_bundle, "-o", "-"))[44:]


def test_standard_input_without_an_end_is_read_no_further_than_the_limit(voice_bundle: Path) -> None:
    command = [*SAY, "-", "--voice", voice_bundle, "-o", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            process.stdin.write(b"y\n" * (AT_ONCE.characters // 2 + 1))
            process.stdin.flush()
            assert process.wait(PATIENCE) == 1
        finally:
            process.kill()
        error = process.stderr.read()
        assert b"error: the text has more than 50000 characters" in error and b"say --stream" in error


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("say - --stream -o out.wav <&-", "standard input is closed"),
        ("say - -o out.wav 0> /dev/null", "standard input: cannot be read"),
        ("say One. -o - >&-", "standard output is closed"),
        ("say One. --stream --raw -o - > /dev/full", "standard output: No space left"),
        ("say - --patience 1 -o out.wav", PATIENT),
        ("say Hi. --stream --patience 1 -o out.wav", PATIENT),
        ("say - --stream --patience -1 -o out.wav", PATIENT),
        (
            "say One. -o out.wav --timings words.txt",
            "words.txt: unknown format; use a name that ends in .json, .srt, .vtt",
        ),
        ("say One. -o out.wav --timings /proc/words.srt", "/proc/words.srt: No such file or directory; check the path"),
        ("say One. -o a.aac", "a.aac: unknown format; use a name that ends in .wav, .pcm, .mp3, .opus, .flac, .ogg"),
        ("say One. -o a.mp3 --raw", "a.mp3: --raw writes samples alone; use a name that ends in .raw or .pcm"),
        ("say One. -o $(printf 'ü%.0s' {1..126}).wav", "ü"),
        ("ulimit -f 1; say One. -o out.wav", "PLACE/out.wav: File too large; free some space"),
        ("ulimit -f 1; say 'One apple, two pears.' -o out.mp3", "PLACE/out.mp3: File too large; free some space"),
    ],
)
def test_what_cannot_be_read_or_written_is_told_in_a_line(
    voice_bundle: Path, tmp_path: Path, shell: str, line: str
) -> None:
    command = f"'{sys.executable}' -m sonorant.cli.main say --voice '{voice_bundle}'"
    script = shell.replace("say", command, 1)
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert_refused(done, line.replace("PLACE", str(tmp_path)), tmp_path)
