import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.speech.voice import AT_ONCE, Voice
from tests.support.runtimes import edited, padded, tokens_of


def test_says_a_sentence(voice: Voice) -> None:
    samples = voice.say("Hello there.")
    assert samples.dtype == np.float32 and len(samples) > 0.1 * voice.sample_rate
    assert 0 < np.abs(samples).max() <= 1
    np.testing.assert_array_equal(samples, voice.say("Hello there."))


def test_faster_is_shorter(voice: Voice) -> None:
    text = "A sentence that is long enough to tell one speed from the other."
    slow, normal, fast = (len(voice.say(text, speed=speed)) for speed in (0.5, 1.0, 2.0))
    assert slow == pytest.approx(2 * normal, rel=0.05)
    assert fast < normal


def test_speakers_differ_and_the_first_is_the_default(any_voice: Voice) -> None:
    default, anna, ben = (any_voice.say("Who is it?", speaker) for speaker in (None, "anna", "ben"))
    np.testing.assert_array_equal(default, anna)
    assert anna.shape != ben.shape or not np.allclose(anna, ben)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        *(({"speed": speed}, r"speed must be 0\.5 to 2\.0") for speed in (0.49, 2.01, np.nan)),
        ({"speaker": "carl"}, "no speaker 'carl'; the voice has: anna, ben"),
        ({"chunk": 0}, "chunk must be at least 1"),
    ],
    ids=str,
)
def test_arguments_are_refused_at_once(voice: Voice, how: dict[str, Any], message: str) -> None:
    with pytest.raises(SonorantError, match=message):
        voice.stream("Hello.", **how)


def test_too_long_a_text_is_refused(voice: Voice) -> None:
    with pytest.raises(SonorantError, match=f"more than {AT_ONCE.characters} characters"):
        voice.say("a " * AT_ONCE.characters)


def test_a_voice_not_yet_used_is_used_by_many_at_once(own_voice: Voice, voice: Voice) -> None:
    texts = ("Good morning.", "The train was late again.", "No.", "We walked along the river, and it rained.") * 4
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(own_voice.say, texts))  # the first one loads the text frontend
    for text, heard in zip(texts, together, strict=True):
        np.testing.assert_array_equal(heard, voice.say(text))


def test_another_frontend_version_is_told(voice_bundle: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    older = {"version": "gruut 0.0.1"}
    bundle = edited(voice_bundle, tmp_path / "voice", lambda data: data["frontend"].update(older))
    Voice.load(bundle).say("Hello.")
    assert "trained with frontend 'gruut 0.0.1'" in caplog.text


def test_a_batch_equals_its_rows_alone(any_voice: Voice) -> None:
    own_pace = any_voice.description.decoding is not None
    rows = [tokens_of(any_voice, text) for text in ("No.", "A rather longer sentence, with a pause.")]
    rows.append(np.array([[1, 0, 0], [2, 0, 0]]))
    tokens, lengths = padded(rows)
    speaker, speed = np.array([0, 1, 0]), np.array([1.0, 1.0 if own_pace else 1.3, 1.0], np.float32)
    together = any_voice.synthesize(tokens, lengths, speaker, speed)
    assert together.samples.shape == (3, together.lengths.max())
    assert (together.attempts >= 1).all()
    if own_pace:
        assert together.lengths[2] == 0, "an empty row is silent"
    for number, row in enumerate(rows):
        one = slice(number, number + 1)
        alone = any_voice.synthesize(row[None], lengths[one], speaker[one], speed[one])
        for name in ("lengths", "finish_reasons", "attempts"):
            assert getattr(alone, name)[0] == getattr(together, name)[number], name
        np.testing.assert_allclose(together.samples[number, : alone.lengths[0]], alone.samples[0], atol=1e-4)
        assert together.ends is not None and alone.ends is not None
        np.testing.assert_array_equal(together.ends[number, : len(row)], alone.ends[0])
        assert alone.ends[0, -1] == alone.lengths[0]
        assert not together.samples[number, alone.lengths[0] :].any()


def test_speaking_imports_neither_torch_nor_training(voice_bundle: Path) -> None:
    program = f"""
import sys
from sonorant.speech import Voice
Voice.load({str(voice_bundle)!r}).say("Hello.")
heavy = ["torch", "onnx", "mlflow", "prefect", "pandas", "scipy"]
heavy += ["sonorant.training", "sonorant.layers.model_folder", "sonorant.features", "sonorant.export"]
print(sorted(name for name in sys.modules if name in heavy))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
