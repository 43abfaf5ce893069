"""The directory of a training run: `job.json`, `metrics.jsonl` (for MLflow and plots), status, checkpoints, samples."""

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
"""Seconds that a new trainer waits for a running one to exit."""


class RunDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.samples = path / "samples"
        self.metrics = path / "metrics.jsonl"
        self.job = path / "job.json"
        self._lock: IO[str] | None = None

    def sub_batches(self, rank: int) -> Path:
        """Return the local file that stores a rank's maximum sub-batch sizes after memory ran out."""
        return self.path / "sub_batches" / f"rank-{rank}.json"

    def provenance(self) -> dict[str, Any]:
        return dict(read_json(self.job).get("provenance", {})) if self.job.exists() else {}

    def lock(self) -> None:
        """Lock the run directory. Raises SonorantError if another trainer does not exit within `PATIENCE` seconds."""
        lock = self._open_lock()
        deadline = time.monotonic() + PATIENCE
        while not take(lock):
            if time.monotonic() > deadline:
                raise SonorantError(
                    f"{self.path}: another trainer (process {_owner(lock)}) is running here; wait for it or stop it"
                )
            time.sleep(0.5)
        self._lock = lock
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()

    def wait_until_free(self, say: Callable[[str], None]) -> None:
        """Wait for a running trainer, which may produce the requested result."""
        with self._open_lock() as lock:
            if not take(lock):
                say(f"waiting for the trainer that is running in {self.path} (process {_owner(lock)})")
                fcntl.flock(lock, fcntl.LOCK_EX)

    @contextlib.contextmanager
    def launching(self, say: Callable[[str], None]) -> Iterator[None]:
        """Wait for a running trainer, then hold the launch lock, because trainers lock only minutes after launch."""
        self._open_lock().close()
        told = f"waiting for another process that trains in {self.path}"
        with locked(self.path / "launch.lock", lambda: say(told)):
            self.wait_until_free(say)
            yield

    def at_work(self) -> bool:
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
            raise SonorantError(f"{self.path}: {error.strerror}; choose another folder with --runs") from None

    def write_status(self, state: str, step: int, message: str = "") -> None:
        """Write `status.json`; `state` is running, stopped (resumable), finished or failed."""
        write_json(self.path / "status.json", {"state": state, "step": step, "message": message, "time": time.time()})

    def fail(self, message: str) -> None:
        with contextlib.suppress(OSError, SonorantError):
            self.write_status("failed", self.status()["step"], message)

    def status(self) -> dict[str, Any]:
        path = self.path / "status.json"
        return read_json(path) if path.exists() else {"state": "absent", "step": 0, "message": ""}


class MetricsLog:
    """Appends to `metrics.jsonl`, skipping metrics already logged for a step (after resuming)."""

    def __init__(self, path: Path, say: Callable[[str], None] = print) -> None:
        self.path = path
        _drop_torn_line(path)
        self.logged = {(row["step"], name) for row in read_metrics(path, say) for name in row["metrics"]}
        self._file = path.open("a", encoding="utf-8")

    def write(self, step: int, metrics: dict[str, float]) -> None:
        new = {name: value for name, value in metrics.items() if (step, name) not in self.logged}
        if new:
            self._file.write(json.dumps({"step": step, "time": time.time(), "metrics": new}) + "\n")
            self._file.flush()
        # Each step is written once per process.
        self.logged.difference_update((step, name) for name in metrics)

    def flush_to_disk(self) -> None:
        """Call fsync before a checkpoint, which must not outlive its metrics."""
        os.fsync(self._file.fileno())


def _owner(lock: IO[str]) -> str:
    lock.seek(0)
    return lock.read().strip() or "unknown"


def read_metrics(path: Path, say: Callable[[str], None] = lambda message: None) -> list[dict[str, Any]]:
    """Return the rows of a `metrics.jsonl`; invalid ones are reported and skipped."""
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            row = json.loads(line)
            rows.append({"step": int(row["step"]), "time": float(row["time"]), "metrics": dict(row["metrics"])})
        except (ValueError, KeyError, TypeError):
            say(f"{path}:{number}: not a row of metrics; skipped")
    return rows


def _drop_torn_line(path: Path) -> None:
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
