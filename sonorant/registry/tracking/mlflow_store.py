"""The MLflow store: the one that MLFLOW_TRACKING_URI names, else an sqlite file in the project."""

from __future__ import annotations

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
from sonorant.files import locked

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

DEFAULT_DATABASE = Path("runs/mlflow.db")
EXPERIMENT = "sonorant"
# Read by mlflow when it is imported or at each request; a value the user set stays.
MLFLOW_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a request that mlflow repeats may arrive twice; the follower asks first
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "DO_NOT_TRACK": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
ARTIFACTS = "mlartifacts"
"""Folder of the artifacts, beside the database."""
PLACES = {
    "experiments": "artifact_location",
    "runs": "artifact_uri",
    "logged_models": "artifact_location",
    "model_versions": "storage_location",
}
"""Columns in which MLflow keeps absolute paths of artifacts."""


def place_of_artifacts(database: Path) -> str:
    """URI of an sqlite store's artifacts: a plain folder, readable with and without a server."""
    return (database.parent / ARTIFACTS).as_uri()


def follow_move(database: Path, former: str) -> None:
    """After the project was moved or copied, point the store's artifacts at the folder beside `database`.

    Otherwise new artifacts would go to the project's former place, or into the project it was copied from. Does nothing
    unless `former` was beside the database too.
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


class TrackingUnavailable(SonorantError):
    """MLflow is not installed, its store does not answer, or what it holds has just changed. The same call may succeed
    later."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """An MLflow store that has answered."""

    client: MlflowClient
    uri: str
    """Address, with credentials if it has any: show people `shown(uri)`."""
    experiment: str
    """Id of the experiment that holds the project's runs."""


def store_uri() -> str:
    """Address of the store; the default is absolute, so that it names the same file from any folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{DEFAULT_DATABASE.resolve()}"


def shown(text: object) -> str:
    """`text` on one line, without the user and password of any address in it."""
    one_line = " ".join(str(text).split())
    # A database's password may hold / and @ as they are; in a web address an @ behind the host is none of a password's.
    return re.sub(r"\b(https?://)[^/\s]*@|\b(?!https?://)(\w+://)\S*@", r"\1\2", one_line)


def open_store() -> Store:
    """Connect, make the experiment if it is absent, and return the store.

    Raises TrackingUnavailable if mlflow is not installed or the store does not answer within its bounded retries.
    """
    uri = store_uri()
    for name, value in MLFLOW_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic", "mlflow.store.db.utils"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # warns at each attempt; we say it once
    database = Path(uri.removeprefix("sqlite:///")).resolve() if uri.startswith("sqlite:///") else None
    try:
        from mlflow.tracking import MlflowClient

        logging.getLogger("mlflow").setLevel(logging.WARNING)  # importing mlflow sets it to INFO
        # The first client of a new sqlite file makes its tables; two at the same time would collide.
        with locked(database.with_name(f"{database.name}.lock")) if database else nullcontext():
            if database and not database.exists():
                _make_tables(database)
            client = MlflowClient(tracking_uri=uri, registry_uri=uri)
            return Store(client=client, uri=uri, experiment=_experiment(client, database))
    except ModuleNotFoundError as error:
        remedy = "install the extra 'pipeline' to keep runs in MLflow"
        raise TrackingUnavailable(f"{error.name} is not installed: {remedy}") from None
    except SonorantError:
        raise
    except Exception as error:
        raise TrackingUnavailable(f"MLflow at {shown(uri)} does not answer: {shown(error)[:300]}") from error


@contextmanager
def answering(what: str) -> Iterator[Store]:
    """The store. Errors name `what`: TrackingUnavailable for no answer, a SonorantError of one line for a refusal."""
    store = open_store()
    from mlflow.exceptions import MlflowException

    try:
        yield store
    except MlflowException as error:
        temporary = error.error_code in ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED")
        kind = TrackingUnavailable if temporary else SonorantError
        raise kind(f"{what}: MLflow at {shown(store.uri)}: {shown(error)[:300]}") from error


def _make_tables(database: Path) -> None:
    """Make a new sqlite store whole or not at all: MLflow cannot go on where a process that ended left it half made."""
    from mlflow.tracking import MlflowClient

    unfinished = database.with_name(f".{database.name}.unfinished")
    unfinished.unlink(missing_ok=True)  # of a process that was killed, as we hold the lock
    MlflowClient(tracking_uri=f"sqlite:///{unfinished}").get_experiment_by_name(EXPERIMENT)
    unfinished.rename(database)


def _experiment(client: MlflowClient, database: Path | None) -> str:
    location = place_of_artifacts(database) if database else None
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        try:
            return str(client.create_experiment(EXPERIMENT, artifact_location=location))
        except Exception:  # another process has just made it; if the store is gone, the next line raises again
            experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None or experiment.lifecycle_stage != "active":
        raise SonorantError(f"the MLflow experiment '{EXPERIMENT}' was deleted: mlflow experiments restore")
    if database:
        follow_move(database, str(experiment.artifact_location))
    return str(experiment.experiment_id)
