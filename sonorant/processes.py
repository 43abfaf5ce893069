"""Count usable cores, and apply a function to many items in several new processes on this machine or a cluster."""

import logging
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from sonorant.errors import SonorantError
from sonorant.plugins import added, load

Item = TypeVar("Item")
Result = TypeVar("Result")

SCHEDULER = "SONORANT_SCHEDULER"
"""Environment variable with the address of a cluster; without it, work is done in processes on this machine."""

_log = logging.getLogger(__name__)
STOPPED = "stopped; the same command goes on where it was"
UNDER = "SONORANT_COMMAND"
"""Environment variable of processes for which another command prints `STOPPED`."""
_CLEANUP = 5.0
"""Seconds for stopped processes to remove unfinished files."""
_AHEAD = 1024
"""Maximum number of items submitted to a pool before the first of them is done."""


def scheduler_address() -> str | None:
    return os.environ.get(SCHEDULER, "").strip() or None


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def at_most_cores(wanted: int | None, name: str) -> int | None:
    """Return `wanted`, or the number of usable cores with a warning if it is higher."""
    cores = usable_cores()
    if wanted is None or wanted <= cores:
        return wanted
    _log.warning("%s: %d instead of %d, one for each usable core", name, cores, wanted)
    return cores


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
    `function` raises. On Ctrl-C the processes end without finishing their items.
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

    workers = max(1, min(at_most_cores(processes, "processes") or usable_cores(), len(items)))
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
    except KeyboardInterrupt:
        _end(list(pool._processes.values()))
        raise
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
        with signals_blocked(signal.SIGINT, signal.SIGTERM):  # for the processes that this starts
            waiting.append(pool.submit(_guarded, function, item))
        if len(waiting) == _AHEAD:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _end(processes: list[Any]) -> None:
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + _CLEANUP
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        process.kill()


@contextmanager
def signals_blocked(*numbers: int) -> Iterator[None]:
    """Block signals, also in threads and processes started here."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_stoppable(
    command: Sequence[str], stop: Callable[[subprocess.Popen[bytes]], None], **settings: Any
) -> tuple[int, bool]:
    """Run `command`; on Ctrl-C, SIGTERM and SIGHUP call `stop` with its process. Return its exit status and whether
    `stop` was called. `settings`: of Popen, which must keep the terminal's signals away."""
    child: subprocess.Popen[bytes] | None = None
    told = False

    def pass_on(*_: object) -> None:
        nonlocal told
        told = True
        if child:
            with suppress(ProcessLookupError):
                stop(child)

    numbers = [one for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]
    former = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        child = subprocess.Popen(command, **settings)
        if told:  # before the child existed
            stop(child)
        return child.wait(), told
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _guarded(function: Callable[..., Result], *arguments: Any) -> Result:
    try:
        return function(*arguments)
    except SystemExit:  # SIGTERM; the pool would go on
        os._exit(1)


def _begin(prepare: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds, which removes unfinished files
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    if prepare:
        _guarded(prepare, *arguments)


def _end_with_parent() -> None:
    """Exit when the parent is killed; otherwise this process would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
