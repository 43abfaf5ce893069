"""Report a rank that hangs and, after a time limit, end training.

Ranks exchange their phases through the process group's store. Clocks are never compared: a rank reports the time in its
phase, and the receiver adds the report's age.
"""

from __future__ import annotations

import faulthandler
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from sonorant.training.config import MachineConfig
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.run_directory import RunDirectory
from sonorant.training.telemetry.stopwatch import Stopwatch

WAITING = ("backward", "communication")
"""Phases in which a rank waits for the others."""
LOOK_AT_DISK = "check the disk of the run directory"
LOOK_AT_LINKS = "the ranks wait for each other: check the network between them"
HINTS = {
    "data": "its loader waits for storage or for a worker: check the disk of the features, or set data.preload",
    "checkpoint": LOOK_AT_DISK,
    "sample": LOOK_AT_DISK,
    "backward": LOOK_AT_LINKS,
    "communication": LOOK_AT_LINKS,
}
SILENT = "check that machine, its load and network, and whether the process was suspended"
SILENCE = 4
"""Number of missed intervals after which a rank counts as silent, or this process as suspended."""


@dataclass(frozen=True, kw_only=True)
class Whereabouts:
    rank: int
    host: str
    step: int
    phase: str
    idle: float
    """Seconds since the phase began."""
    silent: bool = False
    """Whether the rank does not respond; then `phase` is the last known one."""

    def __str__(self) -> str:
        said = "has not responded" if self.silent else "has made no progress"
        phase = f"last seen in phase {self.phase}" if self.silent else f"in phase {self.phase}"
        return f"rank {self.rank} on {self.host} {said} for {self.idle:.0f} s, {phase} (step {self.step})"


def culprits(ranks: list[Whereabouts], limit: float) -> list[Whereabouts]:
    """Return the ranks that have kept the others waiting for at least `limit` seconds.

    Suspects are silent ranks or, if there are none, ranks outside `WAITING` phases. Returns the suspect at the lowest
    step and longest in its phase, with all others in that step and phase; without suspects, all ranks.
    """
    suspects = [one for one in ranks if one.silent] or [one for one in ranks if one.phase not in WAITING]
    if not suspects:
        return ranks if min(one.idle for one in ranks) >= limit else []
    worst = min(suspects, key=lambda one: (one.step, -one.idle))
    return [one for one in suspects if (one.step, one.phase) == (worst.step, worst.phase) and one.idle >= limit]


