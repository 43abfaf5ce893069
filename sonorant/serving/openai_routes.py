"""OpenAI's API: `POST /v1/audio/speech` and `GET /v1/models`."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sonorant.audio.encoding import ENCODINGS
from sonorant.serving.answers import Pieces, SpeechResponse, begun
from sonorant.serving.gate import error_body
from sonorant.serving.request import Piece, ServedRequest
from sonorant.serving.service import Service
from sonorant.serving.voices import Offered

PCM_RATE = 24_000
"""Sample rate in Hz of OpenAI's `pcm` format."""
EXAMPLE: dict[str, Any] = {"model": "voice", "input": "Good morning.", "voice": "anna", "response_format": "wav"}
Authorization = Annotated[str | None, Header(description="Bearer <key>, if the server requires keys")]
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": says, "content": {"application/json": {"example": error_body(status, line)}}}
    for status, says, line in (
        (400, "The request is invalid", "no speaker 'carl'; the voice has: anna, ben"),
        (401, "The key is missing or unknown", "give a key of this server: Authorization: Bearer <key>"),
        (403, "The request is from a page of another site", "pages of other sites may not send requests here"),
        (413, "The request is too large", "the request is larger than 76000 bytes; shorten it"),
        (415, "The request is not JSON", "the request must be application/json"),
        (422, "A field is missing, unknown or wrong", "speed: Input should be less than or equal to 4"),
        (429, "A limit of the key is reached", "the key 'app' allows 120 requests per minute"),
        (503, "Too many requests are waiting", "too many requests are waiting; try again in a moment"),
    )
}


class Body(BaseModel):
    """A request in which null leaves out a field."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {key: value for key, value in given.items() if value is not None or key not in cls.model_fields}


class OpenAiSpeech(Body):
    """A request as documented by OpenAI."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    model: str = Field(description="A voice of this server, by its name in `GET /v1/models`")
    input: str = Field(description="The text; markup requires `sonorant serve --markup`")
    voice: str = Field(description="A speaker of the voice")
    response_format: Literal["mp3", "opus", "flac", "wav", "pcm"] = "mp3"
    speed: float = Field(default=1.0, ge=0.25, le=4.0, allow_inf_nan=False)
    stream_format: Literal["audio", "sse"] = "audio"
    instructions: str | None = Field(default=None, description="Accepted and ignored")


def openai_routes(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["OpenAI"])
    sounds: dict[str, Any] = {encoding.media_type: {} for encoding in ENCODINGS.values()}
    spoken: dict[int | str, dict[str, Any]] = {
        200: {"description": "The speech, streamed while it is computed", "content": sounds | {"text/event-stream": {}}}
    }

    @routes.post("/audio/speech", response_class=StreamingResponse, responses=spoken | ERRORS)
    async def speak(request: Request, asked: OpenAiSpeech, authorization: Authorization = None) -> SpeechResponse:
        """Speak a text. The response is streamed."""
        caller = service.caller(authorization)
        spoken_as = ServedRequest(
            text=asked.input,
            speaker=asked.voice,
            speed=asked.speed,
            encoding=asked.response_format,
            sample_rate=PCM_RATE if asked.response_format == "pcm" else None,
            markup=service.markup,
            silence=service.silence,
            limits=service.limits,
        )
        pieces, headers = await begun(request, service.speak(service.voices.named(asked.model), spoken_as, caller))
        if asked.stream_format == "sse":
            return SpeechResponse(pieces, _events, "text/event-stream", headers=headers, error_line=_error_event)
        return SpeechResponse(pieces, _sound, ENCODINGS[asked.response_format].media_type, headers=headers)

    @routes.get("/models")
    async def models(authorization: Authorization = None) -> dict[str, Any]:
        """List the voices of this server."""
        service.caller(authorization)
        return {"object": "list", "data": [_model(one) for one in service.voices.by_name.values()]}

    @routes.get("/models/{model}", responses={400: ERRORS[400]})
    async def one_model(model: str, authorization: Authorization = None) -> dict[str, Any]:
        """Describe a voice of this server."""
        service.caller(authorization)
        return _model(service.voices.named(model))

    return routes


def _model(one: Offered) -> dict[str, Any]:
    description = one.description
    return {
        "id": one.offer.name,
        "object": "model",
        "created": int(one.since),
        "owned_by": "sonorant",
        "version": one.version or None,
        "family": description.family,
        "language": description.frontend.language,
        "speakers": list(description.speakers),
        "sample_rate": description.audio.sample_rate,
        "loaded": one.loaded is not None,
    }


async def _sound(pieces: Pieces) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        if isinstance(piece, Piece) and piece.sound:
            yield piece.sound


async def _events(pieces: Pieces) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        if not isinstance(piece, Piece):
            yield _event({"type": "speech.audio.done", "usage": None})
        elif piece.sound:
            yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(piece.sound).decode()})


def _error_event(line: str) -> bytes:
    return _event({"type": "error", **error_body(500, line)})


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"
