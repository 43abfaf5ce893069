"""What the routes share: voices, a bounded queue, keys and metrics."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from sonorant.errors import SonorantError
from sonorant.serving.keys import Caller, Keys, LimitReached
from sonorant.serving.prometheus import Metrics
from sonorant.serving.request import LIMITS, Ended, Piece, ServedRequest
from sonorant.serving.voice_processes import NotSpoken
from sonorant.serving.voices import Offered, Voices
from sonorant.speech.request import Limits


class BusyError(Exception):
    """Too many requests are waiting."""

    def __init__(self) -> None:
        super().__init__("too many are speaking; try again in a moment")


class Turns:
    """Places for requests; further ones wait in order, up to a limit."""

    def __init__(self, places: int, waiting: int) -> None:
        self.places, self.most_waiting = places, waiting
        self.waiting = self.speaking = 0
        self._free = asyncio.Semaphore(places)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place. Raises BusyError at once if too many wait."""
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
    """One server."""

    voices: Voices
    turns: Turns
    metrics: Metrics
    keys: Keys | None = None
    """None = no key is needed."""
    limits: Limits = LIMITS
    """Of one request."""
    log_texts: bool = False
    draining: bool = False
    """Whether the server is about to end; late requests are still spoken."""
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the registry reports that an alias has moved."""
    webhook: str | None = None
    """Secret of the registry's signatures; None = it does not call."""

    def __post_init__(self) -> None:
        turns = self.turns
        self.metrics.watch(lambda: turns.waiting, lambda: turns.speaking, self.voices.memory)

    async def speak(
        self, one: Offered, request: ServedRequest, caller: Caller | None = None, told: Any = None
    ) -> AsyncGenerator[Piece | Ended, None]:
        """Yield the speech; closing the generator ends the work. `told`: see `LoadedVoice.speak`. Raises SonorantError,
        BusyError or LimitReached."""
        name, began = one.offer.name, time.perf_counter()
        self.metrics.characters.labels(name).inc(len(request.text))
        with self._counted(name, request) as count, caller.asking(len(request.text)) if caller else nullcontext():
            async with (
                self.turns.place(),
                self.voices.use(one) as voice,
                aclosing(voice.speak(request, told)) as pieces,
            ):
                async for piece in pieces:
                    self._count(name, piece, count, began)
                    yield piece

    def _count(self, name: str, piece: Piece | Ended, count: _Count, began: float) -> None:
        if isinstance(piece, Piece):
            if piece.sound and not count.heard:
                count.heard = True
                self.metrics.first_audio.labels(name).observe(time.perf_counter() - began)
            self.metrics.runaways.labels(name).inc(len(piece.bad))
            return
        count.outcome = "spoken"
        self.metrics.audio.labels(name).inc(piece.audio_seconds)
        self.metrics.late.labels(name).inc(piece.late)
        if piece.audio_seconds:
            self.metrics.real_time.labels(name).observe(piece.work_seconds / piece.audio_seconds)

    @contextmanager
    def _counted(self, name: str, request: ServedRequest) -> Iterator[_Count]:
        """Count how a request ends; a client that leaves early cancels it."""
        count, began = _Count(), time.perf_counter()
        try:
            yield count
        except Exception as error:
            count.outcome = next((name for kind, name in _OUTCOMES.items() if isinstance(error, kind)), "failed")
            raise
        finally:
            self.metrics.requests.labels(name, count.outcome).inc()
            text = f": {request.text!r}" if self.log_texts else ""
            seconds = time.perf_counter() - began
            _log.info("%s, %s, %d characters, %.2f s%s", name, count.outcome, len(request.text), seconds, text)


class _Count:
    """Of one request."""

    def __init__(self) -> None:
        self.outcome, self.heard = "cancelled", False
