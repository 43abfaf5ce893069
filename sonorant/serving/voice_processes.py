"""The processes of a loaded voice; a process that dies is replaced."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from sonorant.errors import SonorantError
from sonorant.serving.request import Ended, Piece, ServedRequest
from sonorant.speech.bundle import read_bundle

ATTEMPTS = 3
"""Maximum number of attempts at a request whose process dies, because the text may be the cause."""
AGAIN_SECONDS = 0.5
"""Seconds before the next attempt to replace a process."""

SILENT_SECONDS = 5.0
"""Seconds without a message after which other processes are preferred for new requests."""
LOAD_SECONDS = 300.0
"""Maximum time in seconds to load and check a voice; enough for gigabytes on a slow disk."""

Value = TypeVar("Value")
Told = asyncio.Queue[tuple[Any, ...]]

_log = logging.getLogger(__name__)


async def in_daemon_thread(function: Callable[..., Value], *arguments: object) -> Value:
    """Run `function`, which may hang, in a daemon thread, because asyncio waits for its worker threads on exit."""
    answer: Future[Value] = Future()
    answer.set_running_or_notify_cancel()  # so it cannot be cancelled before it has a result

    def work() -> None:
        try:
            answer.set_result(function(*arguments))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(answer)


class NotSpoken(SonorantError):
    """An internal error of the server; the request may succeed later."""


class WorkerDied(NotSpoken):
    """The speaking process has died."""


class SpeakingProcess:
    """The pipe to one speaking process, and its running requests."""

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
        return self._asked_at is not None and time.monotonic() - self._asked_at > SILENT_SECONDS

    def tell(self, *message: Any) -> None:
        """Send a message without blocking, even if the pipe is full."""
        if message[0] == "speak" and self._asked_at is None:
            self._asked_at = time.monotonic()
        self._told.put(message)

    def close(self) -> None:
        """Stop the process by closing its pipe."""
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
            with suppress(OSError):  # `_listen` detects a dead process
                self._pipe.send(message)
        self._pipe.close()  # by its last user, before the descriptor is reused

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the server has stopped
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


class LoadedVoice:
    """A voice and its processes, created with `start`."""

    def __init__(self, bundle: Path, workers: int, log: str, died: Callable[[], None]) -> None:
        self.bundle = bundle
        self.description = read_bundle(bundle).description
        self.users = 0
        """Number of running requests."""
        self.trouble = ""
        """Reason why dead processes are not replaced."""
        self._workers: list[SpeakingProcess] = []
        self._wanted, self._log, self._died = workers, log, died
        self._numbers = itertools.count()
        self._ended = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._hiring = asyncio.Lock()

    @classmethod
    async def start(cls, bundle: Path, workers: int, *, log: str = "ERROR", died: Callable[[], None]) -> LoadedVoice:
        """Load and check the voice, and start `workers` processes. `died` is called when one dies. Raises SonorantError
        if the voice cannot be loaded or cannot speak."""
        voice = cls(bundle, workers, log, died)
        await voice._start_mother()
        for _ in range(workers):
            voice._hire()
        return voice

    @property
    def alive(self) -> int:
        """Number of running processes."""
        return sum(not worker.dead for worker in self._workers)

    @property
    def pids(self) -> list[int]:
        """Process ids of the loading process and the speaking processes."""
        return [self._mother.pid, *(worker.pid for worker in self._workers if worker.pid and not worker.dead)]

    @contextmanager
    def used(self) -> Iterator[LoadedVoice]:
        """Keep the voice loaded while a request runs."""
        self.users += 1
        try:
            yield self
        finally:
            self.users -= 1

    async def speak(self, request: ServedRequest, told: Told | None = None) -> AsyncGenerator[Piece | Ended, None]:
        """Yield the speech while it is computed, then `Ended`. `told`: updates of an arriving text: ("text", str),
        ("pause",), ("close",). If the process dies, a complete text continues in another process. Raises SonorantError
        if the request cannot be spoken."""
        given = 0
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with aclosing(self._attempt(replace(request, skip=given), told)) as pieces:
                    async for piece in pieces:
                        given += 1
                        yield piece
                return
            except WorkerDied:
                if request.arrives or attempt == ATTEMPTS:
                    raise WorkerDied("the speaking process has died; try again") from None

    async def _attempt(self, request: ServedRequest, told: Told | None) -> AsyncGenerator[Piece | Ended, None]:
        worker = await self._least_busy()
        number = next(self._numbers)
        heard: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        worker.speeches[number] = heard
        worker.tell("speak", number, request)
        passing = asyncio.create_task(_pass_on(told, worker, number)) if told else None
        try:
            while True:
                what, value = await heard.get()
                if what == "piece":
                    yield value
                    worker.tell("more", number)
                elif what == "ended":
                    yield value
                    return
                elif what == "died":
                    raise WorkerDied("died")
                else:
                    raise (SonorantError if what == "refused" else NotSpoken)(value)
        finally:
            if passing:
                passing.cancel()
            del worker.speeches[number]
            worker.tell("cancel", number)

    async def _least_busy(self) -> SpeakingProcess:
        while not (able := [worker for worker in self._workers if not worker.dead]):
            if self._ended:
                raise WorkerDied("the voice has been unloaded; try again")
            if self.trouble:
                raise NotSpoken("the speaking processes died and cannot be replaced yet; try again later")
            await asyncio.sleep(0.05)
        return min(able, key=lambda worker: (worker.silent, len(worker.speeches)))

    async def retire(self) -> None:
        """Stop the processes after the last request."""
        while self.users:
            await asyncio.sleep(0.1)
        self.close()

    def close(self) -> None:
        """Stop the processes immediately."""
        self._ended = True
        self._control.close()
        for worker in self._workers:
            worker.close()
        threading.Thread(target=self._mother.wait, daemon=True).start()

    def memory(self) -> int:
        """Return the memory of all processes in bytes; shared pages count once."""
        return sum(_proportional(pid) for pid in self.pids)

    async def _start_mother(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            words = [sys.executable, "-m", "sonorant.serving.mother", str(theirs.fileno()), str(self.bundle)]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "SONORANT_LOG": self._log}
            self._mother = subprocess.Popen(words, env=environment, pass_fds=[theirs.fileno()], start_new_session=True)
        told = {"error": "the process that loads it died"}
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                if answer := await in_daemon_thread(self._control.makefile("rb").readline):
                    told = json.loads(answer)
        except TimeoutError:
            told = {"error": f"the process that loads it hung for {LOAD_SECONDS:g} s and was killed; check its disk"}
        except asyncio.CancelledError:
            self._kill_mother()
            raise
        if "error" in told:
            self._kill_mother()
            raise SonorantError(f"{self.bundle}: {told['error']}" if "the process" in told["error"] else told["error"])

    def _kill_mother(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._mother.pid, signal.SIGKILL)
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads its line
        self._control.close()
        threading.Thread(target=self._mother.wait, daemon=True).start()

    def _hire(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs, suppress(OSError):  # if the mother is dead, the pipe closes
            socket.send_fds(self._control, [b"+"], [theirs.fileno()])
        self._workers = [worker for worker in self._workers if not worker.dead]
        self._workers.append(SpeakingProcess(Connection(ours.detach()), self._replace))

    def _replace(self, dead: SpeakingProcess) -> None:
        if self._ended:
            return
        _log.warning("a speaking process died (%s) and is being replaced", dead.pid)
        self._died()
        task = asyncio.ensure_future(self._hire_again(soon=dead.pid is not None))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hire_again(self, *, soon: bool) -> None:
        await asyncio.sleep(0 if soon else AGAIN_SECONDS)
        async with self._hiring:  # a loading mother must not get the pipe
            while not self._ended:
                try:
                    if self._control.fileno() < 0 or self._mother.poll() is not None:
                        await self._start_mother()
                    if not self._ended:
                        self._hire()
                    self.trouble = ""
                    return
                except (SonorantError, OSError) as error:
                    if self.trouble != str(error):
                        _log.error("a speaking process cannot be replaced yet: %s", error)
                    self.trouble = str(error)
                    await asyncio.sleep(AGAIN_SECONDS)


async def _pass_on(told: Told, worker: SpeakingProcess, number: int) -> None:
    while True:
        what, *rest = await told.get()
        worker.tell(what, number, *rest)


def _proportional(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
