"""Read the arrays of an index's shards from their store."""

from __future__ import annotations

import resource
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.errors import SonorantError
from sonorant.features.array_file import ArrayFile
from sonorant.features.store import Place, open_store
from sonorant.features.store.bucket_cache import Cache, Lost
from sonorant.features.store.shard_files import OBJECTS, object_name
from sonorant.files import sha256_file

_OPEN = 4096
"""Maximum number of open files. Opening a file per row takes longer than reading it."""
_SHARE = 4
"""Divisor of the process's limit on open files: 1024 / 4 allows all arrays of a window of 64 shards."""
_TRIES = 100  # another process may evict a file before it is opened here


class Shards:
    """Rows of arrays by shard and position. K shards, F arrays per shard.

    Arrays in a folder are read in place. Arrays in a bucket are downloaded whole on first read and compared with their
    hash; see `sonorant.features.store.bucket_cache`.
    """

    def __init__(
        self,
        index: Path,
        place: Place,
        objects: np.ndarray,
        arrays: Mapping[str, tuple[Any, tuple[int, ...]]],
        remake: str,
    ) -> None:
        """`index`: folder, for messages; `objects`: uint8 (K, F, 32), SHA-256 of files; `arrays`: dtype and row shape
        of the F arrays, in order; `remake`: command that computes missing shards."""
        self._index, self._store = index, open_store(place.store)
        self._cache = Cache(self._store, Path(place.cache), place.cache_bytes)
        self._objects, self._arrays, self._remake = objects, dict(arrays), remake
        self._numbers = {name: number for number, name in enumerate(arrays)}
        self._open: OrderedDict[tuple[str, int], ArrayFile] = OrderedDict()
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = _OPEN if allowed == resource.RLIM_INFINITY else max(1, min(_OPEN, allowed // _SHARE))
        self._held: dict[str, list[np.ndarray]] = {}
        self._kept: dict[tuple[str, int, int, int], np.ndarray] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def read(self, name: str, shard: int, first: int, count: int, *, keep: bool = False) -> np.ndarray:
        """Return a copy of `count` rows from `first`. `keep`: keep them in memory, even if evicted from the cache.

        Raises SonorantError if the array is missing, damaged or too short.
        """
        if not keep or self.held or self._store.local(self._object(name, shard)) is not None:
            return self._read(name, shard, first, count)
        key = name, shard, first, count
        if key not in self._kept:
            self._kept[key] = self._read(*key)
        return self._kept[key].copy()

    def _read(self, name: str, shard: int, first: int, count: int) -> np.ndarray:
        if self._held:
            return self._held[name][shard][first : first + count].copy()
        file = self._open.get((name, shard))
        if file is None:
            file = self._opened(name, shard)
        else:
            # Not `move_to_end`, because the prefetching thread may have removed it.
            self._open.pop((name, shard), None)
            self._open[name, shard] = file
        rows = file.read(first, count)
        if len(rows) != count:
            raise SonorantError(
                f"{self._named(name, shard)}: contains {len(file)} rows, fewer than in the index; {self._mend}"
            )
        return rows

    @property
    def held(self) -> bool:
        return bool(self._held)

    def hold(self) -> None:
        """Load all arrays into memory."""
        self._held = {
            name: [self._opened(name, shard).read_all() for shard in range(len(self))] for name in self._arrays
        }
        self._open.clear()

    def fetch(self, shards: Iterable[int], names: Sequence[str]) -> None:
        """Download these arrays into the cache, and close evicted files to free disk space. Thread-safe."""
        for key, file in list(self._open.items()):
            if file.removed:
                self._open.pop(key, None)
        if not self.held:
            for shard, name in product(shards, names):
                self._path(name, shard)

    def copy(self, target: Path) -> None:
        """Copy all arrays to a store in the folder `target`."""
        for name, shard in self._all():
            file = target / self._object(name, shard)
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists() and not self._store.fetch(self._object(name, shard), file):
                raise self._missing(name, shard)

    def check(self) -> None:
        """Raise SonorantError naming the first missing array."""
        there = {entry.name for entry in self._store.entries(OBJECTS)}
        for name, shard in self._all():
            if self._object(name, shard) not in there:
                raise self._missing(name, shard)

    def verify(self) -> None:
        """Raise SonorantError naming the first array that is missing or, in a folder, differs from its hash."""
        self.check()
        for name, shard in self._all():
            file = self._store.local(self._object(name, shard))
            if file is not None and sha256_file(file) != file.name:
                raise SonorantError(f"{self._named(name, shard)}: damaged; {self._mend}")

    def _all(self) -> Iterator[tuple[str, int]]:
        return product(self._arrays, range(len(self)))

    def _opened(self, name: str, shard: int) -> ArrayFile:
        cached, dropped = self._store.local(self._object(name, shard)) is None, False
        for _ in range(_TRIES):
            path = self._path(name, shard)
            try:
                file = ArrayFile(path)
            except FileNotFoundError:
                if not cached:
                    raise self._missing(name, shard) from None
                continue
            except (OSError, ValueError, EOFError) as error:
                if cached and not dropped:  # the store's copy may be intact
                    self._cache.drop(self._object(name, shard))
                    dropped = True
                    continue
                reason = " ".join(str(error).split())
                where = self._named(name, shard) if cached else path
                raise SonorantError(f"{where}: truncated or damaged ({reason}); {self._mend}") from None
            break
        else:
            raise SonorantError(
                f"{self._named(name, shard)}: evicted from the cache before it was read; raise store.cache_gib"
            )
        dtype, row_shape = self._arrays[name]
        if file.dtype != dtype or file.shape[1:] != row_shape:
            raise SonorantError(f"{path}: {file.dtype.name} {file.shape} is not an array of {name}; {self._mend}")
        self._open[name, shard] = file
        # An evicted file, perhaps this one too, takes disk space until it is closed.
        while len(self._open) > self._most or (cached and self._open and next(iter(self._open.values())).removed):
            self._open.popitem(last=False)
        return file

    def _path(self, name: str, shard: int) -> Path:
        local = self._store.local(self._object(name, shard))
        if local is not None:
            return local
        try:
            return self._cache.path(self._object(name, shard))
        except Lost as error:
            raise SonorantError(f"{error}; {self._mend}") from None

    def _object(self, name: str, shard: int) -> str:
        return object_name(self._objects[shard, self._numbers[name]].tobytes().hex())

    def _named(self, name: str, shard: int) -> str:
        return f"{self._store.place}/{self._object(name, shard)} ({name} of shard {shard})"

    @property
    def _mend(self) -> str:
        return f"run: sonorant store check --delete-damaged {self._index} && {self._remake}"

    def _missing(self, name: str, shard: int) -> SonorantError:
        return SonorantError(f"{self._named(name, shard)}: no such file; run: {self._remake}")
