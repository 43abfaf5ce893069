"""Back up and restore the platform: databases with pg_dump, objects of the S3 store with its API.

    python -m infra.platform.backup save backups/monday
    python -m infra.platform.backup restore backups/monday

Databases are saved first, so that the backup contains all objects that they refer to. A restore first checks the whole
backup, and also restores the secrets that MLflow's data requires. If libpq's and S3's variables are set, as in the
service `backup` of compose.yaml, they locate the stores; the default is the platform of `make serve STACK=full`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from infra.platform import buckets
from infra.platform.databases import as_superuser, make_database, put_in_place, remove_database
from infra.platform.env_file import OF_BACKUP, read_env, take_over, write_env
from infra.platform.native import Platform
from infra.platform.programs import postgres_program
from infra.platform.services import BUCKETS, DATABASES, OF_DATA, S3_CLIENT, SERVICES, filled
from sonorant.errors import SonorantError
from sonorant.files import atomic_folder, read_json, sha256_file, write_json
from tasks.stage import run

OWNERS = {name: role for role, names in DATABASES.items() for name in names}
RESTORED = {name: f"{name}_restored" for name in OWNERS}
"""Temporary name of each database during a restore."""
CONTENT = "content.json"
STORES = ("postgres", "s3")


def save(folder: Path, environment: Mapping[str, str], secrets: Mapping[str, str]) -> None:
    """Write a backup to the new `folder` atomically, readable by its owner only.

    Args:
        environment: libpq's and S3's variables.
        secrets: saved too; at least OF_DATA, because the data depends on them.

    Raises SonorantError if the folder exists, or a store does not respond.
    """
    if folder.exists():
        raise SonorantError(f"{folder} exists; give a new folder")
    with atomic_folder(folder) as new:
        new.chmod(0o700)
        for name in OWNERS:
            postgres("pg_dump", ["--format", "custom", "--file", str(new / f"{name}.dump"), name], environment)
        store = buckets.client(environment)
        for bucket in BUCKETS:
            with buckets.answering(f"bucket '{bucket}'"):
                for key, _ in buckets.objects(store, bucket):
                    file = inside(new / "objects" / bucket, key)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    with buckets.unless_gone():  # removed after it was listed
                        store.download_file(bucket, key, str(file))
        write_env(new / OF_BACKUP, secrets)
        write_json(new / CONTENT, content_of(new))


def content_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a backup except CONTENT, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / CONTENT)
    return {str(path.relative_to(folder)): sha256_file(path) for path in files}


def checked(folder: Path) -> Path:
    """Return `folder` if it is a complete backup. Raises SonorantError naming the first missing or changed file."""
    if not (folder / CONTENT).is_file():
        raise SonorantError(f"{folder} is not a backup: {CONTENT} is missing; give the folder of a backup")
    known, found = read_json(folder / CONTENT), content_of(folder)
    for name in sorted(known.keys() | found.keys()):
        if known.get(name) != found.get(name):
            raise SonorantError(f"{folder}: {name} is missing or changed, so nothing was restored; use another backup")
    return folder


def restore(folder: Path, environment: Mapping[str, str]) -> None:
    """Restore databases and objects, keeping objects that are not in the backup.

    Databases are restored under temporary names and replace the current ones together at the end, so a failed restore
    changes none, and tables added by an upgrade do not block it. Raises SonorantError if a store does not respond.
    """
    try:
        for name, new in RESTORED.items():
            restore_database(folder / f"{name}.dump", new, OWNERS[name], environment)
        restore_objects(folder, environment)
        with as_superuser(environment) as connection:
            put_in_place(connection, {new: name for name, new in RESTORED.items()})
    except BaseException:
        with suppress(SonorantError), as_superuser(environment) as connection:
            for new in RESTORED.values():
                remove_database(connection, new)
        raise


def restore_database(dump: Path, name: str, role: str, environment: Mapping[str, str]) -> None:
    with as_superuser(environment) as connection:
        remove_database(connection, name)  # left by a killed restore
        make_database(connection, name, role)
    whole = ["--exit-on-error", "--single-transaction"]
    postgres("pg_restore", [*whole, "--dbname", name, str(dump)], environment)


def restore_objects(folder: Path, environment: Mapping[str, str]) -> None:
    store = buckets.client(environment)
    for bucket in BUCKETS:
        top = folder / "objects" / bucket
        with buckets.answering(f"bucket '{bucket}'"):
            for file in sorted(path for path in top.rglob("*") if path.is_file()):
                store.upload_file(str(file), bucket, file.relative_to(top).as_posix())


def inside(top: Path, key: str) -> Path:
    """Return the path in `top` of an object. Raises SonorantError if the key points outside."""
    if ".." in key.split("/") or key.startswith("/"):
        raise SonorantError(f"object key '{key}' points outside its bucket's folder; remove the object")
    return top / key


def postgres(program: str, words: list[str], environment: Mapping[str, str]) -> None:
    """Run a PostgreSQL client; without containers, in the server's version. Raises SonorantError if it fails."""
    own = {**os.environ, **environment, "LC_ALL": "C.UTF-8"}
    data = Path(environment["PGDATA"]) if "PGDATA" in environment else None
    command = [postgres_program(program, data), *words]
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SonorantError(f"{program} of {words[-1]} failed: {' '.join(done.stderr.split())[:300]}")


