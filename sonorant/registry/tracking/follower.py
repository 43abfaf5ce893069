"""Send a growing run directory to MLflow.

`tracking.json` records what was sent. A batch without a response is sent again, which is safe because MLflow's
databases store equal points once.
"""

import dataclasses
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.files import locked, read_json, write_json
from sonorant.registry.tracking.mlflow_run import RunSpec, close_run, open_run
from sonorant.registry.tracking.mlflow_store import Store, TrackingUnavailable, open_store, shown
from sonorant.registry.tracking.points import Point, Tail, append_load, draw_sample

log = logging.getLogger(__name__)
STATE = "tracking.json"
LOCK = "tracking.lock"
END = "tracking_end.json"
"""File with the final status, written by the stage because its thread may still be waiting."""
BATCH = 500
"""Number of points per request; MLflow's limit is 1000."""


@dataclass(kw_only=True)
class Sent:
    run_id: str | None = None
    steps: dict[str, int] = field(default_factory=dict)
    """Last step sent for each curve."""
    samples: list[str] = field(default_factory=list)


class Delivery:
    """Sends what MLflow lacks of a run directory, one process at a time. `spec` describes a new run and is stored
    there. Raises SonorantError if it is neither given nor stored."""

    def __init__(self, directory: Path, spec: RunSpec | None = None) -> None:
        self.directory = directory
        self.files: list[tuple[Path, str]] = []
        self.arrived = 0
        """Number of requests that MLflow accepted."""
        self._tails = [Tail(directory / "metrics.jsonl"), Tail(directory / "system.jsonl")]
        self._store: Store | None = None
        with locked(directory / LOCK):
            saved: dict[str, Any] = read_json(directory / STATE) if (directory / STATE).exists() else {}
            if saved:
                remembered = RunSpec(**saved["spec"])
                spec = dataclasses.replace(spec, key=remembered.key) if spec else remembered
            if spec is None:
                raise SonorantError(f"{directory} has no {STATE}; give runs/<stage>/<fingerprint>")
            self.spec = spec
            self.sent = Sent(**saved.get("sent", {}))
            self._save()

    def send(self) -> None:
        """Send everything not yet sent. Raises TrackingUnavailable or mlflow's errors; the next call resumes."""
        try:
            with locked(self.directory / LOCK):
                self.sent = Sent(**read_json(self.directory / STATE)["sent"])  # another process may have sent since
                store, run_id = self._open()
                client = store.client
                self._send_points(client, run_id)
                self._send_samples(client, run_id)
                while self.files:
                    path, folder = self.files[0]
                    (client.log_artifacts if path.is_dir() else client.log_artifact)(run_id, str(path), folder or None)
                    del self.files[0]
                    self.arrived += 1
        except Exception:
            for tail in self._tails:
                tail.restart()
            raise

    def close(self) -> None:
        """Set the run's final status if the stage recorded one; otherwise leave the run open."""
        if (self.directory / END).exists():
            close_run(*self._open(), read_json(self.directory / END)["status"])

    def _open(self) -> tuple[Store, str]:
        if self._store is None:
            store = open_store()
            run_id = open_run(store, self.spec, self.sent.run_id)
            if run_id != self.sent.run_id:
                self.sent = Sent(run_id=run_id)
                self._save()
            self._store = store
        assert self.sent.run_id is not None
        return self._store, self.sent.run_id

    def _send_points(self, client: Any, run_id: str) -> None:
        from mlflow.entities import Metric

        points = self._new_points()
        for start in range(0, len(points), BATCH):
            batch = points[start : start + BATCH]
            client.log_batch(run_id, metrics=[Metric(p.key, p.value, round(p.time * 1000), p.step) for p in batch])
            self.sent.steps |= {point.key: point.step for point in batch}
            self._save()
            self.arrived += 1

    def _new_points(self) -> list[Point]:
        newest = dict(self.sent.steps)
        points = []
        for point in chain.from_iterable(tail.read() for tail in self._tails):
            if point.step > newest.get(point.key, -1):
                newest[point.key] = point.step
                points.append(point)
        return points

    def _send_samples(self, client: Any, run_id: str) -> None:
        for sample in sorted((self.directory / "samples").glob("step-*")):
            if sample.name in self.sent.samples or not sample.is_dir():
                continue
            with tempfile.TemporaryDirectory() as folder:
                draw_sample(sample, Path(folder))
                for sound in sample.glob("*.wav"):
                    shutil.copy(sound, folder)
                client.log_artifacts(run_id, folder, f"samples/{sample.name}")
            self.sent.samples.append(sample.name)
            self._save()
            self.arrived += 1

    def _save(self) -> None:
        state = {"spec": dataclasses.asdict(self.spec), "sent": dataclasses.asdict(self.sent)}
        write_json(self.directory / STATE, state)


class Follower(threading.Thread):
    """Sends a run directory and the machine load every `interval` seconds until `finish`; never raises. While the store
    is unavailable, it retries less often and logs this once."""

    def __init__(self, directory: Path, spec: RunSpec, interval: float = 5.0) -> None:
        super().__init__(name="mlflow-follower", daemon=True)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / END).unlink(missing_ok=True)
        self.delivery = Delivery(directory, spec)
        self.behind = False
        self._interval = interval
        self._done = threading.Event()

    def run(self) -> None:
        wait, load_due = 0.0, 0.0
        while not self._done.wait(wait):
            if time.monotonic() >= load_due:
                with suppress(OSError):  # the trainer reports a full disk
                    append_load(self.delivery.directory / "system.jsonl")
                load_due = time.monotonic() + 2 * self._interval
            longer = min(max(2 * wait, self._interval), 12 * self._interval)
            wait = self._interval if self._quietly(self.delivery.send) else longer
        if self._quietly(self.delivery.send):
            self._quietly(self.delivery.close)

    def finish(self, status: str, patience: float) -> bool:
        """Send everything not yet sent and close the run. Return False after `patience` seconds without progress."""
        with suppress(OSError):
            write_json(self.delivery.directory / END, {"status": status})
        self._done.set()
        arrived = -1
        while self.is_alive() and self.delivery.arrived > arrived:
            arrived = self.delivery.arrived
            self.join(patience)
        return not self.is_alive() and not self.behind

    def _quietly(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except Exception as error:
            if not self.behind:
                log.warning("cannot send to MLflow yet; the stage continues: %s", shown(error))
            self.behind = True
            return False
        if self.behind:
            log.warning("everything was sent to MLflow")
        self.behind = False
        return True


def tracked_runs(folders: Iterable[Path]) -> list[Path]:
    """Return the tracked run directories among and inside the folders. Raises SonorantError naming a folder without
    any."""
    found = []
    for folder in folders:
        below = sorted(path.parent for path in folder.rglob(STATE))
        if not below:
            raise SonorantError(f"{folder} contains no run with a {STATE}; give runs/<stage>/<fingerprint>")
        found += below
    return found


def sync(directory: Path) -> str:
    """Send what MLflow lacks of a run directory, and return the run id. Raises SonorantError if the directory was never
    tracked, TrackingUnavailable if the store does not answer."""
    delivery = Delivery(directory)
    try:
        delivery.send()
        delivery.close()
    except SonorantError:
        raise
    except Exception as error:
        raise TrackingUnavailable(f"{directory}: not completely sent to MLflow ({shown(error)}); try again") from error
    return str(delivery.sent.run_id)
