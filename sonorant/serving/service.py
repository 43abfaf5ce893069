"""One server: its voices, its queue, its keys and what it counts. Speaks; knows nothing of routes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from sonorant.errors import SonorantError
from sonorant.serving.keys import Caller, Keys, LimitReached
from sonorant.serving.prometheus import Metrics
from sonorant.serving.turns import BusyError, Turns
from sonorant.serving.voice_processes import NotSpoken
from sonorant.serving.voices import Offered, Voices
from sonorant.serving.wish import LIMITS, Ended, Piece, Wish
from sonorant.speech.speaking import Limits

_OUTCOMES: dict[type[Exception], str] = {
    NotSpoken: "failed",
    SonorantError: "refused",
    BusyError: "busy",
    LimitReached: "limited",
}
_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Service:
    """What the routes share."""

    voices: Voices
    turns: Turns
    metrics: Metrics
    keys: Keys | None = None
    """None = whoever reaches the server may speak."""
    limits: Limits = LIMITS
    """Of one request."""
    log_texts: bool = False
    draining: bool = False
    """Whether the server is about to end; what still reaches it is spoken."""
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the registry says that an alias has moved."""
    webhook: str | None = None
    """What the registry signs with when it calls; None = it does not call."""

    def __post_init__(self) -> None:
        self.metrics.watch(self.turns, self.voices)

    async def speak(
        self, one: Offered, wish: Wish, caller: Caller | None = None, told: Any = None
    ) -> AsyncGenerator[Piece | Ended, None]:
        """Yield the speech; closing the generator ends the work. `told`: as of `LoadedVoice.speak`. Raises
        SonorantError, BusyError or LimitReached."""
        name, began = one.offer.name, time.perf_counter()
        self.metrics.characters.labels(name).inc(len(wish.text))
        with self._counted(name, wish) as count, caller.asking(len(wish.text)) if caller else nullcontext():
            async with (
                self.turns.place(),
                self.voices.use(one) as voice,
                aclosing(voice.speak(wish, told)) as pieces,
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
        self.metrics.were_late(name, piece.late)
        if piece.audio_seconds:
            self.metrics.real_time.labels(name).observe(piece.work_seconds / piece.audio_seconds)

    @contextmanager
    def _counted(self, name: str, wish: Wish) -> Iterator[_Count]:
        """Count how a request ends; whoever leaves before the end cancels it."""
        count, began = _Count(), time.perf_counter()
        try:
            yield count
        except Exception as error:
            count.outcome = next((name for kind, name in _OUTCOMES.items() if isinstance(error, kind)), "failed")
            raise
        finally:
            self.metrics.requests.labels(name, count.outcome).inc()
            text = f": {wish.text!r}" if self.log_texts else ""
            seconds = time.perf_counter() - began
            _log.info("%s, %s, %d characters, %.2f s%s", name, count.outcome, len(wish.text), seconds, text)


class _Count:
    """Of one request."""

    def __init__(self) -> None:
        self.outcome, self.heard = "cancelled", False
