"""This process among its peers: who it is, what it may use, how they agree."""

import ctypes
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from sonorant.errors import SonorantError

Result = TypeVar("Result")
BEAT = 5.0
"""Seconds between signs of life of a rank at work that the others wait for."""
SILENCE = 900.0
"""Seconds without any after which it counts as gone."""


class AllRanksError(SonorantError):
    """An error that all ranks find together, from the same evidence: each raises it, one of a machine prints it."""


@dataclass(frozen=True)
class Ranks:
    """The process group as torchrun made it."""

    rank: int
    world_size: int
    local_rank: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this is global rank 0, the one that writes."""
        return self.rank == 0

    @property
    def host(self) -> str:
        """Name of this rank's machine."""
        return platform.node()

    @property
    def name(self) -> str:
        """This rank's number, machine and device, for a person."""
        return f"rank {self.rank} on {self.host} ({self.device}, local rank {self.local_rank})"

    @property
    def device_id(self) -> str:
        """An id that no two ranks may share: a GPU's UUID; on CPUs, which may be shared, the host and the rank."""
        if self.device.type == "cuda":
            return f"GPU-{torch.cuda.get_device_properties(self.device).uuid}"
        return f"{self.host}/{self.rank}"

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's `value` (anything that can be pickled), by rank, on every rank. Between CPUs."""
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def sum(self, values: dict[str, float]) -> dict[str, float]:
        """Each value summed over all ranks; every rank must call it with the same keys."""
        names = sorted(values)
        tensor = torch.tensor([values[name] for name in names], dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return dict(zip(names, tensor.tolist(), strict=True))

    def ask(self, flag: bool) -> Callable[[], bool]:
        """Ask whether any rank sets `flag`; call the result later for the answer, when it has long arrived.

        Between CPUs: no GPU has to finish its step, and no rank waits for the slowest one, as at a barrier.
        """
        tensor = torch.tensor(int(flag))
        work = dist.all_reduce(tensor, op=dist.ReduceOp.MAX, async_op=True)

        def answer() -> bool:
            work.wait()
            return bool(tensor.item())

        return answer

    def after(self, work: Callable[[], Result] | None) -> Result | None:
        """Do `work`, which some ranks have and which may take hours; return what it returns when all have done theirs.

        In a collective, those who wait would end with an error after the group's timeout. So they ask the group's store
        instead, where a rank at work shows that it lives. Every rank must call it. Raises RuntimeError if nobody who is
        waited for has been heard of for `SILENCE` seconds, or if the store is gone.
        """
        store = dist.distributed_c10d._get_default_store()
        with _beating(lambda: store.add("after/beats", 1)):
            result = work() if work else None
        try:
            self._wait_for_all(store)
        except dist.DistNetworkError as error:
            raise RuntimeError("Connection closed by peer: rank 0, which holds the store") from error
        return result

    def _wait_for_all(self, store: dist.Store) -> None:
        own = store.add("after/done", 1)
        everyone = -(-own // self.world_size) * self.world_size  # of this call, and of all before it
        heard, beats, pause = time.monotonic(), -1, 0.01
        while store.add("after/done", 0) < everyone:
            if (now := store.add("after/beats", 0)) != beats:
                heard, beats = time.monotonic(), now
            if time.monotonic() - heard > SILENCE:
                raise RuntimeError("Timed out waiting for a rank that is silent")
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def share(self, data: bytes | None) -> bytes | None:
        """Return rank 0's `data` on every rank, for nodes that do not share its disk."""
        size = torch.tensor(-1 if data is None else len(data))
        dist.broadcast(size, 0)
        if size < 0:
            return None
        buffer = torch.empty(int(size), dtype=torch.uint8)
        if data:
            buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        dist.broadcast(buffer, 0)
        return buffer.numpy().tobytes()


@contextmanager
def _beating(beat: Callable[[], object]) -> Iterator[None]:
    """Call `beat` every `BEAT` seconds until the body of the `with` has ended."""
    done = threading.Event()

    def keep_beating() -> None:
        with suppress(RuntimeError):  # the store is gone: whoever waits will say so
            while not done.wait(BEAT):
                beat()

    thread = threading.Thread(target=keep_beating, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def join(patience: float) -> Ranks:
    """Enter the process group that torchrun prepared: NCCL with a GPU for each local rank, or gloo on CPUs.

    A rank that waits for another longer than `patience` seconds ends with an error.
    """
    timeout = timedelta(seconds=patience)
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cpu")
    if torch.cuda.is_available():
        here = torch.cuda.device_count()
        if local_rank >= here:
            raise SonorantError(
                f"rank {os.environ['RANK']} on {platform.node()}: process {local_rank + 1} of this node has no GPU "
                f"of its own, {here} are there; set PET_NPROC_PER_NODE={here}"
            )
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    # NCCL only starts with the first tensor on a GPU: the proof before that goes between CPUs.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=timeout)
    return Ranks(dist.get_rank(), dist.get_world_size(), local_rank, device)


# Looked up here: between fork and exec, beside other threads, as little as possible may run.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Ask Linux to signal this process when its parent dies, so that a killed launcher leaves no orphan."""
    if _prctl is not None:
        pr_set_pdeathsig = 1
        _prctl(pr_set_pdeathsig, int(number))
