"""Make the roles and databases of Prefect and MLflow where they are absent: a job that may run any number of times.

Reads libpq's variables (PGHOST, PGPORT, PGUSER, PGPASSWORD) and the passwords that the roles are to have, so a changed
password is set too.
"""

from __future__ import annotations

import os

import psycopg
from psycopg import sql

from infra.platform.services import DATABASES
from sonorant.errors import SonorantError
from tasks.stage import run


def make_databases() -> None:
    """Raises SonorantError if PostgreSQL does not answer or refuses the password."""
    try:
        with psycopg.connect(dbname="postgres", autocommit=True, connect_timeout=10) as connection:
            for role, databases in DATABASES.items():
                make_role(connection, role, os.environ[f"{role.upper()}_DB_PASSWORD"])
                for name in databases:
                    make_database(connection, name, role)
    except psycopg.Error as error:
        raise SonorantError(f"PostgreSQL at {where()}: {one_line(error)}") from None


def make_role(connection: psycopg.Connection, role: str, password: str) -> None:
    known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
    words = sql.SQL("ALTER" if known else "CREATE")
    # PostgreSQL keeps statements that fail in its log, so the password goes there hashed
    hashed = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    connection.execute(sql.SQL("{} ROLE {} LOGIN PASSWORD {}").format(words, sql.Identifier(role), sql.Literal(hashed)))


def make_database(connection: psycopg.Connection, name: str, role: str) -> None:
    """A database that nobody but its role and the superuser may enter."""
    known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
    database = sql.Identifier(name)
    if not known:
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, sql.Identifier(role)))
    connection.execute(sql.SQL("REVOKE CONNECT ON DATABASE {} FROM PUBLIC").format(database))


def where() -> str:
    return f"{os.environ.get('PGHOST', 'localhost')}:{os.environ.get('PGPORT', '5432')}"


def one_line(error: psycopg.Error) -> str:
    """The last line of libpq's message, which is the reason."""
    return str(error).strip().splitlines()[-1].strip()


if __name__ == "__main__":
    run(make_databases)
