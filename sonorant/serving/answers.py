"""Speech as an HTTP response: the first piece decides the status, the rest is streamed; errors are JSON."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from http import HTTPStatus

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import Send

from sonorant.errors import SonorantError
from sonorant.serving.gate import error_body
from sonorant.serving.keys import LimitReached, RefusedKey
from sonorant.serving.request import Ended, Piece
from sonorant.serving.service import BusyError
from sonorant.serving.voice_processes import NotSpoken

Pieces = AsyncGenerator[Piece | Ended, None]
GONE = 499
"""Status of a request whose client has disconnected."""
SILENT = {"X-Silence": "nothing in the text can be spoken"}
STATUS: dict[type[Exception], int] = {NotSpoken: 503, BusyError: 503, LimitReached: 429, SonorantError: 400}
_log = logging.getLogger(__name__)


async def begun(request: Request, pieces: Pieces) -> tuple[Pieces, dict[str, str]]:
    """Wait for the first piece, so that an error can determine the status, and return all pieces and the headers; stop
    if the client disconnects."""
    first = asyncio.ensure_future(anext(pieces))
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({first, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not first.done():
            raise HTTPException(GONE)
        piece = first.result()
        return _all(piece, pieces), SILENT if isinstance(piece, Piece) and piece.silent else {}
    finally:
        gone.cancel()
        if not first.done():
            first.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await first


async def _all(first: Piece | Ended, rest: Pieces) -> Pieces:
    try:
        yield first
        async for piece in rest:
            yield piece
    finally:
        await rest.aclose()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class SpeechResponse(StreamingResponse):
    """A streamed response; closing it stops the speech. If the speech fails midway, `error_line` returns the last
    bytes; without it, the connection breaks, so that clients notice the error."""

    def __init__(
        self,
        pieces: Pieces,
        encode: Callable[[Pieces], AsyncGenerator[bytes, None]],
        media_type: str,
        *,
        headers: dict[str, str] | None = None,
        error_line: Callable[[str], bytes] | None = None,
    ) -> None:
        self._encoded = encode(pieces)
        super().__init__(self._encoded, media_type=media_type, headers={"Cache-Control": "no-store"} | (headers or {}))
        self._pieces, self._error_line = pieces, error_line

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except (SonorantError, BusyError) as error:
            # Other errors may quote the text.
            _log.warning("a speech broke off%s", f": {error}" if isinstance(error, NotSpoken | BusyError) else "")
            if self._error_line:
                body = self._error_line(str(error))
                await send({"type": "http.response.body", "body": body, "more_body": False})
        finally:
            await self._encoded.aclose()
            await self._pieces.aclose()


def add_error_handlers(app: FastAPI) -> None:
    """Respond to each error with a status and one line that does not quote the request."""

    def answer(status: int, line: str, param: str | None = None, **headers: str) -> Response:
        return JSONResponse(error_body(status, line, param), status, headers=headers)

    async def problem(_: Request, error: Exception) -> Response:
        status = next(status for kind, status in STATUS.items() if isinstance(error, kind))
        again = {"Retry-After": str(max(1, round(getattr(error, "seconds", 1.0))))} if status >= 429 else {}
        return answer(status, _printable(str(error)), **again)

    for kind in STATUS:
        app.add_exception_handler(kind, problem)

    @app.exception_handler(RefusedKey)
    async def unknown(_: Request, error: RefusedKey) -> Response:
        line = "give a key of this server: Authorization: Bearer <key>"
        return answer(HTTPStatus.UNAUTHORIZED, line, **{"WWW-Authenticate": "Bearer"})

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"][1:]) or "the request"
        return answer(HTTPStatus.UNPROCESSABLE_ENTITY, f"{_printable(place)}: {problem['msg']}", _printable(place))

    @app.exception_handler(StarletteHTTPException)
    async def other(_: Request, error: StarletteHTTPException) -> Response:
        line = "no such page" if error.status_code == HTTPStatus.NOT_FOUND else str(error.detail)
        return answer(error.status_code, line, **(error.headers or {}))


def _printable(text: str) -> str:
    return text.encode(errors="replace").decode()
