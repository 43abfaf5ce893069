"""A folder of bounded size with objects of a bucket; processes and ranks of one machine share it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.features.store.store import Store
from sonorant.files import flush_to_disk, sha256_file
from sonorant.locks import locked

_LOCKS = 64  # files; processes that want different objects seldom wait for each other
_COUNT = "held"  # file with the bytes that the folder holds
_FREED = 16  # one part in so many of the bound becomes free at a time


class Lost(SonorantError):
    """An object that is missing or damaged, as against a store that does not answer: only computing it anew helps."""


class Cache:
    """Fetches an object when it is first asked for, and compares it with its hash; what was used least goes first.

    An object larger than the bound is kept alone. A file that another process has open stays readable after it went.
    """

    def __init__(self, store: Store, folder: Path, most: int) -> None:
        self._store, self._folder, self._most = store, folder, most
        self._listed = False

    def path(self, name: str) -> Path:
        """The file of the object `name`, whose last part is its SHA-256.

        Raises SonorantError if the store has none, or another content than its name says.
        """
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
        """Remove the file of an object that is found to be damaged here, so that it is fetched again."""
        with self._named():
            self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._folder / "objects" / name.rsplit("/", 1)[-1]

    def _fetch(self, name: str, sha256: str, file: Path) -> None:
        # The lock's number, so that the next fetch under this lock overwrites what a killed process left.
        arriving = file.with_name(f".{int(sha256[:8], 16) % _LOCKS}.tmp")
        try:
            if not self._store.fetch(name, arriving):
                raise Lost(f"{self._store.place}/{name}: no such object")
            if sha256_file(arriving) != sha256:
                raise Lost(f"{self._store.place}/{name}: damaged, its content is not what its name says")
            with self._alone("room"):
                self._make_room(arriving.stat().st_size)
                flush_to_disk(arriving)  # else a power cut leaves an empty file, which is taken for the object
                arriving.replace(file)
        finally:
            arriving.unlink(missing_ok=True)

    def _make_room(self, wanted: int) -> None:
        """Remove what was used least recently until `wanted` more bytes fit, and count them as held.

        All processes keep one count, so that the folder, which may hold 100,000 files, is seldom listed: when it is
        full by the count, and once by each process, as a power cut or a person may have left a wrong one.
        """
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
        """List the folder; return how many bytes it holds afterwards."""
        kept = []
        for entry in os.scandir(self._folder / "objects"):
            with suppress(FileNotFoundError):
                if not entry.name.startswith("."):
                    found = entry.stat()
                    kept.append((found.st_mtime_ns, found.st_size, entry.path))
        held = sum(size for _, size, _ in kept)
        # When it is full, more than is needed goes, else every fetch from then on would list it.
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
            raise SonorantError(f"store.cache {where}: {error.strerror}; make room there or name another") from None

    @contextmanager
    def _alone(self, lock: str) -> Iterator[None]:
        with locked(self._folder / "locks" / lock):
            yield


def _touched(file: Path) -> bool:
    """Note that the file is used now; False if it is not there."""
    try:
        os.utime(file)
    except FileNotFoundError:
        return False
    return True
