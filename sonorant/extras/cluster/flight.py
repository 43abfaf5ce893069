r"""Spread items over a Dask cluster with a limited number in flight.

Dask retries the items of a dead worker. Every other cluster failure is raised as a one-line error.
"""

import asyncio
import logging
import math
import pickle
import sys
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from sonorant.errors import SonorantError
from sonorant.extras.cluster.address import checked_address
from sonorant.extras.cluster.task import Work, plain, run
from sonorant.processes import SCHEDULER

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 30.0
"""Maximum seconds to connect to a scheduler."""
WORKER_SECONDS = 120.0
"""Seconds without workers after which a call fails."""
LOOK_SECONDS = 2.0
"""Seconds between counts of the workers."""
A_THREAD = 2
"""Number of groups in flight per thread: one being computed, one waiting."""
GROUP_SECONDS, GROUP = 0.25, 32
"""Target seconds of work and maximum number of items per group. A group is one Dask task, because each task costs
milliseconds."""
LOGGERS = ("distributed", "distributed.client", "distributed.comm", "distributed.core", "tornado.application")


def spread_over(
    address: str,
    function: Callable[[Any], Any],
    items: Sequence[Any],
    *,
    label: str,
    unit: str,
    prepare: Callable[..., None] | None,
    arguments: tuple[Any, ...],
    reads: Sequence[Path],
    keep: Callable[[int, Any], None] | None,
) -> list[Any]:
    r"""Do what `sonorant.processes.spread` does, on the cluster whose scheduler is at `address`.

    Raises SonorantError if the cluster fails, a worker differs from this process, or an item kills its workers.
    """
    checked_address(address, SCHEDULER)
    work = Work.of(function, prepare, arguments, reads)
    return asyncio.run(_spread(address, work, items, label, unit, keep)) if items else []


def dashboard(address: str) -> str | None:
    """Return the URL of the scheduler's dashboard, if it has one. Raises SonorantError if the scheduler is
    unreachable."""

    async def ask() -> str | None:
        async with _connected(address) as client:
            assert client.scheduler is not None
            info = await client.scheduler.identity(n_workers=0)
            return client.dashboard_link if "dashboard" in info["services"] else None

    return asyncio.run(ask())


async def _spread(
    address: str,
    work: Work,
    items: Sequence[Any],
    label: str,
    unit: str,
    keep: Callable[[int, Any], None] | None,
) -> list[Any]:
    results: list[Any] = [] if keep else [None] * len(items)
    async with _connected(address) as client:
        flight = _Flight(client, address, work, items, label, unit)
        with tqdm(total=len(items), desc=label, unit=unit, file=sys.stderr) as progress:
            async for group, found in flight.results():
                for place, result in zip(group, found, strict=True):
                    if keep:
                        keep(place, result)
                    else:
                        results[place] = result
                progress.update(len(group))
    return results


@asynccontextmanager
async def _connected(address: str) -> AsyncIterator["Client"]:
    with _quiet():
        from distributed import Client

        try:
            client = await Client(address, asynchronous=True, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, RuntimeError, TypeError, ValueError) as error:  # TypeError: tls without certificates
            why = " ".join(str(error).split())[:200]
            raise SonorantError(
                f"cannot reach a scheduler at {address} ({why}); start one with 'sonorant scheduler', or unset "
                "SONORANT_SCHEDULER to use only this machine"
            ) from None
        async with client:
            yield client


@contextmanager
def _quiet() -> Iterator[None]:
    import distributed  # noqa: F401 - importing it sets the levels of its loggers

    before = {name: logging.getLogger(name).level for name in LOGGERS}
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="distributed")  # versions (checked by workers) and large items
            yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


