"""Where a store is, as settings name it and as an index keeps it."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from sonorant.errors import SonorantError
from sonorant.features.store.store import REMOTE
from sonorant.files import read_json, write_json

FILE = "place.json"
"""Beside an index. No hash is taken of it: the same shards elsewhere are the same data."""


@dataclass(frozen=True, kw_only=True)
class StoreConfig:
    """Section `store` of params.yaml: where shards lie."""

    place: str
    """A folder, which git and DVC leave alone, or s3://bucket/prefix (extra `s3`)."""
    utterances_per_shard: int
    """At most, of the utterances that are computed and written together. Another number makes every shard anew."""
    cache: str
    """Folder on a disk of this machine for shards of a bucket; every process on the machine shares it."""
    cache_gib: float
    """How much that folder may hold."""

    def __post_init__(self) -> None:
        if self.utterances_per_shard < 1:
            raise ValueError(f"utterances_per_shard must be at least 1, not {self.utterances_per_shard}")
        if not self.cache_gib > 0:
            raise ValueError(f"cache_gib must be above 0, not {self.cache_gib}")
        if not self.place or ("://" in self.place and not self.place.startswith(REMOTE)):
            raise ValueError(f"place must be a folder or {REMOTE[0]}bucket/prefix, not '{self.place}'")

    def as_place(self) -> "Place":
        return Place(self.place, self.cache, int(self.cache_gib * 2**30))


@dataclass(frozen=True)
class Place:
    """A store, and the folder with its bound in bytes for what is fetched from it."""

    store: str
    cache: str
    cache_bytes: int

    @property
    def remote(self) -> bool:
        """Whether the store is a bucket."""
        return self.store.startswith(REMOTE)

    def seen_from(self, folder: Path) -> "Place":
        """The same with relative names as `folder` sees them, so that a project may be moved."""

        def seen(name: str) -> str:
            return name if Path(name).is_absolute() or name.startswith(REMOTE) else os.path.relpath(name, folder)

        return Place(seen(self.store), seen(self.cache), self.cache_bytes)

    def write(self, folder: Path) -> None:
        """Keep it in `folder`, from where relative names are seen."""
        write_json(folder / FILE, asdict(self))

    @classmethod
    def read(cls, folder: Path, repair: str) -> Self:
        """The place that `folder` names. Raises SonorantError, ending in `repair`, if it is missing or damaged."""
        try:
            kept = read_json(folder / FILE)
            store, cache, size = str(kept["store"]), str(kept["cache"]), int(kept["cache_bytes"])
        except (SonorantError, KeyError, TypeError, ValueError):
            raise SonorantError(f"{folder / FILE}: missing or damaged; {repair}") from None
        # By name, as they were written: `folder` may be reached through a link.
        here, there = (os.path.normpath(folder / name) for name in (store, cache))
        return cls(store if store.startswith(REMOTE) else here, there, size)
