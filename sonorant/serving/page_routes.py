"""The demo page: speaks a text with the first voice while it is computed, or while it is typed."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncGenerator
from functools import partial
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict

from sonorant.errors import SonorantError
from sonorant.pages.local_server import HEADERS
from sonorant.plugins import load_family
from sonorant.serving.answers import Pieces, SpeechResponse, begun
from sonorant.serving.request import Ended, ServedRequest
from sonorant.serving.service import Service
from sonorant.speech.bundle import VoiceDescription
from sonorant.speech.request import FASTEST, MOST_ENERGY, MOST_PITCH, SLOWEST

PAGES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
LINES = "application/x-ndjson"
IDLE = 60.0
"""Seconds without more text, after which a text that arrives is complete."""
LONGEST = 900.0
"""Most seconds for a text that arrives, since it holds a place."""


class Typed(BaseModel):
    """A text of the page and how to speak it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str
    arrives: bool = False
    speaker: str | None = None
    speed: float = 1.0
    pitch: float = 0.0
    energy: float = 0.0
    seed: int | None = None
    temperature: float | None = None
    variant: str | None = None


class More(BaseModel):
    """More of a text that arrives."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str
    text: str = ""
    pause: bool = False
    """Whether there is a lull."""
    end: bool = False
    """Whether the text is complete."""


class Arriving:
    """A text spoken while it is typed."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
        self._over: asyncio.TimerHandle | None = None
        self._ends = asyncio.get_running_loop().time() + LONGEST
        self._wait()

    def add(self, more: More) -> None:
        self.told.put_nowait(("text", more.text))
        if more.pause:
            self.told.put_nowait(("pause",))
        if more.end:
            self.told.put_nowait(("close",))
        if more.text:
            self._wait()

    def forget(self) -> None:
        if self._over:
            self._over.cancel()

    def _wait(self) -> None:
        self.forget()
        loop = asyncio.get_running_loop()
        self._over = loop.call_at(min(loop.time() + IDLE, self._ends), self.told.put_nowait, ("close",))


def page_routes(service: Service) -> APIRouter:
    """Routes of the page, left out of OpenAPI."""
    routes = APIRouter(include_in_schema=False)
    texts: dict[str, Arriving] = {}

    for path, (name, kind) in PAGES.items():
        routes.get(path)(partial(_file, name, kind))

    @routes.get("/voice")
    async def voice() -> JSONResponse:
        """Settings of the page."""
        told = _voice(service.voices.first.description, service.limits.characters)
        return JSONResponse(told, headers=HEADERS)

    @routes.post("/speech", response_class=StreamingResponse)
    async def speak(request: Request, asked: Typed) -> SpeechResponse:
        """Speak: lines of JSON without empty keys, {"pcm": base64 of 16-bit samples, "unknown": characters left out,
        "bad": finish reasons of sentences that went wrong, "words": [first character, the one after the last, start,
        end in seconds]}. The last is {"end": true} or {"error": a line}; for a text that arrives, the first is {"id":
        of the text}."""
        one = service.voices.first
        timed = not load_family(one.description.family).why_untimed(one.description)
        decoding = {} if asked.temperature is None else {"temperature": asked.temperature}
        how = asked.model_dump(exclude={"temperature"})
        spoken_as = ServedRequest(**how, decoding=decoding, timings=timed, limits=service.limits)
        if not asked.arrives:
            pieces = await begun(request, service.speak(one, spoken_as))
            return SpeechResponse(pieces, _lines, LINES, error_line=_error)
        text = Arriving()
        pieces = service.speak(one, spoken_as, told=text.told)
        return SpeechResponse(pieces, partial(_lines_of_arriving, texts, text), LINES, error_line=_error)

    @routes.post("/text")
    async def add(more: More) -> dict[str, Any]:
        """Add to a text that arrives."""
        if more.id not in texts:
            raise SonorantError("this text is no longer spoken; begin another")
        texts[more.id].add(more)
        return {}

    return routes


async def _file(name: str, kind: str) -> Response:
    return Response(files("sonorant.pages.demo").joinpath(name).read_bytes(), media_type=kind, headers=HEADERS)


async def _lines_of_arriving(texts: dict[str, Arriving], text: Arriving, pieces: Pieces) -> AsyncGenerator[bytes, None]:
    name = secrets.token_urlsafe(9)
    texts[name] = text
    try:
        yield _line({"id": name})
        async for line in _lines(pieces):
            yield line
    finally:
        del texts[name]
        text.forget()


async def _lines(pieces: Pieces) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        if isinstance(piece, Ended):
            yield _line({"end": True})
            continue
        pcm = base64.b64encode(piece.sound).decode()
        words = [[word.first, word.last, word.start, word.end] for word in piece.words]
        line = {"pcm": pcm, "unknown": piece.unknown, "bad": piece.bad, "words": words}
        if told := {key: value for key, value in line.items() if value}:
            yield _line(told)


def _error(line: str) -> bytes:
    return _line({"error": line})


def _line(value: dict[str, Any]) -> bytes:
    """ASCII, which holds any character of a request escaped."""
    return json.dumps(value, allow_nan=False).encode() + b"\n"


def _voice(description: VoiceDescription, characters: int) -> dict[str, Any]:
    graphs = list(description.graphs.values())
    prosody = any(tensor.name == "pitch" for tensor in description.graphs["encoder"].inputs)
    decoding = description.decoding
    return {
        "language": description.frontend.language,
        "sample_rate": description.audio.sample_rate,
        "speakers": description.speakers,
        "variants": [name for name in graphs[0].variants if all(name in graph.variants for graph in graphs)],
        "speeds": [SLOWEST, FASTEST] if decoding is None else None,
        "pitches": [-MOST_PITCH, MOST_PITCH] if prosody else None,
        "energies": [-MOST_ENERGY, MOST_ENERGY] if prosody else None,
        "temperature": decoding and decoding.defaults.temperature,
        "characters": characters,
        "untimed": load_family(description.family).why_untimed(description),
    }
