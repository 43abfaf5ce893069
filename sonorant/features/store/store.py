"""Interface of a store of objects, implemented by a folder and a bucket."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

REMOTE = ("s3://",)
"""URL prefixes of a bucket; any other place is a folder."""


class Entry(NamedTuple):
    """An object in a listing."""

    name: str
    size: int
    modified: float
    """Modification time in Unix seconds."""


class Store(Protocol):
    """Objects by name, written atomically. Thread-safe. Methods raise SonorantError naming the place."""

    place: str

    def read(self, name: str) -> bytes | None:
        """Return an object, or None if it does not exist."""

    def fetch(self, name: str, target: Path) -> bool:
        """Write the object to the file `target`; return False if it does not exist."""

    def local(self, name: str) -> Path | None:
        """Return the path of an object, which need not exist; None in a bucket."""

    def put(self, source: Path, name: str) -> None:
        """Move the file `source` from a `draft` folder into the store, replacing any object `name`."""

    def create(self, name: str, data: bytes) -> bytes:
        """Write `data` unless the object exists; return the object's bytes."""

    def entries(self, prefix: str) -> Iterator[Entry]:
        """List the objects below the folder `prefix`."""

    def delete(self, name: str) -> None:
        """Remove an object if it exists."""

    def draft(self) -> AbstractContextManager[Path]:
        """Create a temporary folder for files to pass to `put`."""

    def tidy(self, before: float, *, dry_run: bool) -> list[Entry]:
        """Remove and return drafts of killed processes that have not changed since `before` (Unix seconds)."""
