"""Create missing roles and databases of Prefect and MLflow, and set the roles' passwords. The job is idempotent.

Reads libpq's variables (PGHOST, PGPORT, PGUSER, PGPASSWORD) and the roles' passwords.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from infra.platform.services import DATABASES
from sonorant.errors import SonorantError
from tasks.stage import run


def make_databases() -> None:
    """Create roles and databases. Raises SonorantError if PostgreSQL does not respond or rejects the password."""
    with as_superuser(os.environ) as connection:
        for role, databases in DATABASES.items():
            make_role(connection, role, os.environ[f"{role.upper()}_DB_PASSWORD"])
            for name in databases:
                make_database(connection, name, role)


@contextmanager
def as_superuser(environment: Mapping[str, str]) -> Iterator[psycopg.Connection]:
    """Connect as libpq's variables specify, with autocommit. Raises SonorantError for PostgreSQL errors in the
    block."""
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
    given: dict[str, Any] = {word: environment.get(name) for word, name in names.items()}
    address = make_conninfo(dbname="postgres", connect_timeout=10, **given)
    try:
        with psycopg.connect(address, autocommit=True) as connection:
            yield connection
    except psycopg.Error as error:
        raise SonorantError(f"PostgreSQL at {where(environment)}: {one_line(error)}") from None


def make_role(connection: psycopg.Connection, role: str, password: str) -> None:
    known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
    words = sql.SQL("ALTER" if known else "CREATE")
    # hashed, because PostgreSQL logs statements that fail
    hashed = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    connection.execute(sql.SQL("{} ROLE {} LOGIN PASSWORD {}").format(words, sql.Identifier(role), sql.Literal(hashed)))


def make_database(connection: psycopg.Connection, name: str, role: str) -> None:
    """Create a database that only its role and the superuser can access."""
    known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
    database = sql.Identifier(name)
    if not known:
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, sql.Identifier(role)))
    connection.execute(sql.SQL("REVOKE CONNECT ON DATABASE {} FROM PUBLIC").format(database))


def remove_database(connection: psycopg.Connection, name: str) -> None:
    connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def put_in_place(connection: psycopg.Connection, restored: Mapping[str, str]) -> None:
    """Replace all databases, or none, with restored ones. `restored` maps temporary to final names."""
    cut_off = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
    rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
    former = {name: f"{name}_former" for name in restored.values()}
    for name in former.values():
        remove_database(connection, name)  # left by a killed restore
    with connection.transaction():
        for new, name in restored.items():
            connection.execute(cut_off, (name,))
            connection.execute(rename.format(sql.Identifier(name), sql.Identifier(former[name])))
            connection.execute(rename.format(sql.Identifier(new), sql.Identifier(name)))
    for name in former.values():
        remove_database(connection, name)


def where(environment: Mapping[str, str]) -> str:
    return f"{environment.get('PGHOST', 'localhost')}:{environment.get('PGPORT', '5432')}"


def one_line(error: psycopg.Error) -> str:
    return str(error).strip().splitlines()[-1].strip()


if __name__ == "__main__":
    run(make_databases)
