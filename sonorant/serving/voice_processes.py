"""A loaded voice as the server sees it: processes that speak, replaced when one dies."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.serving.speaking_process import SpeakingProcess
from sonorant.serving.threads import in_daemon_thread
from sonorant.serving.wish import Ended, Piece, Wish
from sonorant.speech.bundle import read_bundle

ATTEMPTS = 3
"""How often a request is begun where the process that speaks it dies: a text that kills shall not kill for ever."""
AGAIN_SECONDS = 0.5
"""Until a process that died is replaced again, where its successor died too."""

LOAD_SECONDS = 300.0
"""In which a voice must have loaded and said its check sentence: gigabytes on a slow disk do. Promotions of all voices
and requests wait for it."""

Told = asyncio.Queue[tuple[Any, ...]]

_log = logging.getLogger(__name__)


class NotSpoken(SonorantError):
    """A fault of the server's, not of the request: it may be spoken later."""


class WorkerDied(NotSpoken):
    """The process that spoke is gone."""


class LoadedVoice:
    """A voice that speaks, in processes of its own. `start` makes one."""

    def __init__(self, bundle: Path, workers: int, log: str, died: Callable[[], None]) -> None:
        self.bundle = bundle
        self.description = read_bundle(bundle).description
        self.users = 0
        """Requests at work."""
        self.trouble = ""
        """Why the processes that died are not replaced."""
        self._workers: list[SpeakingProcess] = []
        self._wanted, self._log, self._died = workers, log, died
        self._numbers = itertools.count()
        self._ended = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._hiring = asyncio.Lock()

    @classmethod
    async def start(cls, bundle: Path, workers: int, *, log: str = "ERROR", died: Callable[[], None]) -> LoadedVoice:
        """Load the voice, let it say its check sentence, and start `workers` processes. `log`: the level of their logs;
        `died` is called whenever one dies. Raises SonorantError if the voice cannot be loaded or does not speak."""
        voice = cls(bundle, workers, log, died)
        await voice._start_mother()
        for _ in range(workers):
            voice._hire()
        return voice

    @property
    def alive(self) -> int:
        """Processes that speak."""
        return sum(not worker.dead for worker in self._workers)

    @property
    def pids(self) -> list[int]:
        """The process that loaded the voice, and those that speak."""
        return [self._mother.pid, *(worker.pid for worker in self._workers if worker.pid and not worker.dead)]

    @contextmanager
    def used(self) -> Iterator[LoadedVoice]:
        """Keep the voice while a request is at work."""
        self.users += 1
        try:
            yield self
        finally:
            self.users -= 1

    async def speak(self, wish: Wish, told: Told | None = None) -> AsyncGenerator[Piece | Ended, None]:
        """Yield the speech as it is computed, its end last. `told`: what is told of a text that arrives: ("text", str),
        ("pause",), ("close",). A speech whose process dies is taken up by another, which gives the rest. Raises
        SonorantError for what cannot be spoken."""
        given = 0
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with aclosing(self._attempt(replace(wish, skip=given), told)) as pieces:
                    async for piece in pieces:
                        given += 1
                        yield piece
                return
            except WorkerDied:
                if wish.arrives or attempt == ATTEMPTS:
                    raise WorkerDied("the process that spoke has died; ask again") from None

    async def _attempt(self, wish: Wish, told: Told | None) -> AsyncGenerator[Piece | Ended, None]:
        worker = await self._least_busy()
        number = next(self._numbers)
        heard: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        worker.speeches[number] = heard
        worker.tell("speak", number, wish)
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
                raise WorkerDied("the voice has been unloaded; ask again")
            if self.trouble:
                raise NotSpoken("the processes that spoke have died and cannot be replaced yet; ask later")
            await asyncio.sleep(0.05)
        return min(able, key=lambda worker: (worker.silent, len(worker.speeches)))

    async def retire(self) -> None:
        """End the processes once the last request is over."""
        while self.users:
            await asyncio.sleep(0.1)
        self.close()

    def close(self) -> None:
        """End the processes now."""
        self._ended = True
        self._control.close()
        for worker in self._workers:
            worker.close()
        threading.Thread(target=self._mother.wait, daemon=True).start()

    def memory(self) -> int:
        """Bytes of all processes; a page that several share is counted once, in shares."""
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
            told = {"error": f"the process that loads it hung for {LOAD_SECONDS:g} s and was killed; look at its disk"}
        except asyncio.CancelledError:
            self._kill_mother()
            raise
        if "error" in told:
            self._kill_mother()
            raise SonorantError(f"{self.bundle}: {told['error']}" if "the process" in told["error"] else told["error"])

    def _kill_mother(self) -> None:
        """And what she has started: nothing speaks yet, so nothing is lost."""
        with suppress(ProcessLookupError):
            os.killpg(self._mother.pid, signal.SIGKILL)
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for her line
        self._control.close()
        threading.Thread(target=self._mother.wait, daemon=True).start()

    def _hire(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs, suppress(OSError):  # the mother is dead: the pipe closes, and so the worker counts as dead
            socket.send_fds(self._control, [b"+"], [theirs.fileno()])
        self._workers = [worker for worker in self._workers if not worker.dead]
        self._workers.append(SpeakingProcess(Connection(ours.detach()), self._replace))

    def _replace(self, dead: SpeakingProcess) -> None:
        if self._ended:
            return
        _log.warning("a process that speaks has died (%s); another takes its place", dead.pid)
        self._died()
        task = asyncio.ensure_future(self._hire_again(soon=dead.pid is not None))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hire_again(self, *, soon: bool) -> None:
        await asyncio.sleep(0 if soon else AGAIN_SECONDS)
        async with self._hiring:  # else a process would be asked of one that still loads, and nobody read its pipe
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
                        _log.error("a process that died is not replaced yet: %s", error)
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
