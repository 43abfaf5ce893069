"""Location of a store, in settings and in an index folder."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from sonorant.checked import Count, Positive, Text
from sonorant.errors import SonorantError
from sonorant.features.store.folder import Folder
from sonorant.features.store.store import REMOTE, Store
from sonorant.files import read_json, write_json

FILE = "place.json"
"""File in an index folder. Not hashed, because moving shards does not change the data."""


def open_store(place: str) -> Store:
    """Open the store at `place`: a folder, which need not exist, or `s3://bucket/prefix`. Raises SonorantError if the
    package for buckets is missing."""
    if place.startswith(REMOTE):
        from sonorant.features.store.bucket import Bucket  # requires the extra `s3`

        return Bucket(place)
    return Folder(Path(place))


@dataclass(frozen=True, kw_only=True)
class StoreConfig:
    """Section `store` of params.yaml: where shards are stored."""

    place: Text = "runs/store"
    """A folder outside git and DVC, or s3://bucket/prefix (extra `s3`)."""
    utterances_per_shard: Count = 128
    """Maximum number of utterances per shard. Changing it recomputes every shard."""
    cache: Text = "runs/cache/shards"
    """Local folder for downloaded shards, shared by all processes of the machine."""
    cache_gib: Positive = 20.0
    """Maximum size of `cache` in GiB."""

    def __post_init__(self) -> None:
        if "://" in self.place and not self.place.startswith(REMOTE):
            raise ValueError(f"place must be a folder or {REMOTE[0]}bucket/prefix, not '{self.place}'")

    def as_place(self) -> "Place":
        return Place(self.place, self.cache, int(self.cache_gib * 2**30))


@dataclass(frozen=True)
class Place:
    """A store, and the folder and size limit in bytes of its cache."""

    store: str
    cache: str
    cache_bytes: int

    @property
    def remote(self) -> bool:
        return self.store.startswith(REMOTE)

    def seen_from(self, folder: Path) -> "Place":
        """Return the place relative to `folder`, so that a project can be moved."""

        def seen(name: str) -> str:
            return name if Path(name).is_absolute() or name.startswith(REMOTE) else os.path.relpath(name, folder)

        return Place(seen(self.store), seen(self.cache), self.cache_bytes)

    def write(self, folder: Path) -> None:
        write_json(folder / FILE, asdict(self))

    @classmethod
    def read(cls, folder: Path, repair: str) -> Self:
        """Read the place in `folder`. Raises SonorantError, ending in `repair`, if it is missing or damaged."""
        try:
            kept = read_json(folder / FILE)
            store, cache, size = str(kept["store"]), str(kept["cache"]), int(kept["cache_bytes"])
        except (SonorantError, KeyError, TypeError, ValueError):
            raise SonorantError(f"{folder / FILE}: missing or damaged; {repair}") from None
        # Normalised lexically, because `folder` may be reached through a link.
        here, there = (os.path.normpath(folder / name) for name in (store, cache))
        return cls(store if store.startswith(REMOTE) else here, there, size)