@contextmanager
def natively(platform: Platform) -> Iterator[dict[str, str]]:
    """Start the stores of the platform of `make serve STACK=full` within the block, and yield their variables."""
    with platform.running(STORES):
        words = platform.words()
        variables = {**SERVICES["databases"].environment, **S3_CLIENT}
        found = {name: filled(value, words) for name, value in variables.items()}
        yield found | {"PGDATA": str(platform.postgres_data)}


def save_natively(folder: Path, platform: Platform) -> None:
    secrets = platform.folder / "secrets.env"
    if not secrets.exists():
        raise SonorantError(f"{platform.folder}: no platform in this folder; start it with: make serve STACK=full")
    with natively(platform) as environment:
        save(folder, environment, read_env(secrets))


def restore_natively(folder: Path, platform: Platform) -> None:
    """Restore the data and its secrets, and all other secrets if the platform's folder is lost."""
    running = [name for name in SERVICES if name not in STORES and platform.servers.alive(name)]
    if running:
        raise SonorantError(f"{', '.join(running)} would write during the restore; stop the platform first: make stop")
    secrets, saved = platform.folder / "secrets.env", read_env(folder / OF_BACKUP)
    if not secrets.exists():
        write_env(secrets, saved)
    with natively(platform) as environment:
        restore(folder, environment)
    take_over(secrets, saved)


def restore_in_container(folder: Path, environment: Mapping[str, str]) -> None:
    """Restore, and print the command that copies the secrets to infra/.env, which a container cannot access."""
    saved = read_env(folder / OF_BACKUP)
    restore(folder, environment)
    others = [name for name in OF_DATA if saved[name] != environment.get(name)]
    if others:
        remedy = f"python -m infra.platform.env_file infra/.env --of-backup infra/backups/{folder.name}"
        print(f"{', '.join(others)} in infra/.env must match the backup; run: {remedy}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("save", "restore"))
    parser.add_argument("folder", type=Path)
    given: Any = parser.parse_args()
    folder = checked(given.folder) if given.action == "restore" else given.folder
    if "PGHOST" in os.environ and "AWS_ENDPOINT_URL_S3" in os.environ:
        if given.action == "save":
            save(folder, os.environ, {name: os.environ[name] for name in OF_DATA if name in os.environ})
        else:
            restore_in_container(folder, os.environ)
    else:
        (save_natively if given.action == "save" else restore_natively)(folder, Platform.here())


if __name__ == "__main__":
    run(main)
