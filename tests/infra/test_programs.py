"""The native platform runs the PostgreSQL version that created its data if several are installed."""

import socket
from pathlib import Path

import pytest

from infra.platform import native, programs
from infra.platform.native import Platform
from infra.platform.programs import postgres_program
from infra.platform.services import SERVICES
from sonorant.errors import SonorantError


def install(folder: Path, version: str, *names: str) -> Path:
    """Install programs that report `version` where Debian puts them; only version 15 succeeds."""
    (folder / version / "bin").mkdir(parents=True)
    for name in names:
        file = folder / version / "bin" / name
        file.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}.3'\ntest {version} = 15\n")
        file.chmod(0o755)
    return folder / version / "bin"


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A platform with data of version 15; 15 and 17 are installed."""
    for version in ("15", "17"):
        install(tmp_path / "versions", version, "postgres", "pg_isready", "pg_dump")
    monkeypatch.setattr(programs, "VERSIONS", tmp_path / "versions")
    monkeypatch.setattr(native, "as_postgres", lambda folder: [])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    found = Platform(tmp_path / "platform")
    found.postgres_data.mkdir(parents=True)
    (found.postgres_data / "PG_VERSION").write_text("15\n")
    return found


def test_a_newer_postgresql_beside_it_is_left_alone(platform: Platform, tmp_path: Path) -> None:
    assert platform.command(SERVICES["postgres"])[0] == str(tmp_path / "versions/15/bin/postgres")
    assert platform.healthy(SERVICES["postgres"])
    (platform.postgres_data / "PG_VERSION").write_text("17\n")
    assert platform.command(SERVICES["postgres"])[0] == str(tmp_path / "versions/17/bin/postgres")
    assert postgres_program("postgres") == str(tmp_path / "versions/17/bin/postgres"), "new data are the newest's"


def test_a_backup_is_made_by_the_servers_version(platform: Platform) -> None:
    backup = pytest.importorskip("infra.platform.backup")
    backup.postgres("pg_dump", ["mlflow"], {"PGDATA": str(platform.postgres_data)})
    with pytest.raises(SonorantError, match="pg_dump of mlflow failed"):
        backup.postgres("pg_dump", ["mlflow"], {})


def test_an_object_that_goes_while_a_backup_is_made_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = pytest.importorskip("infra.platform.backup")
    exceptions = pytest.importorskip("botocore.exceptions")

    class Store:
        """Lists two objects, one of which disappears before it is read; rejects the bucket `code`."""

        def get_paginator(self, _: str) -> "Store":
            return self

        def paginate(self, Bucket: str) -> list[dict[str, object]]:
            return [{"Contents": [{"Key": key, "Size": 1} for key in ("gone", "kept")]}]

        def download_file(self, bucket: str, key: str, file: str) -> None:
            if key == "gone":
                raise exceptions.ClientError({"Error": {"Code": code}}, "HeadObject")
            Path(file).write_text(key)

    monkeypatch.setattr(backup.buckets, "client", lambda environment: Store())
    monkeypatch.setattr(backup, "postgres", lambda program, words, environment: Path(words[3]).write_text("dump"))
    code = "404"
    backup.save(tmp_path / "backup", {}, {})
    found = {file.name for file in (tmp_path / "backup/objects").rglob("*") if file.is_file()}
    assert found == {"kept"} and backup.checked(tmp_path / "backup")
    code = "403"
    with pytest.raises(SonorantError, match="refuses the access key"):
        backup.save(tmp_path / "another", {}, {})
    assert not (tmp_path / "another").exists()


def test_postgresql_goes_elsewhere_if_its_usual_port_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        usual = taken.getsockname()[1]
        monkeypatch.setitem(native.PORTS, "postgres", usual)
        monkeypatch.delenv("SONORANT_POSTGRES_PORT", raising=False)
        assert native.ports_from_environment()["postgres"] != usual
        monkeypatch.setenv("SONORANT_POSTGRES_PORT", str(usual))
        assert native.ports_from_environment()["postgres"] == usual, "then the port in use is an error"


def test_a_version_that_is_gone_is_named(platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (platform.postgres_data / "PG_VERSION").write_text("16\n")
    monkeypatch.setenv("PATH", str(install(tmp_path / "path", "18", "postgres")), prepend=":")
    with pytest.raises(SonorantError) as refused:
        platform.command(SERVICES["postgres"])
    assert "created by PostgreSQL 16" in str(refused.value) and "postgresql-16" in str(refused.value)
