"""API keys with limits, stored as SHA-256 (enough for 32 random bytes) and compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from sonorant.errors import SonorantError, file_errors
from sonorant.files import atomic_file, parse_checked, read_json
from sonorant.serving.voice_processes import NotSpoken

_log = logging.getLogger(__name__)
MINUTE = 60.0


@dataclass(frozen=True, kw_only=True)
class Key:
    name: str
    sha256: str
    """Hexadecimal hash of the key."""
    requests_a_minute: int = 120
    characters_a_minute: int = 100_000
    concurrent: int = 8
    """Maximum number of simultaneous requests."""


@dataclass(frozen=True, kw_only=True)
class KeyFile:
    keys: tuple[Key, ...] = ()


class RefusedKey(Exception):
    """The key is missing or unknown."""


class LimitReached(Exception):
    """A key's limit is reached; retry after `seconds`."""

    def __init__(self, line: str, seconds: float) -> None:
        super().__init__(line)
        self.seconds = seconds


class Caller:
    """The requests of one key within the last minute."""

    def __init__(self, key: Key, clock: Callable[[], float]) -> None:
        self.key, self._clock = key, clock
        self._asked: list[tuple[float, int]] = []
        self._speaking = 0

    @contextmanager
    def asking(self, characters: int) -> Iterator[None]:
        """Count a request against the key's limits. Raises LimitReached if a limit is exceeded."""
        now, key = self._clock(), self.key
        self._asked = [(when, count) for when, count in self._asked if when > now - MINUTE]
        again = self._asked[0][0] + MINUTE - now if self._asked else MINUTE
        if self._speaking >= key.concurrent:
            raise LimitReached(f"the key '{key.name}' allows {key.concurrent} requests at a time", 1.0)
        if len(self._asked) >= key.requests_a_minute:
            raise LimitReached(f"the key '{key.name}' allows {key.requests_a_minute} requests per minute", again)
        if sum(count for _, count in self._asked) + characters > key.characters_a_minute:
            raise LimitReached(f"the key '{key.name}' allows {key.characters_a_minute} characters per minute", again)
        self._asked.append((now, characters))
        self._speaking += 1
        try:
            yield
        finally:
            self._speaking -= 1


class Keys:
    """The keys in a file, which is read again when it changes."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises SonorantError if the file cannot be read or contains no key."""
        self._path, self._clock = path, clock
        self._callers: dict[str, Caller] = {}
        self._read_at = -1
        self._read()
        if not self._callers:
            raise SonorantError(f"{path}: contains no key; create one with --new-key")

    def caller(self, authorization: str | None) -> Caller:
        """Return the caller whose key is in the header `Bearer <key>`. Raises RefusedKey if there is none, or NotSpoken
        while the file is damaged."""
        try:
            self._read()
        except SonorantError as error:
            _log.error("%s", error)
            raise NotSpoken("the server cannot read its keys; try again later") from None
        kind, _, key = (authorization or "").partition(" ")
        given = _hash(key.strip())
        found = None
        for sha256, caller in self._callers.items():
            if hmac.compare_digest(sha256, given):  # compare all, so that timing reveals nothing
                found = caller
        if found is None or kind.lower() != "bearer":
            raise RefusedKey
        return found

    def _read(self) -> None:
        try:
            changed = self._path.stat().st_mtime_ns
        except OSError as error:
            raise SonorantError(f"{self._path}: cannot be read ({error.strerror}); create it with --new-key") from None
        if changed != self._read_at:
            with file_errors():
                keys = parse_checked(read_json(self._path), KeyFile, self._path).keys
            kept = self._callers
            self._callers = {key.sha256: Caller(key, self._clock) for key in keys}
            for sha256, caller in kept.items():
                if sha256 in self._callers and self._callers[sha256].key == caller.key:
                    self._callers[sha256] = caller
            self._read_at = changed


def new_key(path: Path, name: str) -> str:
    """Add a key to a file and return it. A new file is private; an existing file keeps its permissions.
    Raises SonorantError if the name is taken or the file would change its owner."""
    keys = parse_checked(read_json(path), KeyFile, path).keys if path.exists() else ()
    if not name or any(key.name == name for key in keys):
        raise SonorantError(f"{path}: already has a key named '{name}'; choose another name")
    secret = f"sk-{secrets.token_urlsafe(32)}"
    with atomic_file(path) as temporary:
        temporary.touch(0o600)
        file = asdict(KeyFile(keys=(*keys, Key(name=name, sha256=_hash(secret)))))
        temporary.write_text(json.dumps(file, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        if path.exists():
            _keep_access(path, temporary)
    return secret


def _keep_access(former: Path, new: Path) -> None:
    """Copy owner, group and mode, so that a server in that group can still read the file."""
    kept = former.stat()
    try:
        os.chown(new, kept.st_uid, kept.st_gid)
    except OSError:  # not permitted, or the user is unknown in this container
        owner = f"{kept.st_uid}:{kept.st_gid}"
        raise SonorantError(
            f"{former}: belongs to {owner} (user:group); run this command as that user or root"
        ) from None
    new.chmod(stat.S_IMODE(kept.st_mode))


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()
