"""The folder a training lives in until it is done; the one place that names what is inside.

`job.json` says what is trained here. `metrics.jsonl` is the truth about the run's figures, and feeds MLflow and plots.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from sonorant.errors import SonorantError
from sonorant.files import read_json, write_json

PATIENCE = 60.0
"""Seconds for which a trainer that starts waits for one that is ending: it may have to finish its step and save."""


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
        """What a rank whose memory ran out takes at once; on the rank's own machine."""
        return self.path / "sub_batches" / f"rank-{rank}.json"

    def provenance(self) -> dict[str, Any]:
        """What `job.json` says of where this training came from when it was last begun or ended; empty without one."""
        return dict(read_json(self.job).get("provenance", {})) if self.job.exists() else {}

    def lock(self, patience: float | None = None) -> None:
        """Become the only trainer here, waiting up to `patience` seconds (PATIENCE) for one that is just ending. Raises
        SonorantError."""
        lock = self._open_lock()
        deadline = time.monotonic() + (PATIENCE if patience is None else patience)
        while not _taken(lock):
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

        One that is does what the caller is about to do, for another execution: afterwards its result is there to be
        used.
        """
        with self._open_lock() as lock:
            if not _taken(lock):
                say(f"waiting for the trainer that is at work in {self.path} (process {_owner(lock)})")
                fcntl.flock(lock, fcntl.LOCK_EX)

    def _open_lock(self) -> IO[str]:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            return (self.path / "lock").open("a+", encoding="utf-8")
        except OSError as error:
            raise SonorantError(
                f"{self.path}: cannot be written to ({error.strerror}); choose another folder with --runs"
            ) from None

    def write_status(self, state: str, step: int, message: str = "") -> None:
        """`state` is running, stopped (may be resumed), finished or failed."""
        write_json(self.path / "status.json", {"state": state, "step": step, "message": message, "time": time.time()})

    def fail(self, message: str) -> None:
        """Leave `message` as the cause of the end, at the last step that was written; a disk that refuses even this is
        not the cause."""
        with contextlib.suppress(OSError, SonorantError):
            self.write_status("failed", self.status()["step"], message)

    def status(self) -> dict[str, Any]:
        """The last status, or state `absent`."""
        path = self.path / "status.json"
        return read_json(path) if path.exists() else {"state": "absent", "step": 0, "message": ""}


class MetricsLog:
    """Appends rows to `metrics.jsonl`. A row of a step that is there already is not written again, so a resumed run
    repeats none."""

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
            self.logged.update((step, name) for name in new)

    def flush_to_disk(self) -> None:
        """Make the rows survive a power cut, before a checkpoint does that stands after them."""
        os.fsync(self._file.fileno())


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _owner(lock: IO[str]) -> str:
    lock.seek(0)
    return lock.read().strip() or "unknown"


def read_metrics(path: Path, say: Callable[[str], None] = lambda message: None) -> list[dict[str, Any]]:
    """All whole rows of a `metrics.jsonl`; none where the file is absent. Rows that cannot be read are left out and
    said by name."""
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
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            with path.open("r+b") as file:
                file.truncate(len(whole))
