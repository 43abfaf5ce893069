"""One process that speaks, as the server sees it: what it is told, and what it says of each of its speeches."""

from __future__ import annotations

import asyncio
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

SILENT_SECONDS = 5.0
"""Requests go to other processes than to one that has been asked something and has said nothing for so long."""


class SpeakingProcess:
    """One process that speaks, and what it is to speak."""

    def __init__(self, pipe: Connection, died: Callable[[SpeakingProcess], None]) -> None:
        self.pid: int | None = None
        self.dead = False
        self.speeches: dict[int, asyncio.Queue[tuple[str, Any]]] = {}
        self._pipe, self._died = pipe, died
        self._asked_at: float | None = None
        self._told: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        for work in (self._listen, self._send):
            threading.Thread(target=work, daemon=True).start()

    @property
    def silent(self) -> bool:
        """Whether it has said nothing for long, though it was asked."""
        return self._asked_at is not None and time.monotonic() - self._asked_at > SILENT_SECONDS

    def tell(self, *message: Any) -> None:
        """Returns at once, also if the process reads nothing and its pipe is full: the server must not wait for it."""
        if message[0] == "speak" and self._asked_at is None:
            self._asked_at = time.monotonic()
        self._told.put(message)

    def close(self) -> None:
        """Let the process end."""
        with suppress(OSError):
            socket.socket(fileno=os.dup(self._pipe.fileno())).shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._call(self._deliver, self._pipe.recv())
        self._told.put(None)
        self._call(self._end)

    def _send(self) -> None:
        while (message := self._told.get()) is not None:
            with suppress(OSError):  # its death is told by the thread that listens
                self._pipe.send(message)
        self._pipe.close()  # by its last user, or its number would be another's meanwhile

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(function, *arguments)

    def _deliver(self, message: tuple[Any, ...]) -> None:
        what, number, *rest = message
        self._asked_at = None
        if what == "pid":
            self.pid = number
        elif number in self.speeches:
            self.speeches[number].put_nowait((what, rest[0]))

    def _end(self) -> None:
        self.dead = True
        for speech in self.speeches.values():
            speech.put_nowait(("died", None))
        self._died(self)
