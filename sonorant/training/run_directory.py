"""The folder of a training; the one place that names its files.

`job.json` says what is trained here. `metrics.jsonl` holds the run's figures, and feeds MLflow and plots.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from sonorant.errors import SonorantError
from sonorant.files import locked, read_json, take, write_json

PATIENCE = 60.0
"""Seconds that a starting trainer waits for one that is ending, which may have to finish its step and save."""


class RunDirectory:
    """Paths, lock, status and metrics of one training."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.samples = path / "samples"
        self.metrics = path / "metrics.jsonl"
        self.job = path / "job.json"
        self._lock: IO[str] | None = None

    def sub_batches(self, rank: int) -> Path:
        """File of how much a rank whose memory ran out takes at once; on that rank's machine."""
        return self.path / "sub_batches" / f"rank-{rank}.json"

    def provenance(self) -> dict[str, Any]:
        """The provenance in `job.json`, from when this training last began or ended; empty without one."""
        return dict(read_json(self.job).get("provenance", {})) if self.job.exists() else {}

    def precision(self) -> str | None:
        """What `keep_precision` has kept; None if nothing was."""
        path = self.path / "precision.json"
        return str(read_json(path)["precision"]) if path.exists() else None

    def keep_precision(self, precision: str) -> None:
        """Note the precision that was found, for a training that is killed before its first checkpoint."""
        write_json(self.path / "precision.json", {"precision": precision})

    def lock(self, patience: float | None = None) -> None:
        """Become the only trainer here; wait up to `patience` seconds for another to end. Raises SonorantError."""
        lock = self._open_lock()
        deadline = time.monotonic() + (PATIENCE if patience is None else patience)
        while not take(lock):
            if time.monotonic() > deadline:
                raise SonorantError(
                    f"{self.path}: another trainer (process {_owner(lock)}) is at work here; wait for it or stop it"
                )
            time.sleep(0.5)
        self._lock = lock
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()

    def wait_until_free(self, say: Callable[[str], None]) -> None:
        """Make the folder and return once no trainer is at work in it.

        Such a trainer does the caller's work, for another execution: its result can then be used.
        """
        with self._open_lock() as lock:
            if not take(lock):
                say(f"waiting for the trainer that is at work in {self.path} (process {_owner(lock)})")
                fcntl.flock(lock, fcntl.LOCK_EX)

    @contextlib.contextmanager
    def launching(self, say: Callable[[str], None]) -> Iterator[None]:
        """Be the only one that starts trainers here, once no trainer is at work; ends with the process.

        Between a launch and the moment in which a trainer has `lock` lie minutes on several nodes."""
        self._open_lock().close()  # makes the folder
        told = f"waiting for another execution that trains in {self.path}"
        with locked(self.path / "launch.lock", lambda: say(told)):
            self.wait_until_free(say)
            yield

    def at_work(self) -> bool:
        """Whether a trainer is at work here now; to ask creates nothing."""
        try:
            with (self.path / "lock").open(encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            pass
        return False

    def _open_lock(self) -> IO[str]:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            return (self.path / "lock").open("a+", encoding="utf-8")
        except OSError as error:
            remedy = "choose another folder with --runs"
            raise SonorantError(f"{self.path}: cannot be written to ({error.strerror}); {remedy}") from None

    def write_status(self, state: str, step: int, message: str = "") -> None:
        """`state` is running, stopped (may be resumed), finished or failed; `message` says why it ended, if not at its
        last step."""
        write_json(self.path / "status.json", {"state": state, "step": step, "message": message, "time": time.time()})

    def fail(self, message: str) -> None:
        """Leave `message` as the cause of the end, at the last known step; if the disk refuses even this, go on."""
        with contextlib.suppress(OSError, SonorantError):
            self.write_status("failed", self.status()["step"], message)

    def status(self) -> dict[str, Any]:
        """The last status, or state `absent`."""
        path = self.path / "status.json"
        return read_json(path) if path.exists() else {"state": "absent", "step": 0, "message": ""}


class MetricsLog:
    """Appends rows to `metrics.jsonl`; figures of a step that are there already, as after resuming, are left out."""

    def __init__(self, path: Path, say: Callable[[str], None] = print) -> None:
        self.path = path
        _drop_torn_line(path)
        self.logged = {(row["step"], name) for row in read_metrics(path, say) for name in row["metrics"]}
        self._file = path.open("a", encoding="utf-8")

    def write(self, step: int, metrics: dict[str, float]) -> None:
        """Append the metrics of `step` that are not there yet."""
        new = {name: value for name, value in metrics.items() if (step, name) not in self.logged}
        if new:
            self._file.write(json.dumps({"step": step, "time": time.time(), "metrics": new}) + "\n")
            self._file.flush()
        # A step is written once in a process: only what was there before may come again, and that once.
        self.logged.difference_update((step, name) for name in metrics)

    def flush_to_disk(self) -> None:
        """Make the rows survive a power cut before a later checkpoint does."""
        os.fsync(self._file.fileno())


def _owner(lock: IO[str]) -> str:
    lock.seek(0)
    return lock.read().strip() or "unknown"


def read_metrics(path: Path, say: Callable[[str], None] = lambda message: None) -> list[dict[str, Any]]:
    """All whole rows of a `metrics.jsonl`, none if it is absent; unreadable rows are named and left out."""
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            row = json.loads(line)
            rows.append({"step": int(row["step"]), "time": float(row["time"]), "metrics": dict(row["metrics"])})
        except (ValueError, KeyError, TypeError):
            say(f"{path}:{number}: not a row of metrics, left out")
    return rows


def _drop_torn_line(path: Path) -> None:
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
