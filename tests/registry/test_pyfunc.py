import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from sonorant.audio.wav import pcm16
from sonorant.registry.registration import signature
from sonorant.speech.subtitles import as_json
from sonorant.speech.voice import AT_ONCE, Voice
from tests.conftest import ROOT
from tests.support.runtimes import edited


@pytest.fixture(scope="module")
def server(voice_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return client(voice_bundle, tmp_path_factory.mktemp("model") / "voice")


def client(bundle: Path, folder: Path) -> Any:
    from fastapi.testclient import TestClient
    from mlflow import pyfunc
    from mlflow.pyfunc import scoring_server

    file = ROOT / "sonorant" / "registry" / "pyfunc.py"
    how = {"python_model": str(file), "signature": signature(), "artifacts": {"bundle": str(bundle)}}
    pyfunc.save_model(folder, pip_requirements=[], **how)
    return TestClient(scoring_server.init(pyfunc.load_model(str(folder))))


def spoken(row: dict[str, Any]) -> np.ndarray:
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(row["audio"])), dtype="int16")
    assert (rate, row["sample_rate"], row["error"]) == (16000, 16000, "")
    assert row["seconds"] == len(samples) / 16000
    return samples


def ask(server: Any, *rows: dict[str, Any]) -> Any:
    return server.post("/invocations", json={"dataframe_records": list(rows)})


def test_rows_are_spoken_as_say_speaks(server: Any, voice_bundle: Path) -> None:
    rows = ask(server, {"text": "Hello."}, {"text": "Hello.", "speaker": "ben", "speed": 1.5}).json()["predictions"]
    voice = Voice.load(voice_bundle)
    for row, samples in zip(rows, (voice.say("Hello."), voice.say("Hello.", "ben", 1.5)), strict=True):
        np.testing.assert_allclose(spoken(row), pcm16(samples), atol=1)


def test_numbers_are_read_and_signs_are_a_moment_of_silence(server: Any, voice_bundle: Path) -> None:
    rows = ask(server, {"text": 42}, {"text": 2.5}).json()["predictions"]
    voice = Voice.load(voice_bundle)
    for row, text in zip(rows, ("42", "2.5"), strict=True):
        np.testing.assert_allclose(spoken(row), pcm16(voice.say(text)), atol=1)
    [row] = ask(server, {"text": "..."}).json()["predictions"]
    assert not spoken(row).any() and row["warning"] == "nothing in the text can be spoken"


def test_a_row_tells_when_its_words_are_spoken(server: Any, voice_bundle: Path) -> None:
    [row] = ask(server, {"text": "One, 22."}).json()["predictions"]
    _, words = Voice.load(voice_bundle).say_timed("One, 22.")
    assert json.loads(row["timings"]) == {"words": [as_json(word) for word in words]}


def test_a_voice_that_cannot_tell_says_why_and_speaks(
    server: Any, voice_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Voice, "why_untimed", property(lambda self: "a voice of the family x does not tell"))
    [row] = ask(server, {"text": "One."}).json()["predictions"]
    assert len(spoken(row)) > 0
    assert json.loads(row["timings"]) == {"not_run": "a voice of the family x does not tell"}


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        ({"text": ""}, "row 2: the text is empty; give at least one word"),
        ({"text": ["Not", "at"]}, "row 2: the text is of type list; give a string or a number"),
        ({"text": None}, "row 2: the text is missing"),
        ({"text": "Hi.", "speed": "fast"}, "row 2: speed must be a number, not 'fast'"),
    ],
)
def test_a_bad_row_is_named_and_the_others_are_spoken(server: Any, bad: dict[str, Any], line: str) -> None:
    answer = ask(server, {"text": "One."}, bad, {"text": "Three."})
    assert answer.status_code == 200
    first, second, third = answer.json()["predictions"]
    assert (first["error"], second["error"], third["error"]) == ("", line, "")
    assert (bool(first["audio"]), second["audio"], bool(third["audio"])) == (True, "", True)


def test_a_sentence_that_runs_away_is_told_with_its_row(codec_lm_bundle: Path, tmp_path: Path) -> None:
    stuck = {"longest_phoneme": 0.01, "retries": 0}
    bundle = edited(codec_lm_bundle, tmp_path / "voice", lambda data: data["decoding"]["defaults"].update(stuck))
    [row] = ask(client(bundle, tmp_path / "model"), {"text": "One. Two."}).json()["predictions"]
    assert len(spoken(row)) > 0
    assert row["warning"].startswith("sentence 1 did not go well (stuck)")


def test_a_request_of_which_nothing_can_be_spoken_is_refused(server: Any) -> None:
    answer = ask(server, {"text": None}, {"text": ""})
    assert answer.status_code == 400
    error = json.loads(answer.text)
    assert error["error_code"] == "INVALID_PARAMETER_VALUE"
    assert "row 1: the text is missing" in error["message"]
    assert "row 2: the text is empty" in error["message"]
    assert "stack_trace" not in error


def test_a_table_that_is_too_long_is_refused(server: Any) -> None:
    half = {"text": "a " * (AT_ONCE.characters // 4 + 1)}
    answer = ask(server, half, half)
    assert answer.status_code == 400
    assert f"a request may have at most {AT_ONCE.characters}; split them" in answer.text
