import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonorant.audio.wav import pcm16
from sonorant.serving.native_routes import Speech
from sonorant.speech import Voice
from sonorant.speech.subtitles import as_json
from tests.support.serving import Running, ask, lines_of

TEXT = "One apple. Two pears, and what else?"


def speak(server: Running, **wish: Any) -> list[dict[str, Any]]:
    lines = lines_of(server.url, "/v1/speech", **{"text": TEXT, "format": "pcm"} | wish)
    assert lines[-1].get("end"), lines[-1]
    return lines


def heard(lines: list[dict[str, Any]]) -> np.ndarray:
    return np.frombuffer(b"".join(base64.b64decode(line.get("audio", "")) for line in lines), "<i2")


def words(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [word for line in lines for word in line.get("words", [])]


def test_words_and_phonemes_come_with_their_times(server: Running, voice_bundle: Path) -> None:
    lines = speak(server, speaker="ben", speed=1.2, pitch=2.0)
    samples, told = Voice.load(voice_bundle, threads=1).say_timed(TEXT, "ben", 1.2, pitch=2.0)
    np.testing.assert_allclose(heard(lines), pcm16(samples), atol=1)
    assert words(lines) == [as_json(word) for word in told]
    given = 0
    for line in lines[:-1]:
        given += len(heard([line]))
        assert all(word["end"] <= given / 16000 + 1e-4 for word in line.get("words", [])), "after their sound"
    assert lines[-1]["seconds"] == round(len(samples) / 16000, 4)


def test_null_leaves_a_field_out_and_silence_is_told(server: Running) -> None:
    optional = [name for name, field in Speech.model_fields.items() if not field.is_required()]
    lines = speak(server, text="😀 [[pause 0.5]]", **dict.fromkeys(optional))
    assert len(heard(lines)) == 22 + 8000, "a header and samples"
    assert lines[0]["silent"] and "😀" in lines[0]["unknown"]


def test_a_lexicon_is_for_its_request_alone(server: Running) -> None:
    def symbols(**wish: Any) -> list[str]:
        [word] = [word for word in words(speak(server, **wish)) if word["text"] == "apple"]
        return [phoneme["symbol"] for phoneme in word["phonemes"]]

    own = symbols()
    given = symbols(lexicon={"apple": "ʃ ɪ v ˈɔ n"})
    assert given == ["ʃ", "ɪ", "v", "ɔ", "n"]
    assert own != given
    assert symbols() == own


def test_a_seed_says_the_same_again(server: Running) -> None:
    def said(seed: int) -> bytes:
        return heard(speak(server, voice="codes", seed=seed, temperature=1.0)).tobytes()

    assert said(1) == said(1)
    assert said(1) != said(2)


@pytest.mark.parametrize(
    ("wish", "status", "line"),
    [
        ({"text": "Hi.", "lexicon": {"Hi": "q q q"}}, 400, "'Hi'"),
        ({"text": "Hi.", "lexicon": {" ": "h"}}, 422, "lexicon"),
        ({"text": "Hi.", "seed": 1}, 400, "seed"),
        ({"text": "Hi.", "speed": 9}, 422, "speed"),
        ({"text": "Hi.", "colour": None}, 422, "colour"),
        ({"text": "Hi.", "variant": "int3"}, 400, "no variant 'int3'"),
        ({"speaker": "anna"}, 422, "text"),
    ],
)
def test_what_cannot_be_spoken_is_a_status_and_a_line(
    server: Running, wish: dict[str, Any], status: int, line: str
) -> None:
    response = ask(server.url, "/v1/speech", json.dumps(wish).encode())
    error = json.loads(response.read())["error"]
    assert response.status == status
    assert line in error["message"]
    assert "\n" not in error["message"]


def test_an_operator_sees_how_it_stands(server: Running) -> None:
    speak(server)
    assert json.loads(ask(server.url, "/healthz").read()) == {"status": "alive"}
    told = json.loads(ask(server.url, "/readyz").read())
    assert (told["status"], told["voices"]["tiny"]["processes"]) == ("ready", 1)


def test_the_description_of_the_interface_has_an_example_of_each_request(server: Running) -> None:
    described = json.loads(ask(server.url, "/openapi.json").read())
    for name in ("OpenAiSpeech", "Speech"):
        assert described["components"]["schemas"][name]["examples"]
    assert {"/v1/audio/speech", "/v1/models", "/v1/speech", "/readyz", "/metrics"} <= set(described["paths"])
