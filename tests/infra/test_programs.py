"""Which PostgreSQL the native platform runs where several are installed: the one that made its data."""

from pathlib import Path

import pytest

from infra.platform import native, programs
from infra.platform.native import Platform
from infra.platform.programs import postgres_program
from infra.platform.services import SERVICES
from sonorant.errors import SonorantError


def install(folder: Path, version: str, *names: str) -> Path:
    """Programs that know their version, where Debian would have them, and succeed if that is 15."""
    (folder / version / "bin").mkdir(parents=True)
    for name in names:
        file = folder / version / "bin" / name
        file.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}.3'\ntest {version} = 15\n")
        file.chmod(0o755)
    return folder / version / "bin"


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A platform whose data 15 made; 15 and 17 are installed."""
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


def test_a_version_that_is_gone_is_named(platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (platform.postgres_data / "PG_VERSION").write_text("16\n")
    monkeypatch.setenv("PATH", str(install(tmp_path / "path", "18", "postgres")), prepend=":")
    with pytest.raises(SonorantError) as refused:
        platform.command(SERVICES["postgres"])
    line = str(refused.value)
    assert "made by PostgreSQL 16" in line and "postgresql-16" in line and "\n" not in line
    place = install(tmp_path / "path", "16", "postgres")
    monkeypatch.setenv("PATH", str(place), prepend=":")
    assert platform.command(SERVICES["postgres"])[0] == str(place / "postgres"), "on PATH"
