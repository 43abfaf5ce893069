"""A voice speaks what it can, says what it left out, refuses the rest, and needs no torch for it."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.runtime.streaming import PAUSE_SECONDS
from sonorant.runtime.voice import AT_ONCE, Voice


@pytest.fixture(scope="module")
def voice(voice_bundle: Path) -> Voice:
    return Voice.load(voice_bundle, threads=1)


def test_says_a_sentence(voice: Voice) -> None:
    samples = voice.say("Hello there.")
    assert samples.dtype == np.float32
    assert samples.ndim == 1
    assert len(samples) % voice.description.audio.hop == 0
    assert len(samples) > 0.1 * voice.sample_rate
    assert np.isfinite(samples).all()
    assert 0 < np.abs(samples).max() <= 1
    np.testing.assert_array_equal(samples, voice.say("Hello there."))


def test_sentences_are_joined_with_pauses(voice: Voice) -> None:
    pause = np.zeros(round(PAUSE_SECONDS * voice.sample_rate), np.float32)
    parts = [voice.say("One apple."), pause, voice.say("Two pears.")]
    np.testing.assert_array_equal(voice.say("One apple. Two pears."), np.concatenate(parts))


def test_faster_is_shorter(voice: Voice) -> None:
    text = "A sentence that is long enough to tell one speed from the other."
    slow, normal, fast = (len(voice.say(text, speed=speed)) for speed in (0.5, 1.0, 2.0))
    assert slow == pytest.approx(2 * normal, rel=0.05)
    assert fast < normal


def test_speakers_differ_and_the_first_is_the_default(voice: Voice) -> None:
    default, anna, ben = (voice.say("Who is it?", speaker) for speaker in (None, "anna", "ben"))
    np.testing.assert_array_equal(default, anna)
    assert default.shape != ben.shape or not np.allclose(default, ben)


@pytest.mark.parametrize("text", ["", "  \n", "...", "?!", "你好", "\x00\x07"])
def test_nothing_to_say_is_refused(voice: Voice, text: str) -> None:
    with pytest.raises(SonorantError, match=r"empty|nothing in the text can be spoken"):
        voice.say(text)


@pytest.mark.parametrize("speed", [0.49, 2.01, 0.0, -1.0, float("nan"), float("inf")])
def test_speed_out_of_range_is_refused(voice: Voice, speed: float) -> None:
    with pytest.raises(SonorantError, match=r"speed must be 0\.5 to 2\.0"):
        voice.say("Hello.", speed=speed)


def test_unknown_speaker_lists_those_there_are(voice: Voice) -> None:
    with pytest.raises(SonorantError, match="no speaker 'carl'; the voice has: anna, ben"):
        voice.say("Hello.", "carl")


def test_too_long_a_text_is_refused(voice: Voice) -> None:
    with pytest.raises(SonorantError, match=f"more than {AT_ONCE.characters} characters"):
        voice.say("a " * AT_ONCE.characters)


def test_unknown_characters_are_left_out_and_told(voice: Voice, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        samples = voice.say("Hello 你 there.")
    assert "\\u4f60" in caplog.text
    caplog.clear()
    np.testing.assert_array_equal(samples, voice.say("Hello there."))
    assert caplog.text == ""


def test_another_frontend_version_is_told(voice_bundle: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bundle = Path(shutil.copytree(voice_bundle, tmp_path / "voice"))
    data = json.loads((bundle / "voice.json").read_text(encoding="utf-8"))
    data["frontend"]["version"] = "gruut 0.0.1"
    (bundle / "voice.json").write_text(json.dumps(data), encoding="utf-8")
    Voice.load(bundle).say("Hello.")
    assert "trained with frontend 'gruut 0.0.1'" in caplog.text


def test_a_batch_equals_its_rows_alone(voice: Voice) -> None:
    rows = [
        voice.symbols.to_tokens(voice.frontend.speak(text).phonemes)
        for text in ("No.", "A rather longer sentence, with a pause.")
    ]
    tokens = np.zeros((2, max(map(len, rows)), 3), np.int64)
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = row
    lengths, speaker, speed = np.array([len(row) for row in rows]), np.array([0, 1]), np.array([1.0, 1.3], np.float32)
    samples, sample_lengths = voice.synthesize(tokens, lengths, speaker, speed)
    assert samples.shape == (2, sample_lengths.max())
    for number, row in enumerate(rows):
        one = slice(number, number + 1)
        alone, length = voice.synthesize(row[None], lengths[one], speaker[one], speed[one])
        assert length[0] == sample_lengths[number]
        np.testing.assert_allclose(samples[number, : length[0]], alone[0], atol=1e-4)
        assert not samples[number, length[0] :].any()


def test_torch_and_onnxruntime_speak_alike(voice: Voice, voice_bundle: Path, trained: tuple[Path, Path]) -> None:
    by_torch = Voice.load(voice_bundle, runtime="torch", trained=trained)
    np.testing.assert_allclose(by_torch.say("The same voice."), voice.say("The same voice."), atol=1e-4)
    with pytest.raises(SonorantError, match="the folders of the trained models"):
        Voice.load(voice_bundle, runtime="torch")


def test_no_threads_are_refused(voice_bundle: Path) -> None:
    with pytest.raises(SonorantError, match="threads must be at least 1, not 0"):
        Voice.load(voice_bundle, threads=0)


def test_speaking_imports_neither_torch_nor_training(voice_bundle: Path) -> None:
    program = f"""
import sys
from sonorant.runtime import Voice
Voice.load({str(voice_bundle)!r}).say("Hello.")
heavy = ["torch", "onnx", "mlflow", "prefect", "pandas", "scipy"]
heavy += ["sonorant.training", "sonorant.models", "sonorant.data", "sonorant.export"]
print(sorted(name for name in sys.modules if name in heavy))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
