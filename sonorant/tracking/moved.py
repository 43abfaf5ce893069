"""A store of files that was moved or copied with its project. Knows nothing of what the runs in it hold."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

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
    """Let the store's runs and models have their artifacts beside `database`, if `former` was beside it where it was before.

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