class Watchdog:
    """Watches all ranks while its context is open. As the store may hang, one thread exchanges states and another
    evaluates them."""

    def __init__(
        self, ranks: Ranks, stopwatch: Stopwatch, step: Callable[[], int], machine: MachineConfig, run: RunDirectory
    ) -> None:
        self.ranks, self.stopwatch, self.step, self.machine, self.run = ranks, stopwatch, step, machine, run
        self.interval = min(5.0, machine.stall_warning / 5)
        self._awake = self._ticked = self._exchanged = time.monotonic()
        """End of the last suspension of this process; idle time before it does not count."""
        self._heard: dict[int, tuple[Any, float]] = dict.fromkeys(range(ranks.world_size), (None, self._awake))
        self._warned: set[tuple[int, int, str]] = set()
        self._done, self._cut_off = threading.Event(), threading.Event()

    def __enter__(self) -> Watchdog:
        self._connect()
        for work in (self._exchange, self._judge):
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()

    def _connect(self) -> None:
        """Connect to rank 0's store, because the group's connection is busy while a collective is set up."""
        if self.ranks.world_size == 1:
            self._store: dist.Store = dist.HashStore()
            return
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        timeout = timedelta(seconds=self.machine.stall_limit)
        self._store = dist.TCPStore(address, port, is_master=False, timeout=timeout)

    def _exchange(self) -> None:
        for beat in itertools.count():
            self._tick()
            try:
                self._publish(beat)
            except RuntimeError:  # rank 0 has exited, with the store
                self._cut_off.set()
                return
            self._exchanged = time.monotonic()
            if self._done.wait(self.interval):
                return

    def _publish(self, beat: int) -> None:
        """Publish this rank's state and read the others'. Raises RuntimeError if the store is gone."""
        self._store.set(f"watchdog/{self.ranks.rank}", json.dumps({"beat": beat, **vars(self._own())}))
        for rank, (known, _) in self._heard.items():
            if rank != self.ranks.rank and self._store.check([f"watchdog/{rank}"]):
                said = json.loads(self._store.get(f"watchdog/{rank}"))
                if known is None or known["beat"] != said["beat"]:
                    self._heard[rank] = said, time.monotonic()

    def _tick(self) -> None:
        """Detect a suspension of this process."""
        now = time.monotonic()
        if self._silent(now - self._ticked):
            self._awake = self._exchanged = now
        self._ticked = now

    def _own(self) -> Whereabouts:
        phase, since = self.stopwatch.current
        idle = time.monotonic() - max(since, self._awake)
        return Whereabouts(rank=self.ranks.rank, host=self.ranks.host, step=self.step(), phase=phase, idle=idle)

    def whereabouts(self) -> list[Whereabouts]:
        """Return the states of all known ranks; if the store hangs, only rank 0, which hosts it, is silent."""
        now = time.monotonic()
        found = [self._own()]
        for rank, (said, heard) in self._heard.items():
            if rank == self.ranks.rank or (rank > 0 and self._silent(now - self._exchanged)):
                continue
            said = said or {"host": "an unknown host", "step": self.step(), "phase": "start", "idle": 0.0}
            ago = now - max(heard, self._awake)
            place = {name: said[name] for name in ("host", "step", "phase")}
            found.append(Whereabouts(rank=rank, idle=said["idle"] + ago, silent=self._silent(ago), **place))
        return sorted(found, key=lambda one: one.rank)

    def _silent(self, seconds: float) -> bool:
        return seconds > SILENCE * self.interval

    def _judge(self) -> None:
        while not self._done.wait(self.interval):
            self._tick()
            if self._cut_off.is_set():  # rank 0 reported the cause; the main thread may hang
                if self._own().idle >= self.machine.stall_limit:
                    os._exit(1)
                continue
            everyone = self.whereabouts()
            speaker = min(one.rank for one in everyone if not one.silent) == self.ranks.rank
            for one in culprits(everyone, self.machine.stall_warning):
                self._warn(one, speaker)
            # Ranks that survive the reporting rank's exit follow later.
            limit = self.machine.stall_limit + (0.0 if speaker else SILENCE * self.interval)
            if at_fault := culprits(everyone, limit):
                self._end(at_fault)

    def _warn(self, one: Whereabouts, speaker: bool) -> None:
        if (one.rank, one.step, one.phase) in self._warned:
            return
        self._warned.add((one.rank, one.step, one.phase))
        if one.rank == self.ranks.rank:  # in a thread: the disk of the run directory may hang
            threading.Thread(target=self._write_stacks, daemon=True).start()
        if speaker:
            _say(f"warning: {one}: {_hint(one)}; training ends after {self.machine.stall_limit:.0f} s")

    def _write_stacks(self) -> None:
        stacks = self.run.path / f"stall-rank-{self.ranks.rank}.txt"
        try:
            self.run.path.mkdir(parents=True, exist_ok=True)
            with stacks.open("w", encoding="utf-8") as file:
                faulthandler.dump_traceback(file, all_threads=True)
        except OSError as error:
            _say(f"rank {self.ranks.rank}: {stacks}: not written ({error.strerror})")
            return
        _say(f"rank {self.ranks.rank}: stacks of its threads: {stacks}")

    def _end(self, at_fault: list[Whereabouts]) -> None:
        message = f"{', '.join(map(str, at_fault))}: {_hint(at_fault[0])}"
        _say(f"error: {message}; run the same command to resume from the last checkpoint")
        failing = threading.Thread(target=self.run.fail, args=(message,), daemon=True)
        failing.start()
        failing.join(2 * self.interval)
        os._exit(1)  # the main thread hangs


def _hint(one: Whereabouts) -> str:
    return SILENT if one.silent else HINTS.get(one.phase, "check that machine and its load")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
