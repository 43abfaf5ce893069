"""Maintain a store: remove unneeded shards, find damaged ones, and copy an index's shards to a different store."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.features.store.marks import KEYS, MARKS, mark_name, unpacked
from sonorant.features.store.place import Place, open_store
from sonorant.features.store.shard_files import OBJECTS, SHARDS, object_name, shard_name
from sonorant.features.store.store import Entry, Store
from sonorant.files import sha256_file

_REPAIR = "run the stage that writes it (dvc repro)"


@dataclass(frozen=True)
class Needed:
    """The shards and arrays that an index needs."""

    index: Path
    place: Place
    keys: bytes
    """Keys of the shards, as in the file `KEYS`."""
    objects: frozenset[str]

    @classmethod
    def of(cls, index: Path, objects: Iterable[bytes]) -> Needed:
        """List the shards and arrays that the index in folder `index` refers to. `objects` holds the SHA-256 of each
        array. Raises SonorantError if a file is missing."""
        place = Place.read(index, _REPAIR)
        try:
            keys = (index / KEYS).read_bytes()
        except FileNotFoundError:
            raise SonorantError(f"{index / KEYS}: no such file; {_REPAIR}") from None
        return cls(index, place, keys, frozenset(object_name(one.hex()) for one in objects))


def store_of(needed: Collection[Needed]) -> Store:
    """Open the store of these indexes. Raises SonorantError if they use several."""
    places = {one.place.store if one.place.remote else str(Path(one.place.store).resolve()) for one in needed}
    if len(places) != 1:
        raise SonorantError(
            f"the indexes belong to several stores ({', '.join(sorted(places))}); give indexes of one store"
        )
    return open_store(places.pop())


@dataclass(frozen=True)
class Removed:
    """Number of items removed by `collect`."""

    indexes: int
    shards: int
    objects: int
    drafts: int
    bytes: int


class _Uses:
    """Names of shards and arrays in use: in `needed`, in marks newer than `old` and, unless `only`, in all marks."""

    def __init__(self, store: Store, needed: Collection[Needed], only: bool, old: float) -> None:
        self._store, self._only, self._old = store, only, old
        self._own = {mark_name(one.keys) for one in needed}
        self._names = {name for one in needed for name in one.objects}
        self._read: set[str] = set()
        self._arrays: dict[str, list[str]] = {}
        for one in needed:
            self._take(one.keys)

    def names(self) -> set[str]:
        """Return the used names. Call this after listing the store, because a stage marks shards before searching for
        them."""
        for note in self._store.entries(MARKS):
            if note.name not in self._read and not self._forgettable(note):
                self._read.add(note.name)
                self._take(self._store.read(note.name) or b"")
        return self._names

    def forgettable(self) -> list[str]:
        return [note.name for note in self._store.entries(MARKS) if self._forgettable(note)]

    def arrays(self, shard: str) -> list[str]:
        """Return a shard's arrays as first read, because its file may have been removed since."""
        if not self._arrays.get(shard):
            self._arrays[shard] = _objects_of(self._store, shard)
        return self._arrays[shard]

    def _forgettable(self, note: Entry) -> bool:
        return self._only and note.name not in self._own and note.modified <= self._old

    def _take(self, keys: bytes) -> None:
        shards = {shard_name(key) for key in unpacked(keys)} - self._names
        self._names |= shards | {name for shard in shards for name in self.arrays(shard)}


def collect(needed: Collection[Needed], *, only: bool, hours: float, dry_run: bool) -> Removed:
    """Remove shards and arrays that no index needs, and drafts of killed processes.

    Items newer than `hours` are kept, because a running stage may need them, and so are shards marked meanwhile.
    """
    store, old = store_of(needed), time.time() - 3600 * hours
    uses = _Uses(store, needed, only, old)
    # JSON files are removed first, so that a half-removed shard never counts as complete.
    lost = [entry for folder in (SHARDS, OBJECTS) for entry in _unused(store, folder, uses, old)]
    if not dry_run:
        folders = dict.fromkeys(entry.name.rpartition("/")[0] for entry in lost)
        lost = [entry for folder in folders for entry in _remove_unused(store, folder, uses, old)]
    forgotten = uses.forgettable()
    if not dry_run:
        for name in forgotten:
            store.delete(name)
    drafts = store.tidy(old, dry_run=dry_run)
    shards = sum(entry.name.startswith(f"{SHARDS}/") for entry in lost)
    freed = sum(entry.size for entry in (*lost, *drafts))
    return Removed(len(forgotten), shards, len(lost) - shards, len(drafts), freed)


def _unused(store: Store, folder: str, uses: _Uses, old: float) -> list[Entry]:
    there = [entry for entry in store.entries(folder) if entry.modified <= old]
    used = uses.names()
    return [entry for entry in there if entry.name not in used]


def _remove_unused(store: Store, folder: str, uses: _Uses, old: float) -> list[Entry]:
    """Remove unused entries of a folder, listed again because a stage may have started since."""
    lost = _unused(store, folder, uses, old)
    for entry in lost:
        if entry.name.startswith(f"{SHARDS}/"):
            uses.arrays(entry.name)  # a stage that starts now may have read the file
        store.delete(entry.name)
    return lost


def faults(needed: Collection[Needed]) -> Iterator[tuple[str, str]]:
    """Yield the name of each missing or damaged array with "missing" or "damaged"."""
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
    """Copy these indexes' shards to a different store; return the number of objects copied."""
    store, copied = store_of(needed), 0
    there = {entry.name for folder in (OBJECTS, SHARDS) for entry in target.entries(folder)}
    for one in needed:
        target.create(mark_name(one.keys), one.keys)
        for name in (*sorted(one.objects), *map(shard_name, unpacked(one.keys))):  # JSON files last
            if name in there:
                continue
            with target.draft() as folder:
                if store.fetch(name, folder / "object"):
                    target.put(folder / "object", name)
                    copied += 1
                elif name in one.objects:
                    raise SonorantError(
                        f"{store.place}/{name}: no such object; "
                        "rerun the stage that wrote it on the machine that computed it"
                    )
    return copied


def _objects_of(store: Store, shard: str) -> list[str]:
    with suppress(ValueError, KeyError, TypeError):
        kept = store.read(shard)
        return [object_name(sha256) for sha256 in json.loads(kept)["objects"].values()] if kept else []
    return []
