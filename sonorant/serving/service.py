"""State shared by the routes: voices, a bounded queue, keys and metrics."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sonorant.errors import SonorantError
from sonorant.serving.keys import Caller, Keys, LimitReached
from sonorant.serving.prometheus import Metrics
from sonorant.serving.request import LIMITS, Ended, Piece, ServedRequest
from sonorant.serving.voice_processes import NotSpoken
from sonorant.serving.voices import Offered, Voices
from sonorant.speech.request import MOMENT, Limits


class BusyError(Exception):
    """Too many requests are waiting."""

    def __init__(self) -> None:
        super().__init__("too many requests are waiting; try again in a moment")


class Turns:
    """Slots for running requests; further requests wait in order, up to a limit."""

    def __init__(self, places: int, waiting: int) -> None:
        self.places, self.most_waiting = places, waiting
        self.waiting = self.speaking = 0
        self._free = asyncio.Semaphore(places)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a slot. Raises BusyError immediately if too many requests wait."""
        if self._free.locked() and self.waiting >= self.most_waiting:
            raise BusyError
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.speaking += 1
        try:
            yield
        finally:
            self.speaking -= 1
            self._free.release()


_OUTCOMES: dict[type[Exception], str] = {
    NotSpoken: "failed",
    SonorantError: "refused",
    BusyError: "busy",
    LimitReached: "limited",
}
_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Service:
    voices: Voices
    turns: Turns
    metrics: Metrics
    keys: Keys | None = None
    """API keys; None means that no key is required."""
    limits: Limits = LIMITS
    markup: bool = False
    """Whether OpenAI's route interprets markup."""
    silence: float = MOMENT
    """`SpeechRequest.silence` of the API's requests."""
    log_texts: bool = False
    draining: bool = False
    """Whether the server is shutting down; late requests are still served."""

    def __post_init__(self) -> None:
        turns = self.turns
        self.metrics.watch(lambda: turns.waiting, lambda: turns.speaking, self.voices.memory)

    def caller(self, authorization: str | None) -> Caller | None:
        """Return the caller of an Authorization header, or None if no key is required. Raises RefusedKey or
        NotSpoken."""
        return self.keys.caller(authorization) if self.keys else None

    async def speak(
        self, one: Offered, request: ServedRequest, caller: Caller | None = None, told: Any = None
    ) -> AsyncGenerator[Piece | Ended, None]:
        """Yield the speech; closing the generator cancels it. `told` is as in `LoadedVoice.speak`. Raises
        SonorantError, BusyError or LimitReached."""
        name, began, outcome, heard = one.offer.name, time.perf_counter(), "cancelled", False
        metrics, characters = self.metrics, len(request.text)
        metrics.characters.labels(name).inc(characters)
        try:
            async with AsyncExitStack() as stack:
                if caller:
                    stack.enter_context(caller.asking(characters))
                await stack.enter_async_context(self.turns.place())
                voice = await stack.enter_async_context(self.voices.use(one))
                pieces = await stack.enter_async_context(aclosing(voice.speak(request, told)))
                async for piece in pieces:
                    if isinstance(piece, Ended):
                        outcome = "spoken"
                        metrics.audio.labels(name).inc(piece.audio_seconds)
                        metrics.late.labels(name).inc(piece.late)
                        if piece.audio_seconds:
                            metrics.real_time.labels(name).observe(piece.work_seconds / piece.audio_seconds)
                    else:
                        if piece.sound and not heard:
                            heard = True
                            metrics.first_audio.labels(name).observe(time.perf_counter() - began)
                        metrics.runaways.labels(name).inc(len(piece.bad))
                    yield piece
        except Exception as error:
            outcome = next((name for kind, name in _OUTCOMES.items() if isinstance(error, kind)), "failed")
            raise
        finally:
            metrics.requests.labels(name, outcome).inc()
            text = f": {request.text!r}" if self.log_texts else ""
            seconds = time.perf_counter() - began
            _log.info("%s, %s, %d characters, %.2f s%s", name, outcome, characters, seconds, text)
