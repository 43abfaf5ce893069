import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.platform.services import DATABASES, PORTS
from sonorant.errors import SonorantError
from tests.support.ports import free_port
from tests.support.postgres import server, why_not

psycopg = pytest.importorskip("psycopg")
backup = pytest.importorskip("infra.platform.backup")
databases = pytest.importorskip("infra.platform.databases")
native = pytest.importorskip("infra.platform.native")

NAMES = [name for names in DATABASES.values() for name in names]
TABLES = """
CREATE TABLE experiments (id integer PRIMARY KEY, name text);
INSERT INTO experiments VALUES (1, 'sonorant');
ALTER TABLE experiments OWNER TO {role};
"""
UPGRADE = """
CREATE TABLE added (experiment integer REFERENCES experiments);
INSERT INTO added VALUES (1);
UPDATE experiments SET name = 'upgraded';
"""
"""Like `mlflow db upgrade`: a new table with a foreign key to an old one."""


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """libpq's variables of a new server with the platform's databases, one table each; the buckets are empty."""
    if why := why_not():
        pytest.skip(why)
    monkeypatch.setattr(backup.buckets, "client", lambda environment: None)
    monkeypatch.setattr(backup.buckets, "objects", lambda store, bucket: ())
    for role in DATABASES:
        monkeypatch.setenv(f"{role.upper()}_DB_PASSWORD", "secret")
    with tempfile.TemporaryDirectory(prefix="pg") as folder, server(Path(folder)) as address:
        parts = psycopg.conninfo.conninfo_to_dict(address.replace("+psycopg", ""))
        found = {"PGHOST": parts["host"], "PGPORT": parts["port"], "PGUSER": parts["user"]}
        for variable, value in found.items():
            monkeypatch.setenv(variable, value)
        databases.make_databases()
        for role, names in DATABASES.items():
            for name in names:
                with entered(name) as connection:
                    connection.execute(TABLES.format(role=role))
        yield found


@contextmanager
def entered(name: str, **more: str) -> Iterator["psycopg.Connection"]:
    with psycopg.connect(dbname=name, autocommit=True, **more) as connection:
        yield connection


def content(name: str) -> dict[str, object]:
    """A database's table names, and the row that identifies its state."""
    with entered(name) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        (state,) = connection.execute("SELECT name FROM experiments").fetchall()
    return {"tables": sorted(table for (table,) in tables), "state": state[0]}


def known() -> set[str]:
    """Names of all databases except the server's own."""
    with entered("postgres") as connection:
        found = connection.execute("SELECT datname FROM pg_database WHERE NOT datistemplate").fetchall()
    return {name for (name,) in found} - {"postgres"}


SAVED = {"tables": ["experiments"], "state": "sonorant"}
UPGRADED = {"tables": ["added", "experiments"], "state": "upgraded"}


def saved_before_an_upgrade(folder: Path, environment: dict[str, str]) -> Path:
    backup.save(folder, environment, {})
    for name in NAMES:
        with entered(name) as connection:
            connection.execute(UPGRADE)
    return folder


def test_a_restore_undoes_an_upgrade_that_added_tables(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = saved_before_an_upgrade(tmp_path / "monday", environment)
    with entered("mlflow") as left:  # from a server that was left running
        backup.restore(folder, environment)
        with pytest.raises(psycopg.OperationalError):
            left.execute("SELECT 1")
    assert {name: content(name) for name in NAMES} == dict.fromkeys(NAMES, SAVED)
    assert known() == set(NAMES)


def test_restored_databases_belong_to_their_roles_and_nobody_else_may_enter(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    backup.save(tmp_path / "monday", environment, {})
    backup.restore(tmp_path / "monday", environment)
    for role, names in DATABASES.items():
        other = next(each for each in DATABASES if each != role)
        for name in names:
            with entered(name, user=role) as connection:
                connection.execute("UPDATE experiments SET name = 'mine'; CREATE TABLE mine (id integer)")
            with pytest.raises(psycopg.OperationalError, match="permission denied"), entered(name, user=other):
                pass


def test_a_restore_that_fails_leaves_all_databases_as_they_were(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = saved_before_an_upgrade(tmp_path / "monday", environment)
    whole = (folder / "mlflow_auth.dump").read_bytes()
    (folder / "mlflow_auth.dump").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SonorantError, match=r"pg_restore of .*mlflow_auth\.dump failed"):
        backup.restore(folder, environment)
    assert {name: content(name) for name in NAMES} == dict.fromkeys(NAMES, UPGRADED)
    assert known() == set(NAMES), "nothing is left of it"
    (folder / "mlflow_auth.dump").write_bytes(whole)
    backup.restore(folder, environment)
    assert {name: content(name) for name in NAMES} == dict.fromkeys(NAMES, SAVED)


def test_restored_databases_take_their_place_all_or_none(environment: dict[str, str]) -> None:
    with databases.as_superuser(environment) as connection:
        databases.make_database(connection, "mlflow_restored", "mlflow")
    with pytest.raises(SonorantError, match="nowhere"), databases.as_superuser(environment) as connection:
        databases.put_in_place(connection, {"mlflow_restored": "mlflow", "nowhere": "mlflow_auth"})
    assert {name: content(name) for name in NAMES} == dict.fromkeys(NAMES, SAVED)
    assert known() == {*NAMES, "mlflow_restored"}


@pytest.mark.timeout(300)
def test_the_native_platform_brings_mlflows_tables_up_to_date(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if why := why_not():
        pytest.skip(why)
    pytest.importorskip("mlflow")
    from mlflow.exceptions import MlflowException
    from mlflow.store.db import utils
    from mlflow.store.tracking.dbmodels.initial_models import Base

    for name in PORTS:
        monkeypatch.setenv(f"SONORANT_{name.upper()}_PORT", str(free_port()))
    with tempfile.TemporaryDirectory(prefix="sonorant-platform-") as folder:
        Path(folder).chmod(0o711)  # PostgreSQL's user must be able to enter
        monkeypatch.setenv("SONORANT_PLATFORM", f"{folder}/platform")
        platform = native.Platform.here()
        mlflow = platform.environment(native.NATIVE["mlflow"])
        monkeypatch.setenv("PGPASSWORD", mlflow["PGPASSWORD"])
        engine = utils.create_sqlalchemy_engine(mlflow["MLFLOW_BACKEND_STORE_URI"])
        with platform.running(["postgres"]):
            Base.metadata.create_all(engine)
            with pytest.raises(MlflowException, match="out-of-date database schema"):
                utils._verify_schema(engine)
            engine.dispose()
            monkeypatch.setattr("sys.argv", ["native", "upgrade"])
            native.main()
            utils._verify_schema(engine)
            assert platform.servers.alive("postgres"), "it ran before"
            engine.dispose()
        assert not platform.servers.alive("postgres")
