"""Keep a store in order: remove what no index needs, find what is damaged, copy what an index needs elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.files import sha256_file
from sonorant.store.marks import KEYS, MARKS, mark_name, marked, unpacked
from sonorant.store.place import Place
from sonorant.store.shards import OBJECTS, SHARDS, key_of_shard, object_name, shard_name
from sonorant.store.store import Store, open_store

_REPAIR = "run the stage that writes it (dvc repro)"


@dataclass(frozen=True)
class Needed:
    """What an index on this machine needs of its store."""

    index: Path
    place: Place
    keys: bytes
    """Of its shards, as `KEYS` has them."""
    objects: frozenset[str]
    """Names of its arrays in the store."""

    @classmethod
    def of(cls, index: Path, objects: Iterable[bytes]) -> Needed:
        """Of the folder `index`, which names arrays by these SHA-256. Raises SonorantError if a file is missing."""
        place = Place.read(index, _REPAIR)
        try:
            keys = (index / KEYS).read_bytes()
        except FileNotFoundError:
            raise SonorantError(f"{index / KEYS}: no such file; {_REPAIR}") from None
        return cls(index, place, keys, frozenset(object_name(one.hex()) for one in objects))


def store_of(needed: Collection[Needed]) -> Store:
    """The one store that these indexes were made from. Raises SonorantError if there are two."""
    places = {one.place.store if one.place.remote else str(Path(one.place.store).resolve()) for one in needed}
    if len(places) != 1:
        raise SonorantError(f"the indexes are of different stores ({', '.join(sorted(places))}); name those of one")
    return open_store(places.pop())


@dataclass(frozen=True)
class Removed:
    """What `collect` removed, or would."""

    indexes: int
    shards: int
    objects: int
    bytes: int


def collect(needed: Collection[Needed], *, only: bool, hours: float, dry_run: bool) -> Removed:
    """Remove shards and arrays that no index needs: neither those given nor, unless `only`, any that was ever made from
    the store. What is younger than `hours` stays, as a stage at work may have written it, and so does what an index
    needs that was begun since."""
    store = store_of(needed)
    old = time.time() - 3600 * hours
    objects = [entry for entry in store.entries(OBJECTS) if entry.modified <= old]
    shards = [entry for entry in store.entries(SHARDS) if entry.modified <= old]
    own = {mark_name(one.keys) for one in needed}
    notes = marked(store)  # looked at after the shards: a stage notes what it needs before it looks for it
    begun = {entry.name for entry in store.entries(MARKS) if entry.modified > old}
    forgotten = [name for name in notes if only and name not in own and name not in begun]
    keys = {key for name, data in notes.items() if name not in forgotten for key in unpacked(data)}
    keys |= {key for one in needed for key in unpacked(one.keys)}
    kept = {name for one in needed for name in one.objects}
    kept |= {name for key in keys for name in _objects_of(store, key)}
    lost_shards = [entry for entry in shards if key_of_shard(entry.name) not in keys]
    lost_objects = [entry for entry in objects if entry.name not in kept]
    if not dry_run:  # the last file of a shard first: what is half removed is never taken for whole
        for name in (*forgotten, *(entry.name for entry in (*lost_shards, *lost_objects))):
            store.delete(name)
    freed = sum(entry.size for entry in (*lost_shards, *lost_objects))
    return Removed(len(forgotten), len(lost_shards), len(lost_objects), freed)


def faults(needed: Collection[Needed]) -> Iterator[tuple[str, str]]:
    """Name of each array that is missing or damaged, and which of the two."""
    store = store_of(needed)
    with store.draft() as folder:
        for name in sorted(name for one in needed for name in one.objects):
            file = store.local(name) or folder / "fetched"
            there = file.exists() if store.local(name) else store.fetch(name, file)
            if not there:
                yield name, "missing"
            elif sha256_file(file) != name.rsplit("/", 1)[-1]:
                yield name, "damaged"


def copy(needed: Collection[Needed], target: Store) -> int:
    """Copy what is missing of these indexes' shards to another store; return how many objects that were."""
    store, copied = store_of(needed), 0
    there = {entry.name for folder in (OBJECTS, SHARDS) for entry in target.entries(folder)}
    for one in needed:
        target.create(mark_name(one.keys), one.keys)
        for name in (*sorted(one.objects), *map(shard_name, unpacked(one.keys))):  # what says "whole" last
            if name in there:
                continue
            with target.draft() as folder:
                if store.fetch(name, folder / "object"):
                    target.put(folder / "object", name)
                    copied += 1
                elif name in one.objects:
                    raise SonorantError(f"{store.place}/{name}: no such object; make it anew where it was made")
    return copied


def _objects_of(store: Store, key: str) -> list[str]:
    with suppress(ValueError, KeyError, TypeError):
        kept = store.read(shard_name(key))
        return [object_name(sha256) for sha256 in json.loads(kept)["objects"].values()] if kept else []
    return []
