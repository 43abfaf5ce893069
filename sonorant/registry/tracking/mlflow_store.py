"""The MLflow store at MLFLOW_TRACKING_URI, by default an sqlite file."""

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

from sonorant.errors import SonorantError, install
from sonorant.files import atomic_file, locked

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

log = logging.getLogger(__name__)
DEFAULT_DATABASE = Path("runs/mlflow.db")
EXPERIMENT = "sonorant"
# Read by mlflow on import or per request; the user's values win.
MLFLOW_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # the follower checks before resending
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "PGCONNECT_TIMEOUT": "5",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "GIT_PYTHON_REFRESH": "quiet",
}
ARTIFACTS = "mlartifacts"
PLACES = {
    "experiments": "artifact_location",
    "runs": "artifact_uri",
    "logged_models": "artifact_location",
    "model_versions": "storage_location",
}


def place_of_artifacts(database: Path) -> str:
    """Return the URI of an sqlite store's artifact folder, which clients read without a server."""
    return (database.parent / ARTIFACTS).as_uri()


def follow_move(database: Path, former: str) -> None:
    """Rewrite artifact paths to the folder next to `database` after the project was moved or copied. Does nothing
    unless `former` was next to the database."""
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
    """MLflow is not installed, does not answer, or was changed by another client. A retry may succeed."""


@dataclass(frozen=True, kw_only=True)
class Store:
    client: MlflowClient
    uri: str
    """May contain credentials; print `shown(uri)` instead."""
    experiment: str


def store_uri() -> str:
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{DEFAULT_DATABASE.resolve()}"


def shown(text: object) -> str:
    """Return the first 300 characters of `text` on one line, without credentials in URLs."""
    one_line = " ".join(str(text).split())
    # Database passwords may contain / and @; in web URLs an @ after the host is not part of one.
    return re.sub(r"\b(https?://)[^/\s]*@|\b(?!https?://)(\w+://)\S*@", r"\1\2", one_line)[:300]


def models_page(uri: str, *version: str | int) -> str:
    """Return the address of the models, or of a name and version, on the server at `uri`; empty for a database."""
    if not uri.startswith("http"):
        return ""
    path = "/".join(["models", "/versions/".join(map(str, version))]).rstrip("/")
    return f"{shown(uri).rstrip('/')}/#/{path}?workflowType=machine_learning"  # otherwise MLflow's pages of LLMs open


def open_store(create: bool = True) -> Store:
    """Connect to the store and create the experiment if missing. Raises TrackingUnavailable if mlflow is not installed
    or the store does not answer, SonorantError if an sqlite file to read is missing."""
    uri = store_uri()
    for name, value in MLFLOW_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic", "mlflow.store.db.utils"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # warns at each attempt; logged once here
    database = Path(uri.removeprefix("sqlite:///")).resolve() if uri.startswith("sqlite:///") else None
    if database and not create and not database.exists():
        raise SonorantError(f"{database}: no such file; register a voice first, or set MLFLOW_TRACKING_URI")
    try:
        from mlflow.tracking import MlflowClient

        if not uri.startswith("http"):
            from mlflow.store.db import utils

            utils.MAX_RETRY_COUNT = 1  # instead of 100 s
        logging.getLogger("mlflow").setLevel(logging.WARNING)  # importing mlflow sets it to INFO
        # The first client of a new sqlite file creates its tables; two simultaneous ones would collide.
        with locked(database.with_name(f"{database.name}.lock")) if database else nullcontext():
            if database and not database.exists():
                _make_tables(database)
            client = MlflowClient(tracking_uri=uri, registry_uri=uri)
            return Store(client=client, uri=uri, experiment=_experiment(client, database))
    except ModuleNotFoundError as error:
        raise TrackingUnavailable(f"{error.name} is not installed; run: {install('pipeline')}") from None
    except SonorantError:
        raise
    except Exception as error:
        raise TrackingUnavailable(
            f"MLflow at {shown(uri)} does not answer ({shown(error)}); check the server and MLFLOW_TRACKING_URI"
        ) from error


@contextmanager
def answering(what: str, create: bool = False) -> Iterator[Store]:
    """Open the store; error messages name `what`. Raises the errors of `open_store`, and SonorantError if MLflow
    refuses a request."""
    store = open_store(create)
    from mlflow.exceptions import MlflowException

    try:
        yield store
    except MlflowException as error:
        temporary = error.error_code in ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED")
        kind = TrackingUnavailable if temporary else SonorantError
        raise kind(f"{what}: MLflow at {shown(store.uri)}: {shown(error)}") from error


@contextmanager
def unless_away(what: str) -> Iterator[None]:
    """Log errors of the store instead of raising them."""
    try:
        yield
    except Exception as error:
        log.warning("%s: not completely recorded in MLflow: %s", what, shown(error))


def _make_tables(database: Path) -> None:
    """Create a new sqlite store atomically, because MLflow cannot repair an incomplete one."""
    from mlflow.tracking import MlflowClient

    with atomic_file(database) as unfinished:
        MlflowClient(tracking_uri=f"sqlite:///{unfinished}").get_experiment_by_name(EXPERIMENT)


def _experiment(client: MlflowClient, database: Path | None) -> str:
    location = place_of_artifacts(database) if database else None
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        try:
            return str(client.create_experiment(EXPERIMENT, artifact_location=location))
        except Exception:  # another process made it; a missing store raises again below
            experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None or experiment.lifecycle_stage != "active":
        raise SonorantError(
            f"the MLflow experiment '{EXPERIMENT}' was deleted; restore it with mlflow experiments restore"
        )
    if database:
        follow_move(database, str(experiment.artifact_location))
    return str(experiment.experiment_id)
