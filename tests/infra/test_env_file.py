"""Secrets of the platform in a file: random, for their owner alone, and kept."""

from pathlib import Path

import pytest

from infra.platform.env_file import make_env, read_env
from sonorant.errors import SonorantError


def test_secrets_are_random_private_and_kept(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("S3_ACCESS_KEY=mine\nMLFLOW_SECRET_KEY=\n")
    file.chmod(0o644)
    with pytest.raises(SonorantError, match=r"others may read these secrets: chmod 600"):
        make_env(file)
    file.chmod(0o600)
    values, others = make_env(file), make_env(tmp_path / "other")
    assert file.stat().st_mode & 0o777 == 0o600
    assert values["S3_ACCESS_KEY"] == "mine" and read_env(file) == values == make_env(file)
    assert all(values[name] and values[name] != others[name] for name in values)
    file.write_text("A=1\nb c\n")
    with pytest.raises(SonorantError, match=r"\.env:2: no NAME=value"):
        read_env(file)
