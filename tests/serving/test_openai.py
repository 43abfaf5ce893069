import base64
import io
import json
import re
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import av
import numpy as np
import openai
import pytest
import soxr

from sonorant.audio.encoding import ENCODINGS
from sonorant.audio.wav import pcm16, wav_header
from sonorant.speech import Voice
from tests.support.serving import Running, ask, serving

TEXT = "One apple. Two pears, and what else?"


@pytest.fixture(scope="module")
def voice(voice_bundle: Path) -> Voice:
    return Voice.load(voice_bundle, threads=1)


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}v1", api_key="none", max_retries=0) as made:
        yield made


def decoded(sound: bytes, rate: int) -> np.ndarray:
    with av.open(io.BytesIO(sound)) as container:
        resample = av.AudioResampler(format="flt", layout="mono", rate=rate).resample
        frames = [part for frame in [*container.decode(audio=0), None] for part in resample(frame)]
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])


def test_lists_the_voices(client: openai.OpenAI) -> None:
    models = {model.id: model for model in client.models.list()}
    assert set(models) == {"tiny", "codes"}
    assert models["tiny"].model_extra["speakers"] == ["anna", "ben"]
    assert client.models.retrieve("codes").model_extra["family"] == "codec_lm"


def test_wav_is_what_say_speaks_and_is_streamed(client: openai.OpenAI, voice: Voice) -> None:
    how = {"model": "tiny", "voice": "ben", "input": TEXT * 3, "speed": 1.4, "response_format": "wav"}
    with client.audio.speech.with_streaming_response.create(**how) as response:
        parts = list(response.iter_bytes())
    sound, head = b"".join(parts), wav_header(16000, None)
    assert sound.startswith(head) and len(parts) > 3
    np.testing.assert_allclose(np.frombuffer(sound[len(head) :], "<i2"), pcm16(voice.say(TEXT * 3, "ben", 1.4)), atol=1)


def test_pcm_has_the_rate_that_clients_take_for_granted(client: openai.OpenAI, voice: Voice) -> None:
    sound = client.audio.speech.create(model="tiny", voice="anna", input=TEXT, response_format="pcm").read()
    expected = pcm16(soxr.resample(voice.say(TEXT), 16000, 24000))
    given = np.frombuffer(sound, "<i2")
    assert abs(len(given) - len(expected)) <= 1
    count = min(len(given), len(expected))
    np.testing.assert_allclose(given[:count], expected[:count], atol=3)


@pytest.mark.parametrize("encoding", ["flac", "mp3", "opus"])
def test_compressed_sound_is_the_same_speech(client: openai.OpenAI, voice: Voice, encoding: str) -> None:
    """Lossy codecs change spectra, but loudness over time stays."""
    plain = voice.say(TEXT)
    given = decoded(
        client.audio.speech.create(model="tiny", voice="anna", input=TEXT, response_format=encoding).read(), 16000
    )
    if encoding == "flac":
        np.testing.assert_allclose(given * 32768, pcm16(plain), atol=1)
        return
    assert 0 <= len(given) - len(plain) < 0.15 * 16000  # the encoder's look-ahead and last frame
    lags = np.correlate(given, plain, "valid")
    best = int(np.abs(lags).argmax())
    assert np.corrcoef(given[best : best + len(plain)], plain)[0, 1] > 0.5


def test_events_carry_the_same_sound(client: openai.OpenAI) -> None:
    how = {"model": "tiny", "voice": "anna", "input": TEXT, "response_format": "wav"}
    whole = client.audio.speech.create(**how).read()
    with client.audio.speech.with_streaming_response.create(**how, stream_format="sse") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line]
    assert [event["type"] for event in events[-2:]] == ["speech.audio.delta", "speech.audio.done"]
    assert b"".join(base64.b64decode(event.get("audio", "")) for event in events) == whole


OTHERS = ("See [[Main page]] and [[0, 1], [2, 3]].", "...", "---", "😀", "[[pause 1]]")
"""Texts of programs that know no markup and send sentence by sentence."""


def asked(server: Running, text: str, **wish: Any) -> HTTPResponse:
    body = {"model": "tiny", "voice": "anna", "input": text} | wish
    return ask(server.url, "/v1/audio/speech", json.dumps(body).encode())


@pytest.mark.parametrize("encoding", [*ENCODINGS, None])
def test_any_text_of_another_program_gets_sound(server: Running, encoding: str | None) -> None:
    for text in OTHERS:
        response = asked(server, text, response_format=encoding, speed=None, stream_format=None)
        assert response.status == 200
        assert len(response.read()) > 100
        assert (response.headers["X-Silence"] is None) == bool(re.search("[a-z]", text))


def test_markup_and_refusals_are_options(voice_bundle: Path) -> None:
    with serving(voice_bundle, markup=True, refuse_silence=True) as served:
        assert [asked(served, text).status for text in OTHERS] == [400] * len(OTHERS)
        assert asked(served, "Hi [[ʃ ɪ]].").status == 200


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"model": "nobody"}, "no voice 'nobody'; choose one of: tiny, codes"),
        ({"voice": "alloy"}, "no speaker 'alloy'; the voice has: anna, ben"),
        ({"input": "a " * 5000}, "more than 5000 characters"),
        ({"speed": 4.0}, "speed must be 0.5 to 2.0"),
        ({"model": "codes", "speed": 2.0}, "this voice speaks at its own pace"),
    ],
)
def test_what_cannot_be_spoken_is_an_error_with_a_line(
    client: openai.OpenAI, changes: dict[str, str], line: str
) -> None:
    how = {"model": "tiny", "voice": "anna", "input": TEXT} | changes
    with pytest.raises(openai.BadRequestError) as refused:
        client.audio.speech.create(**how)
    assert line in refused.value.body["message"]
    assert "\n" not in refused.value.body["message"]
