"""An LRU cache of a bucket's objects in a folder, shared by all processes of a machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.features.store.store import Store
from sonorant.files import flush_to_disk, locked, sha256_file

_LOCKS = 64  # lock files, so that fetches of different objects rarely wait for each other
_COUNT = "held"  # file with the number of bytes in the folder
_FREED = 16  # a full cache frees 1/16 of its limit at a time


class Lost(SonorantError):
    """Raised if an object is missing from the store or damaged there."""


class Cache:
    """Downloads objects on first use, compares them with their hash, and evicts the least recently used.

    An object larger than the limit is kept alone. An evicted file stays readable for processes that have it open.
    """

    def __init__(self, store: Store, folder: Path, most: int) -> None:
        self._store, self._folder, self._most = store, folder, most
        self._listed = False

    def path(self, name: str) -> Path:
        """Return the path of object `name`, which ends in its SHA-256. Raises SonorantError if it is missing or
        damaged."""
        sha256 = name.rsplit("/", 1)[-1]
        file = self._file(name)
        with self._named():
            if _touched(file):
                return file
            for part in ("objects", "locks"):
                (self._folder / part).mkdir(parents=True, exist_ok=True)
            with self._alone(f"fetch-{int(sha256[:8], 16) % _LOCKS}"):
                if not _touched(file):
                    self._fetch(name, sha256, file)
        return file

    def drop(self, name: str) -> None:
        """Remove a damaged file, so that it is downloaded again."""
        with self._named():
            self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._folder / "objects" / name.rsplit("/", 1)[-1]

    def _fetch(self, name: str, sha256: str, file: Path) -> None:
        # Named after the lock and this machine, so that the next fetch overwrites the file of a killed process.
        arriving = file.with_name(f".{int(sha256[:8], 16) % _LOCKS}-{os.uname().nodename}.tmp")
        try:
            if not self._store.fetch(name, arriving):
                raise Lost(f"{self._store.place}/{name}: no such object")
            if sha256_file(arriving) != sha256:
                raise Lost(f"{self._store.place}/{name}: damaged, because its content does not match its name")
            with self._alone("room"):
                self._make_room(arriving.stat().st_size)
                flush_to_disk(arriving)  # otherwise a power cut leaves an empty file with this name
                arriving.replace(file)
        finally:
            arriving.unlink(missing_ok=True)

    def _make_room(self, wanted: int) -> None:
        """Evict objects until `wanted` more bytes fit, and add them to the shared count, which avoids listing 100,000
        files per fetch. Each process lists them once, because a power cut can make the count wrong."""
        held = self._counted() if self._listed else None
        if held is None or held + wanted > self._most:
            held, self._listed = self._remove_for(wanted), True
        (self._folder / _COUNT).write_text(str(held + wanted))

    def _counted(self) -> int | None:
        try:
            return int((self._folder / _COUNT).read_text())
        except (FileNotFoundError, ValueError):
            return None

    def _remove_for(self, wanted: int) -> int:
        """List the folder and evict objects; return the remaining bytes."""
        kept = []
        for entry in os.scandir(self._folder / "objects"):
            with suppress(FileNotFoundError):
                if not entry.name.startswith("."):
                    found = entry.stat()
                    kept.append((found.st_mtime_ns, found.st_size, entry.path))
        held = sum(size for _, size, _ in kept)
        # Free more than needed, otherwise every later fetch would list the folder.
        most = self._most if held + wanted <= self._most else self._most - self._most // _FREED
        for _, size, path in sorted(kept):
            if held + wanted <= most:
                break
            Path(path).unlink(missing_ok=True)
            held -= size
        return held

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = error.filename or self._folder
            raise SonorantError(
                f"store.cache {where}: {error.strerror}; free disk space or choose another folder"
            ) from None

    @contextmanager
    def _alone(self, lock: str) -> Iterator[None]:
        with locked(self._folder / "locks" / lock):
            yield


def _touched(file: Path) -> bool:
    """Update the time of last use; return False if the file does not exist."""
    try:
        os.utime(file)
    except FileNotFoundError:
        return False
    return True
