"""A store of files that was moved or copied with its project. Knows nothing of what the runs in it hold.

The MLflow store: the one that MLFLOW_TRACKING_URI names, else an sqlite file in the project. Knows nothing of
stages."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sonorant.errors import SonorantError

ARTIFACTS = "mlartifacts"
"""Folder of the artifacts, beside the database."""
PLACES = {
    "experiments": "artifact_location",
    "runs": "artifact_uri",
    "logged_models": "artifact_location",
    "model_versions": "storage_location",
}
"""Columns in which MLflow keeps absolute places of artifacts."""


def place_of_artifacts(database: Path) -> str:
    """Where the artifacts of an sqlite store are kept, as a URI: a plain folder, readable with and without a server."""
    return (database.parent / ARTIFACTS).as_uri()


def follow_move(database: Path, former: str) -> None:
    """Let the store's runs and models have their artifacts beside `database`, if `former` was beside it where it was
    before.

    Otherwise new artifacts would go to the place where the project once was, or into the project it is a copy of.
    """
    now = place_of_artifacts(database)
    if former == now or not former.endswith(f"/{ARTIFACTS}"):
        return
    with closing(sqlite3.connect(database)) as connection, connection:
        for table, column in PLACES.items():
            connection.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?",
                (now, len(former) + 1, len(former), former),
            )


if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient


DEFAULT_DATABASE = Path("runs/mlflow.db")
EXPERIMENT = "sonorant"


# Read by mlflow when it is imported or at each request; a value the user set stays.
MLFLOW_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # what mlflow itself sends again may arrive twice; the follower asks first
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "DO_NOT_TRACK": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}


class TrackingUnavailable(SonorantError):
    """MLflow is not installed or its store does not answer. The same call may succeed later."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """An MLflow store that has answered."""

    client: MlflowClient
    uri: str
    """Address with credentials, if it has any: show `shown(uri)` to people."""
    experiment: str
    """Id of the experiment that holds the project's runs."""


def store_uri() -> str:
    """Address of the store; the default is absolute, so that it means the same file from any folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{DEFAULT_DATABASE.resolve()}"


def shown(text: object) -> str:
    """`text` on one line and without the user and password of any address in it."""
    return re.sub(r"(\w+://)[^/@\s]+@", r"\1", " ".join(str(text).split()))


def open_store() -> Store:
    """Connect, make the experiment where it is absent, and return the store.

    Raises TrackingUnavailable with one line if mlflow is not installed or the store does not answer within its bounded
    retries.
    """
    uri = store_uri()
    for name, value in MLFLOW_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic", "mlflow.store.db.utils"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # warns at each attempt; we say it once
    database = _database(uri)
    try:
        from mlflow.tracking import MlflowClient

        logging.getLogger("mlflow").setLevel(logging.WARNING)  # importing mlflow sets it to INFO
        # The first client of a new sqlite file makes its tables; two at once would collide.
        with locked(database.with_name(f"{database.name}.lock")) if database else nullcontext():
            client = MlflowClient(tracking_uri=uri, registry_uri=uri)
            return Store(client=client, uri=uri, experiment=_experiment(client, database))
    except ModuleNotFoundError as error:
        raise TrackingUnavailable(
            f"{error.name} is not installed: install the extra 'pipeline' to keep runs in MLflow"
        ) from None
    except SonorantError:
        raise
    except Exception as error:
        raise TrackingUnavailable(f"MLflow at {shown(uri)} does not answer: {shown(error)[:300]}") from error


@contextmanager
def answering(what: str) -> Iterator[Store]:
    """The store, for `what`: an answer that does not come becomes TrackingUnavailable, a refusal a SonorantError of one
    line."""
    store = open_store()
    from mlflow.exceptions import MlflowException

    try:
        yield store
    except MlflowException as error:
        temporary = error.error_code in ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED")
        kind = TrackingUnavailable if temporary else SonorantError
        raise kind(f"{what}: MLflow at {shown(store.uri)}: {shown(error)[:300]}") from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between processes of this machine; it ends with the process, whatever ends it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _database(uri: str) -> Path | None:
    return Path(uri.removeprefix("sqlite:///")).resolve() if uri.startswith("sqlite:///") else None


def _experiment(client: MlflowClient, database: Path | None) -> str:
    location = place_of_artifacts(database) if database else None
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        try:
            return str(client.create_experiment(EXPERIMENT, artifact_location=location))
        except Exception:  # another process made it in between, or the store is gone: then this raises again
            experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None or experiment.lifecycle_stage != "active":
        raise SonorantError(
            f"the MLflow experiment '{EXPERIMENT}' was deleted: restore it (mlflow experiments restore)"
        )
    if database:
        follow_move(database, str(experiment.artifact_location))
    return str(experiment.experiment_id)
