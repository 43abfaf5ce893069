"""Count usable cores, and apply a function to many items in several new processes on this machine or a cluster."""

import multiprocessing
import os
import resource
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, TypeVar

from sonorant.errors import SonorantError
from sonorant.plugins import added, load

Item = TypeVar("Item")
Result = TypeVar("Result")

SCHEDULER = "SONORANT_SCHEDULER"
"""Environment variable with the address of a cluster; without it, work is done in processes on this machine."""
_AHEAD = 1024
"""Maximum number of items submitted to a pool before the first of them is done."""


def scheduler_address() -> str | None:
    return os.environ.get(SCHEDULER, "").strip() or None


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def allow_open_files(most: int = 16384) -> None:
    """Allow this process and its children to have `most` files open, or as many as the hard limit permits."""
    now, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if highest == resource.RLIM_INFINITY else min(most, highest)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, highest))


def spread(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    label: str,
    unit: str,
    processes: int | None = None,
    prepare: Callable[..., None] | None = None,
    arguments: tuple[Any, ...] = (),
    reads: Sequence[Path] = (),
    keep: Callable[[int, Result], None] | None = None,
) -> list[Result]:
    """Apply `function` to each item and return the results in order, with a progress bar on stderr.

    Processes are spawned, not forked, because a fork would copy the locks of thread pools that torch and ONNX Runtime
    have started. Each process calls `prepare(*arguments)`, which sets only the state of its own module, once before its
    first item. `keep`, if given, is called with each index and result once available, in any order; nothing is returned
    then. `processes`: None means one per usable core, or the workers of the cluster in SONORANT_SCHEDULER; a number
    means that many on this machine. `reads`: files that a remote worker checks, to ensure that it has the same folders.
    Raises SonorantError if a process dies (in a cluster, if every worker of an item dies), and any error that
    `function` raises.
    """
    if processes is None and (address := scheduler_address()):
        executor = _executor(address)
        return executor(
            address,
            function,
            items,
            label=label,
            unit=unit,
            prepare=prepare,
            arguments=arguments,
            reads=reads,
            keep=keep,
        )
    from tqdm import tqdm  # imported here, because the doctor counts cores on machines with few packages installed

    workers = max(1, min(processes or usable_cores(), len(items)))
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(prepare, arguments))
    try:
        with tqdm(total=len(items), desc=label, unit=unit, file=sys.stderr) as progress:
            results = []
            for place, result in enumerate(_in_order(pool, function, items)):
                if keep:
                    keep(place, result)
                else:
                    results.append(result)
                progress.update()
        return results
    except BrokenProcessPool:
        raise SonorantError(
            f"{label}: a process died; see its message above, or use fewer processes if there is none"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _executor(address: str) -> Callable[..., list[Any]]:
    executors = added("executors")
    scheme, mark, _ = address.partition("://")
    if not mark or scheme not in executors:
        known = (
            " or ".join(f"{name}://10.0.0.1:8786" for name in executors)
            or "none, because no plug-in provides an executor"
        )
        raise SonorantError(f"{SCHEDULER}: '{address}' is not a scheduler address; use the form {known}")
    return load(executors[scheme])


def _in_order(pool: ProcessPoolExecutor, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield results as `pool.map` does, which would create a future for each item at the start; for a corpus, those
    would take most of the memory."""
    waiting: deque[Future[Result]] = deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) == _AHEAD:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _begin(prepare: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if prepare:
        prepare(*arguments)


def _end_with_parent() -> None:
    """Exit when the parent is killed; otherwise this process would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
