"""Exceptions with messages for users, and the command that installs what is missing."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class SonorantError(Exception):
    """Bad input, settings or environment. The one-line message names the file, row or key, and what to do."""

    def __str__(self) -> str:
        """Return the message with control characters as escapes, because a terminal would obey them."""
        return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in super().__str__())


class Stopped(SonorantError):
    """Work was stopped on request and can be resumed. The message describes how."""


@contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Turn a missing package into a SonorantError with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise SonorantError(f"{what} requires {error.name}; run: {install(extra)}") from None


def install(extra: str) -> str:
    """Return the command that installs an extra of pyproject.toml from this clone, or from where the wheel came."""
    clone = os.path.relpath(Path(__file__).parents[1])
    if Path(clone, "pyproject.toml").is_file():
        return f"pip install -c {clone}/requirements.lock -e '{clone}[{extra}]'"
    from importlib import metadata

    try:
        origin = json.loads(metadata.distribution("sonorant").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        origin = {}
    vcs = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
    source = f" @ {vcs}{origin['url']}" if origin else ""  # none if the wheel came from an index
    return f"pip install 'sonorant[{extra}]{source}'"
