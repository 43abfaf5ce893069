"""Sonorant's own API: speech with word and phoneme times, and every setting of a request."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import ConfigDict, Field

from sonorant.plugins import load_family
from sonorant.serving.answers import Pieces, SpeechResponse, begun
from sonorant.serving.openai_routes import ERRORS, Authorization, Body
from sonorant.serving.request import Ended, Piece, ServedRequest
from sonorant.serving.service import Service
from sonorant.serving.voices import Offered
from sonorant.speech.request import FASTEST, MOST_ENERGY, MOST_PITCH, SLOWEST
from sonorant.speech.subtitles import as_json
from sonorant.text.user_lexicon import LONGEST_WORD

LINES = "application/x-ndjson"
EXAMPLE: dict[str, Any] = {
    "text": "Call Siobhan.",
    "speaker": "anna",
    "lexicon": {"Siobhan": "ʃ ɪ v ˈɔ n"},
    "format": "wav",
}
ANSWER = (
    '{"audio": "UklGR...", "words": [{"text": "Call", "start": 0.05, "end": 0.31, "first": 0, "last": 4, '
    '"phonemes": [{"symbol": "k", "start": 0.05, "end": 0.14}]}]}\n{"end": true, "seconds": 0.93}\n'
)
MOST_WORDS = 200
"""Maximum number of words in a request's lexicon."""

Word = Annotated[str, Field(pattern=r"^[^\s\x00-\x1f](.*\S)?$", max_length=LONGEST_WORD)]
Phonemes = Annotated[str, Field(min_length=1, max_length=10 * LONGEST_WORD)]


class Speech(Body):
    """A text and how to speak it; docs/serving.md lists which voices support what."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE]})

    text: str
    voice: str | None = Field(default=None, description="A voice of this server (default: the first)")
    speaker: str | None = Field(default=None, description="A speaker of the voice (default: the first)")
    speed: float = Field(default=1.0, ge=SLOWEST, le=FASTEST)
    pitch: float = Field(default=0.0, ge=-MOST_PITCH, le=MOST_PITCH, description="Semitones higher")
    energy: float = Field(default=0.0, ge=-MOST_ENERGY, le=MOST_ENERGY, description="dB louder")
    seed: int | None = Field(default=None, ge=0, lt=2**63, description="For voices that draw codes")
    temperature: float | None = Field(default=None, ge=0.0, le=10.0, description="For voices that draw codes")
    variant: str | None = Field(default=None, description="Precision of the graphs, such as int8")
    markup: bool = Field(default=True, description="Whether SSML and double brackets are markup")
    lines: bool = Field(default=True, description="Whether a line end ends a sentence")
    lexicon: dict[Word, Phonemes] = Field(default={}, max_length=MOST_WORDS, description="Words with their phonemes")
    format: Literal["wav", "pcm", "mp3", "opus", "flac"] = Field(
        default="wav", description="Audio format, at the voice's sample rate"
    )
    timings: bool = Field(default=True, description="Whether to include the times of words and phonemes")


def served_request(asked: Speech, one: Offered, service: Service) -> ServedRequest:
    """Convert the body of a request; omit timings if the voice has none."""
    how = asked.model_dump(exclude={"voice", "format", "timings", "temperature"})
    timed = asked.timings and not load_family(one.description.family).why_untimed(one.description)
    decoding = {} if asked.temperature is None else {"temperature": asked.temperature}
    how |= {"decoding": decoding, "timings": timed, "encoding": asked.format}
    return ServedRequest(**how, silence=service.silence, limits=service.limits)


def native_routes(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["Sonorant"])
    spoken: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "Lines of JSON, streamed while the speech is computed",
            "content": {LINES: {"example": ANSWER}},
        }
    }

    @routes.post("/speech", response_class=StreamingResponse, responses=spoken | ERRORS)
    async def speak(request: Request, asked: Speech, authorization: Authorization = None) -> SpeechResponse:
        """Speak a text. Each line has some of `audio` (base64 of the next bytes), `words` whose audio ends in it,
        `unknown` (characters left out), `silent` (nothing can be spoken), and `bad` (why sentences went wrong). The
        last line is `{"end": true, "seconds": ...}`, or `{"error": ...}` if the speech failed."""
        caller = service.caller(authorization)
        one = service.voices.named(asked.voice)
        pieces, headers = await begun(request, service.speak(one, served_request(asked, one, service), caller))
        rate = {"X-Sample-Rate": str(one.description.audio.sample_rate)}
        return SpeechResponse(pieces, lines_of, LINES, headers=rate | headers, error_line=error_line)

    return routes


async def lines_of(pieces: Pieces) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        if isinstance(piece, Ended):
            yield json_line({"end": True, "seconds": round(piece.audio_seconds, 4)})
        elif told := _told(piece):
            yield json_line(told)


def _told(piece: Piece) -> dict[str, Any]:
    told = {
        "audio": base64.b64encode(piece.sound).decode(),
        "words": [as_json(word) for word in piece.words],
        "unknown": piece.unknown,
        "bad": piece.bad,
        "silent": piece.silent,
    }
    return {key: value for key, value in told.items() if value}


def error_line(line: str) -> bytes:
    return json_line({"error": line})


def json_line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, allow_nan=False).encode() + b"\n"