class _Flight:
    def __init__(self, client: "Client", address: str, work: Work, items: Sequence[Any], label: str, unit: str) -> None:
        self._client, self._address, self._work, self._items = client, address, plain(work), items
        # A separate task: the scheduler stores it once, workers copy it, and Dask recomputes it after a worker dies.
        # A codec takes hundreds of MB, and there are many tasks.
        self._content = client.submit(bytes, work.content, key=f"{label}-{work.call}-given", pure=False)
        self._label, self._unit, self._last_worker = label, unit, ""
        self._groups: dict[asyncio.Task[tuple[float, list[Any]]], range] = {}
        self._threads, self._looked, self._had_workers = 0, -math.inf, time.monotonic()
        self._seconds, self._sent = math.inf, 0

    async def results(self) -> AsyncIterator[tuple[range, list[Any]]]:
        """Yield the item indices and results of each group. Groups that killed a worker are repeated last, item by
        item."""
        begin, suspects = 0, list[int]()
        try:
            await self._look()
            while begin < len(self._items) or self._groups:
                while begin < len(self._items) and len(self._groups) < A_THREAD * max(1, self._threads):
                    begin = self._send(range(begin, begin + self._size(len(self._items) - begin)))
                async for group, found in self._arrived():
                    if found is None:
                        suspects.extend(group)
                    else:
                        yield group, found
            killers = []
            for place in sorted(suspects):
                self._send(range(place, place + 1))
                async for group, found in self._arrived():
                    if found is None:
                        killers.append(place)
                    else:
                        yield group, found
            if killers:
                raise SonorantError(self._told(killers))
        finally:
            for task in self._groups:
                task.cancel()

    def _size(self, left: int) -> int:
        share = math.ceil(left / (A_THREAD * max(1, self._threads)))
        return min(max(1, int(GROUP_SECONDS / self._seconds)) if self._seconds else GROUP, GROUP, share)

    def _send(self, group: range) -> int:
        items = pickle.dumps([self._items[place] for place in group])
        self._sent += 1  # names are not reused, because Dask may remember a task's outcome
        key = f"{self._label}-{self._work['call']}-{self._sent}"
        future = self._client.submit(run, self._work, self._content, items, key=key, pure=False)
        self._groups[asyncio.create_task(self._fetch(future))] = group
        return group.stop

    async def _fetch(self, future: Any) -> tuple[float, list[Any]]:
        seconds, results = await future
        return seconds, pickle.loads(results)

    async def _arrived(self) -> AsyncIterator[tuple[range, list[Any] | None]]:
        """Wait for finished groups. Yield each group with its results, or with None if it killed its worker."""
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        done = set[Any]()
        while not done:
            done, _ = await asyncio.wait(self._groups, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            await self._look()
        for task in done:
            group = self._groups.pop(task)
            try:
                seconds, found = task.result()
            except KilledWorker as error:
                self._last_worker = error.last_worker.address
                yield group, None
                continue
            except (asyncio.CancelledError, CancelledError, CommClosedError):  # Dask lost the scheduler
                raise SonorantError(self._gone()) from None
            except ModuleNotFoundError as error:
                if (error.name or "").partition(".")[0] != "sonorant":
                    raise
                raise SonorantError(
                    f"a worker of {self._address} has a different version of sonorant or none ({error}); "
                    "install the same commit on all machines and restart the workers"
                ) from None
            self._seconds = (
                seconds / len(group) if math.isinf(self._seconds) else (self._seconds + seconds / len(group)) / 2
            )
            yield group, found

    async def _look(self) -> None:
        while time.monotonic() - self._looked > LOOK_SECONDS or not self._threads:
            try:
                self._threads = sum((await self._client.nthreads()).values())
            except (OSError, RuntimeError, ValueError):
                raise SonorantError(self._gone()) from None
            self._looked = time.monotonic()
            if self._threads:
                self._had_workers = self._looked
            elif self._looked - self._had_workers > WORKER_SECONDS:
                raise SonorantError(
                    f"the scheduler at {self._address} has had no worker for {WORKER_SECONDS:g} s; "
                    f"start one: sonorant worker {self._address}"
                )
            elif any(task.done() for task in self._groups):
                return
            else:
                await asyncio.sleep(0.2)

    def _gone(self) -> str:
        return (
            f"{self._label}: the scheduler at {self._address} is gone; restart it and its workers and repeat the "
            "command, or unset SONORANT_SCHEDULER; cached results are not computed again"
        )

    def _told(self, killers: list[int]) -> str:
        place, more = killers[0], f" (and so did {len(killers) - 1} more)" if len(killers) > 1 else ""
        item = self._items[place]
        name = getattr(item, "id", None) or getattr(getattr(item, "utterance", None), "id", None)
        return (
            f"{self._label}: {self._unit} {place + 1} of {len(self._items)}{f' ({name})' if name else ''} killed every "
            f"worker that ran it{more}, the last one at {self._last_worker}; check that worker's output and memory"
        )
