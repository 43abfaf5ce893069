"""What is asked of a place for objects; a folder and a bucket give it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

REMOTE = ("s3://",)
"""How the names of buckets begin; any other place is a folder."""


class Entry(NamedTuple):
    """What a list of objects says of one."""

    name: str
    size: int
    """Bytes."""
    modified: float
    """Unix seconds."""


class Store(Protocol):
    """Objects by name, each written whole or not at all. Safe to use from several threads.

    What fails for a reason outside (no permission, no room, no answer) is a SonorantError that names the place.
    """

    place: str

    def read(self, name: str) -> bytes | None:
        """The whole object; None if there is none of this name."""

    def fetch(self, name: str, target: Path) -> bool:
        """Write the object to the file `target`; False if there is none of this name."""

    def local(self, name: str) -> Path | None:
        """The file on this machine that is the object, whether it is there or not; None in a bucket."""

    def put(self, source: Path, name: str) -> None:
        """Keep the file `source`, of the folder of `draft`, as an object; one of the same name is replaced."""

    def create(self, name: str, data: bytes) -> bytes:
        """Keep `data` as an object unless there is one of this name; return what is kept."""

    def entries(self, prefix: str) -> Iterator[Entry]:
        """The objects whose name begins with the folder `prefix`."""

    def delete(self, name: str) -> None:
        """Remove an object, if it is there."""

    def draft(self) -> AbstractContextManager[Path]:
        """A new folder to write files in that `put` takes; it is removed afterwards."""

    def tidy(self, before: float, *, dry_run: bool) -> list[Entry]:
        """Remove the drafts in which nothing was written since `before`, in Unix seconds: their processes were killed.
        Return what was removed, or would be."""


def open_store(place: str) -> Store:
    """The store at `place`: a folder, which need not exist yet, or `s3://bucket/prefix`.

    A bucket takes address and keys from the environment, as every client of S3 does: AWS_ENDPOINT_URL,
    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION. Raises SonorantError if its package is not installed.
    """
    if place.startswith(REMOTE):
        from sonorant.features.store.bucket import Bucket  # of the extra `s3`

        return Bucket(place)
    from sonorant.features.store.folder import Folder

    return Folder(Path(place))
