"""Create files of secrets and addresses: NAME=value per line, readable by their owner only.

python -m infra.platform.env_file infra/.env   # random secrets for `docker compose`
python -m infra.platform.env_file infra/.env --of-backup infra/backups/monday   # secrets of a restored backup
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path

from infra.platform.services import OF_DATA, SECRETS
from sonorant.errors import SonorantError
from sonorant.files import atomic_file
from tasks.stage import run

OF_BACKUP = "secrets.env"
"""Name of the secrets file in a backup."""


def random_secrets() -> dict[str, str]:
    """Return a random value for each of SECRETS. Values contain only letters and digits, which need no quotes."""
    values = {name: secrets.token_hex(24) for name in SECRETS}
    return values | {
        "S3_ACCESS_KEY": f"sonorant-{secrets.token_hex(4)}",
        "PREFECT_AUTH": f"sonorant:{values['PREFECT_AUTH']}",
    }


def write_env(path: Path, values: Mapping[str, str]) -> None:
    """Write a file atomically, always readable by its owner only."""
    with atomic_file(path) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def read_env(path: Path) -> dict[str, str]:
    """Read NAME=value lines. Raises SonorantError for other lines, or if the file is missing or readable by other
    users."""
    if not path.exists():
        raise SonorantError(f"{path}: no such file")
    if path.stat().st_mode & 0o077:
        raise SonorantError(f"{path}: other users can read these secrets; run: chmod 600 {path}")
    values = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = re.fullmatch(r"([A-Z][A-Z0-9_]*)=(.*)", line)
        words = shlex.split(found[2]) if found else ["", ""]
        if not found or len(words) > 1:
            raise SonorantError(f"{path}:{number}: not NAME=value; quote a value that contains spaces")
        values[found[1]] = "".join(words)
    return values


def make_env(path: Path) -> dict[str, str]:
    """Return the secrets in the file `path`, after adding random values for missing ones."""
    known = read_env(path) if path.exists() else {}
    values = random_secrets() | {name: value for name, value in known.items() if value}
    if values != known:
        write_env(path, values)
    return values


def take_over(path: Path, saved: Mapping[str, str]) -> None:
    """Copy the secrets `saved` with a backup to the file `path`, keeping its other secrets."""
    write_env(path, make_env(path) | {name: saved[name] for name in OF_DATA})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="file to write with mode 600; existing secrets are kept")
    parser.add_argument("--of-backup", type=Path, help="folder of a backup whose secrets to copy")
    given = parser.parse_args()
    if given.of_backup is None:
        make_env(given.file)
    else:
        take_over(given.file, read_env(given.of_backup / OF_BACKUP))


if __name__ == "__main__":
    run(main)
