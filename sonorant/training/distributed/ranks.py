"""Rank, device and collective operations of this process."""

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
"""Seconds between heartbeats of a rank that is working in `Ranks.after`."""
SILENCE = 900.0
"""Seconds without a heartbeat after which a rank counts as lost."""


class AllRanksError(SonorantError):
    """Error that every rank raises for the same reason; one rank per machine prints it."""


@dataclass(frozen=True)
class Ranks:
    """This process in torchrun's process group."""

    rank: int
    world_size: int
    local_rank: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this is global rank 0, which writes files."""
        return self.rank == 0

    @property
    def host(self) -> str:
        return platform.node()

    @property
    def name(self) -> str:
        return f"rank {self.rank} on {self.host} ({self.device}, local rank {self.local_rank})"

    @property
    def device_id(self) -> str:
        """Unique device name per rank: a GPU's UUID, or host and rank on CPUs."""
        if self.device.type == "cuda":
            return f"GPU-{torch.cuda.get_device_properties(self.device).uuid}"
        return f"{self.host}/{self.rank}"

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's picklable `value` in rank order, exchanged through CPUs."""
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def sum(self, values: dict[str, float]) -> dict[str, float]:
        """Sum `values` over all ranks; keys must be the same on each."""
        names = sorted(values)
        tensor = torch.tensor([values[name] for name in names], dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return dict(zip(names, tensor.tolist(), strict=True))

    def ask(self, flag: bool) -> Callable[[], bool]:
        """Start checking whether any rank sets `flag`; return a function that waits for the result. The check runs on
        CPUs, so no GPU waits."""
        tensor = torch.tensor(int(flag))
        work = dist.all_reduce(tensor, op=dist.ReduceOp.MAX, async_op=True)

        def answer() -> bool:
            work.wait()
            return bool(tensor.item())

        return answer

    def after(self, work: Callable[[], Result] | None) -> Result | None:
        """Run `work`, if given, and wait for all ranks without the timeout of collectives, because `work` may take
        hours.

        A collective call. Raises RuntimeError if there is no heartbeat for `SILENCE` seconds, or the store is gone.
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
        everyone = -(-own // self.world_size) * self.world_size  # including earlier calls
        heard, beats, pause = time.monotonic(), -1, 0.01
        while store.add("after/done", 0) < everyone:
            if (now := store.add("after/beats", 0)) != beats:
                heard, beats = time.monotonic(), now
            if time.monotonic() - heard > SILENCE:
                raise RuntimeError("Timed out waiting for a rank that sends no heartbeat")
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def share(self, data: bytes | None) -> bytes | None:
        """Return rank 0's `data` on every rank, through CPUs."""
        shared = [data]
        dist.broadcast_object_list(shared, 0)
        return shared[0]


@contextmanager
def _beating(beat: Callable[[], object]) -> Iterator[None]:
    done = threading.Event()

    def keep_beating() -> None:
        with suppress(RuntimeError):  # the store is gone; the waiting ranks report it
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
    """Join torchrun's process group: NCCL if each local rank has a GPU, otherwise gloo. `patience` is the timeout of
    collectives in seconds."""
    timeout = timedelta(seconds=patience)
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cpu")
    if torch.cuda.is_available():
        here = torch.cuda.device_count()
        if local_rank >= here:
            raise SonorantError(
                f"rank {os.environ['RANK']} on {platform.node()}: process {local_rank + 1} of this node has no GPU, "
                f"because there are only {here}; set PET_NPROC_PER_NODE={here}"
            )
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    # NCCL starts with the first tensor on a GPU; the proof before that uses CPUs.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=timeout)
    return Ranks(dist.get_rank(), dist.get_world_size(), local_rank, device)


# Resolved here: little may run between fork and exec.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def die_with_parent(number: int = signal.SIGTERM) -> None:
    if _prctl is not None:
        pr_set_pdeathsig = 1
        _prctl(pr_set_pdeathsig, int(number))
