"""Routes of the demo page, which plays speech while the text is typed."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import ConfigDict

from sonorant.errors import SonorantError
from sonorant.pages.local_server import HEADERS
from sonorant.plugins import load_family
from sonorant.serving.answers import Pieces, SpeechResponse, begun
from sonorant.serving.gate import ENDS
from sonorant.serving.native_routes import LINES, Speech, error_line, json_line, lines_of, served_request
from sonorant.serving.openai_routes import Body
from sonorant.serving.service import Service
from sonorant.speech.bundle import VoiceDescription
from sonorant.speech.request import FASTEST, MOST_ENERGY, MOST_PITCH, SLOWEST

PAGES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
IDLE = 60.0
"""Seconds without more text after which an arriving text is considered complete."""
LONGEST = 900.0
"""Maximum duration in seconds of an arriving text, because it occupies a slot."""


class Typed(Speech):
    """A text from the page and how to speak it."""

    arrives: bool = False
    """Whether more text is sent to /text during speech."""


class More(Body):
    """Continuation of an arriving text."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str
    text: str = ""
    pause: bool = False
    """Whether the user paused."""
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
    routes = APIRouter(include_in_schema=False)
    texts: dict[str, Arriving] = {}

    for path, (name, kind) in PAGES.items():
        routes.get(path)(partial(_file, name, kind))

    @routes.get("/voice")
    async def voice() -> JSONResponse:
        told = _voice(service.voices.first.description, service.limits.characters)
        return JSONResponse(told, headers=HEADERS)

    @routes.post("/speech", response_class=StreamingResponse)
    async def speak(request: Request, asked: Typed) -> SpeechResponse:
        """Speak a text like /v1/speech; for an arriving text, the first line is {"id": ...}."""
        one = service.voices.named(asked.voice)
        spoken_as = replace(served_request(asked, one, service), silence=0.0)  # an error is shown to the user
        if not asked.arrives:
            pieces, _ = await begun(request, service.speak(one, spoken_as))
            return SpeechResponse(pieces, lines_of, LINES, error_line=error_line)
        text = Arriving()
        request.scope[ENDS] = True
        pieces = service.speak(one, spoken_as, told=text.told)
        return SpeechResponse(pieces, partial(_lines_of_arriving, texts, text), LINES, error_line=error_line)

    @routes.post("/text")
    async def add(more: More) -> dict[str, Any]:
        if more.id not in texts:
            raise SonorantError("this text is complete; start another")
        texts[more.id].add(more)
        return {}

    return routes


async def _file(name: str, kind: str) -> Response:
    return Response(files("sonorant.pages.demo").joinpath(name).read_bytes(), media_type=kind, headers=HEADERS)


async def _lines_of_arriving(texts: dict[str, Arriving], text: Arriving, pieces: Pieces) -> AsyncGenerator[bytes, None]:
    name = secrets.token_urlsafe(9)
    texts[name] = text
    try:
        yield json_line({"id": name})
        async for line in lines_of(pieces):
            yield line
    finally:
        del texts[name]
        text.forget()


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
