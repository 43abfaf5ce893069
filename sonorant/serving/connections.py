"""Connections to the server: how many there may be, and how long a client may let it wait."""

from __future__ import annotations

import asyncio
import logging
import resource
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from sonorant.errors import SonorantError

CONNECTIONS = 2_000
"""At a time; more get status 503."""
HEAD_SECONDS = 10.0
"""In which the head of a request must have come."""
STALL_SECONDS = 30.0
"""In which a listener must take what is kept for them, some 50 KB."""
_log = logging.getLogger(__name__)


def most_held(connections: int) -> int:
    """Connections that are held for a while so that those beyond `connections` hear of it; what comes beyond these is
    closed at once, as each is an open file."""
    return connections + connections // 10 + 1


def needed_files(connections: int) -> int:
    """Open files of connections: those that are held, and as many as may be accepted before one of them is closed."""
    return most_held(connections) + connections


def allowed_connections(beside: int, wanted: int = CONNECTIONS) -> int:
    """How many connections the limit of open files allows, `wanted` at most, where `beside` other files are open. The
    soft limit is raised as far as needed. Raises SonorantError if nothing is left for connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = beside + needed_files(wanted)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    with suppress(ValueError, OSError):  # the system may allow less than the hard limit says
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    if soft >= needed:
        return wanted
    connections = (soft - beside - 1) * 10 // 21
    if connections < 1:
        raise SonorantError(f"{soft} open files are too few to serve; raise the limit to {needed} (ulimit -Hn)")
    _log.warning(
        "takes %d connections at a time, not %d: %d files may be open (ulimit -Hn), and all would need %d",
        connections,
        wanted,
        soft,
        needed,
    )
    return connections


class PatientProtocol(H11Protocol):
    """uvicorn's protocol with deadlines: whoever sends a head slowly, or takes an answer slowly, is let go."""

    _head: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > most_held(self.limit_concurrency):
            transport.abort()
        else:
            self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect_head()

    def _expect_head(self) -> None:
        at_work = self.cycle is not None and not self.cycle.response_complete
        if at_work and self._head:
            self._head.cancel()
            self._head = None
        elif not at_work and self._head is None:
            self._head = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall = self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall:
            self._stall.cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._head, self._stall):
            if timer:
                timer.cancel()
