"""One server: its voices, its queue, its keys and what it counts. Speaks; knows nothing of routes."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from sonorant.errors import SonorantError
from sonorant.runtime.speaking import Limits
from sonorant.serving.keys import Caller, Keys, LimitReached
from sonorant.serving.metrics import Metrics
from sonorant.serving.turns import BusyError, Turns
from sonorant.serving.voices import Offered, Voices
from sonorant.serving.wish import LIMITS, Ended, Piece, Wish

_OUTCOMES: dict[type[Exception], str] = {SonorantError: "refused", BusyError: "busy", LimitReached: "limited"}
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
            async with self.turns.place(), self.voices.use(one) as voice:
                async for piece in voice.speak(wish, told):
                    if isinstance(piece, Piece):
                        if piece.sound and not count.heard:
                            count.heard = True
                            self.metrics.first_audio.labels(name).observe(time.perf_counter() - began)
                        self.metrics.runaways.labels(name).inc(len(piece.bad))
                    else:
                        self._ended(name, piece)
                        count.outcome = "spoken"
                    yield piece

    def _ended(self, name: str, ended: Ended) -> None:
        self.metrics.audio.labels(name).inc(ended.audio_seconds)
        self.metrics.late.labels(name).inc(ended.late)
        if ended.audio_seconds:
            self.metrics.real_time.labels(name).observe(ended.work_seconds / ended.audio_seconds)

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
