from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from infra.platform.env_file import OF_BACKUP, main, make_env, read_env
from infra.platform.services import OF_DATA
from sonorant.errors import SonorantError


def test_secrets_are_random_private_and_kept(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("S3_ACCESS_KEY=mine\nMLFLOW_SECRET_KEY=\n")
    file.chmod(0o644)
    with pytest.raises(SonorantError, match=r"other users can read these secrets; run: chmod 600"):
        make_env(file)
    file.chmod(0o600)
    values, others = make_env(file), make_env(tmp_path / "other")
    assert file.stat().st_mode & 0o777 == 0o600
    assert values["S3_ACCESS_KEY"] == "mine" and read_env(file) == values == make_env(file)
    assert all(values[name] and values[name] != others[name] for name in values)
    file.write_text("A=1\nb c\n")
    with pytest.raises(SonorantError, match=r"\.env:2: not NAME=value"):
        read_env(file)


@pytest.fixture
def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Run the command in a folder with empty stores; return the backup's folder."""
    pytest.importorskip("boto3")
    from infra.platform import backup as module

    def dump(program: str, words: list[str], _: Mapping[str, str]) -> None:
        if program == "pg_dump":
            Path(words[words.index("--file") + 1]).write_bytes(b"a dump")

    monkeypatch.setattr(module, "postgres", dump)
    monkeypatch.setattr(module, "as_superuser", MagicMock())
    monkeypatch.setattr(module, "natively", lambda platform: nullcontext({}))
    monkeypatch.setattr(module.buckets, "client", lambda environment: None)
    monkeypatch.setattr(module.buckets, "objects", lambda store, bucket: ())

    def command(action: str, platform: Path | None = None, **environment: str) -> Path:
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        monkeypatch.setenv("SONORANT_PLATFORM", str(platform or tmp_path / "none"))
        monkeypatch.setattr("sys.argv", ["backup", action, str(tmp_path / "monday")])
        module.main()
        return tmp_path / "monday"

    for variable in ("PGHOST", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(variable, raising=False)
    yield command


def test_a_restore_brings_the_secrets_that_belong_to_the_data_and_all_where_there_are_none(
    tmp_path: Path, backup: Callable[..., Path]
) -> None:
    saved, new = make_env(tmp_path / "old/secrets.env"), make_env(tmp_path / "new/secrets.env")
    folder = backup("save", tmp_path / "old")
    assert folder.stat().st_mode & 0o777 == 0o700 and (folder / OF_BACKUP).stat().st_mode & 0o777 == 0o600
    backup("restore", tmp_path / "new")
    assert read_env(tmp_path / "new/secrets.env") == new | {name: saved[name] for name in OF_DATA}
    backup("restore", tmp_path / "lost")
    assert read_env(tmp_path / "lost/secrets.env") == saved


def test_in_a_container_the_restore_names_the_command_that_takes_the_secrets_over(
    tmp_path: Path, backup: Callable[..., Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, new = make_env(tmp_path / "old"), make_env(tmp_path / ".env")
    stores = {"PGHOST": "postgres", "AWS_ENDPOINT_URL_S3": "http://s3:9000"}
    folder = backup("save", **stores, **{name: saved[name] for name in OF_DATA})
    assert read_env(folder / OF_BACKUP) == {name: saved[name] for name in OF_DATA}
    backup("restore", **stores)
    assert capsys.readouterr().err == "", "they fit"
    backup("restore", **stores, **{name: new[name] for name in OF_DATA})
    [line] = capsys.readouterr().err.splitlines()
    options = line.split("python -m infra.platform.env_file infra/.env ")[1].split()
    assert options == ["--of-backup", "infra/backups/monday"]
    monkeypatch.setattr("sys.argv", ["env_file", str(tmp_path / ".env"), options[0], str(folder)])
    main()
    assert read_env(tmp_path / ".env") == new | {name: saved[name] for name in OF_DATA}


def test_every_file_of_a_backup_is_known_by_its_hash(tmp_path: Path) -> None:
    """Also of an artifact named like the list."""
    content = pytest.importorskip("infra.platform.backup").content_of
    for name in ("content.json", "objects/content.json", "objects/weights.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert list(content(tmp_path)) == ["objects/content.json", "objects/weights.pt"]
