"""Pipeline stages and actions, one module each; run with `python -m tasks.<name>`."""

import gc
import logging
import os
import sys
from types import FrameType, TracebackType

if not sys.stderr.isatty():  # a line at the end of a progress bar, and every ten minutes; tqdm reads this on import
    for name, seconds in ("DELAY", "1e-9"), ("MININTERVAL", "600"), ("MAXINTERVAL", "600"):
        os.environ.setdefault(f"TQDM_{name}", seconds)

# Read when torch is loaded. Threads that spin while waiting take cores from other threads, and on a busy machine from
# each other: two of them were measured to use forty times the CPU time.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "0")


_interrupted = False


def interrupt(number: int, frame: FrameType | None) -> None:
    """Handle SIGINT and SIGTERM: raise KeyboardInterrupt. torch turns it into an error of its own when it comes during
    an export, and logs that."""
    global _interrupted
    _interrupted = True
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch"):
            logging.getLogger(name).disabled = True
    raise KeyboardInterrupt


def stopped_in_one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    from sonorant.processes import STOPPED, UNDER  # interrupted, too

    if not _interrupted and not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    elif UNDER not in os.environ:
        print(STOPPED, file=sys.stderr, flush=True)
    gc.freeze()  # collecting at exit takes seconds


if any(word.startswith(("flows.", "tasks.")) for word in sys.orig_argv[1:3]):  # while the program's imports run
    sys.excepthook = stopped_in_one_line
