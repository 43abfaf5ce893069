"""The arrays of an index's shards, read from the store that they lie in."""

from __future__ import annotations

import math
import os
import resource
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
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
"""Files that are kept open at most, where the system allows as many. Opening one for each row takes longer than all
else that reads it."""
_SHARE = 4
"""Of the files that a process may open, one part in so many: it has features, codes and much else. Of the usual 1024
that is room for all arrays of a window of 64 shards."""
_TRIES = 100  # another process may remove a file from a full cache before it is opened here


class Shards:
    """Rows of arrays by shard and place. K shards, F arrays of each.

    In a folder they are read where they lie. Of a bucket, an array is fetched whole when a row of it is first asked
    for, and compared with its hash; see `sonorant.features.store.bucket_cache`. One whose length changed is
    fetched again.
    """

    def __init__(
        self,
        index: Path,
        place: Place,
        objects: np.ndarray,
        arrays: Mapping[str, tuple[Any, tuple[int, ...]]],
        remake: str,
    ) -> None:
        """`index`: its folder, for messages; `objects`: uint8 (K, F, 32), SHA-256 of files; `arrays`: dtype and shape
        of a row of each of the F, by name and in that order; `remake`: the command that computes what is missing."""
        self._index, self._store = index, open_store(place.store)
        self._cache = Cache(self._store, Path(place.cache), place.cache_bytes)
        self._objects, self._arrays, self._remake = objects, dict(arrays), remake
        self._numbers = {name: number for number, name in enumerate(arrays)}
        self._open: OrderedDict[tuple[str, int], ArrayFile] = OrderedDict()
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = _OPEN if allowed == resource.RLIM_INFINITY else max(1, min(_OPEN, allowed // _SHARE))
        self._held: dict[str, list[np.ndarray]] = {}
        self._kept = KeptRows(Path(place.cache))

    def __len__(self) -> int:
        return len(self._objects)

    def read(self, name: str, shard: int, first: int, count: int, *, keep: bool = False) -> np.ndarray:
        """A copy of `count` rows from `first` on of the array `name` of a shard.

        Args:
            keep: have these rows at hand for as long as this process lives, whatever leaves the cache.

        Raises SonorantError if it is missing, damaged or too short.
        """
        if not keep or self.held or self._store.local(self._object(name, shard)) is not None:
            return self._read(name, shard, first, count)
        key = name, shard, first, count
        kept = self._kept.find(key)
        return self._kept.add(key, self._read(*key)) if kept is None else kept

    def _read(self, name: str, shard: int, first: int, count: int) -> np.ndarray:
        if self._held:
            return self._held[name][shard][first : first + count].copy()
        file = self._open.get((name, shard))
        if file is None:
            file = self._opened(name, shard)
        else:
            # Not `move_to_end`: the thread that fetches ahead may have taken it out.
            self._open.pop((name, shard), None)
            self._open[name, shard] = file
        rows = file.read(first, count)
        if len(rows) != count:
            raise SonorantError(f"{self._named(name, shard)}: {len(file)} rows, more are in the index; {self._mend}")
        return rows

    @property
    def held(self) -> bool:
        """Whether all arrays are in memory."""
        return bool(self._held)

    def hold(self) -> None:
        """Read all arrays into memory, and from there on."""
        self._held = {
            name: [self._opened(name, shard).read_all() for shard in range(len(self))] for name in self._arrays
        }
        self._open.clear()

    def fetch(self, shards: Iterable[int], names: Sequence[str]) -> None:
        """Have these arrays on this machine, as far as the cache has room. Of a folder, nothing has to be done.

        Closes files that a full cache has removed, which take room on the disk until then. A thread may call it.
        """
        for key, file in list(self._open.items()):
            if file.removed:
                self._open.pop(key, None)
        for shard in shards:
            for name in names:
                if self._store.local(self._object(name, shard)) is None and not self.held:
                    self._path(name, shard)

    def copy(self, target: Path) -> None:
        """Write all objects into the folder `target`, which becomes a store of its own."""
        for name in self._arrays:
            for shard in range(len(self)):
                file = target / self._object(name, shard)
                file.parent.mkdir(parents=True, exist_ok=True)
                if not file.exists() and not self._store.fetch(self._object(name, shard), file):
                    raise self._missing(name, shard)

    def check(self) -> None:
        """Look whether all arrays are there. Raises SonorantError naming the first that is not."""
        bucket = len(self) > 0 and self._store.local(self._object(next(iter(self._arrays)), 0)) is None
        there = {entry.name for entry in self._store.entries(OBJECTS)} if bucket else set()
        for name in self._arrays:
            for shard in range(len(self)):
                file = self._store.local(self._object(name, shard))
                if not (file.exists() if file else self._object(name, shard) in there):
                    raise self._missing(name, shard)

    def verify(self) -> None:
        """Read all arrays through and compare them with their hashes. Those of a bucket are compared as they are
        fetched. Raises SonorantError naming the first that is damaged."""
        for name in self._arrays:
            for shard in range(len(self)):
                file = self._store.local(self._object(name, shard))
                if file is None:
                    return
                if sha256_file(file) != file.name:
                    raise SonorantError(f"{self._named(name, shard)}: not what was written; {self._mend}")

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
                if cached and not dropped:  # the store's own may be whole
                    self._cache.drop(self._object(name, shard))
                    dropped = True
                    continue
                reason = " ".join(str(error).split())
                where = self._named(name, shard) if cached else path
                raise SonorantError(f"{where}: truncated or damaged ({reason}); {self._mend}") from None
            break
        else:
            raise SonorantError(f"{self._named(name, shard)}: pushed out of the cache again and again; raise cache_gib")
        dtype, row_shape = self._arrays[name]
        if file.dtype != dtype or file.shape[1:] != row_shape:
            raise SonorantError(f"{path}: holds {file.dtype.name} {file.shape}, not {name}; {self._mend}")
        self._open[name, shard] = file
        # What a full cache has removed takes room on the disk until it is closed; by now that may be this one as well.
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


class KeptRows:
    """Copies of rows in a file without a name below `folder`, which ends with the process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: Any = None
        self._places: dict[tuple[str, int, int, int], tuple[int, np.dtype, tuple[int, ...]]] = {}
        """By array, shard, first row and count: where they begin in the file, their dtype and shape."""
        self._end = 0

    def add(self, key: tuple[str, int, int, int], rows: np.ndarray) -> np.ndarray:
        """Keep rows and return them. Raises SonorantError if there is no room."""
        try:
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 (open to the end)
            data, place = memoryview(rows.tobytes()), self._end
            while data:
                written = os.pwrite(self._file.fileno(), data, place)
                data, place = data[written:], place + written
        except OSError as error:
            raise SonorantError(
                f"store.cache {self._folder}: {error.strerror}; make room there or name another"
            ) from None
        self._places[key] = self._end, rows.dtype, rows.shape
        self._end = place
        return rows

    def find(self, key: tuple[str, int, int, int]) -> np.ndarray | None:
        """The rows that were kept under this key."""
        if key not in self._places:
            return None
        place, dtype, shape = self._places[key]
        size = dtype.itemsize * math.prod(shape)
        return np.frombuffer(bytearray(os.pread(self._file.fileno(), size, place)), dtype).reshape(shape)
