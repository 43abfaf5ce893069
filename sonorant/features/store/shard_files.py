"""A shard in a store: arrays named by their hash, and a JSON file written last.

The JSON file is named by a hash of everything from which the shard is computed. So a stage finds the shards of earlier
runs, and two stages may compute the same shard simultaneously.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.features.store.place import open_store
from sonorant.features.store.store import Store
from sonorant.files import sha256_file

OBJECTS, SHARDS = "objects", "shards"
_AT_ONCE = 16  # threads that read small files


@dataclass(frozen=True)
class Shard:
    objects: dict[str, str]
    """SHA-256 of each array's file, by array name."""
    sizes: dict[str, int]
    """Sizes of the files in bytes, by array name."""
    rows: dict[str, list[Any]]
    """Columns with a value per utterance, in shard order."""


def object_name(sha256: str) -> str:
    return f"{OBJECTS}/{sha256[:2]}/{sha256}"


def shard_name(key: str) -> str:
    return f"{SHARDS}/{key[:2]}/{key}.json"


def write_shard(store: Store, key: str, arrays: dict[str, Path], rows: dict[str, list[Any]]) -> Shard:
    """Write a shard from files in a draft folder of the store; return the stored shard."""
    hashes, sizes = {}, {}
    for name, file in arrays.items():
        hashes[name], sizes[name] = sha256_file(file), file.stat().st_size
        store.put(file, object_name(hashes[name]))
    kept = store.create(shard_name(key), json.dumps(asdict(Shard(hashes, sizes, rows))).encode())
    found = _parsed(kept)
    assert found is not None, key  # written here or by another process
    return found


def find_shards(store: Store, keys: Sequence[str]) -> list[Shard | None]:
    """Return complete shards, and None for each missing one. The JSON file of a shard that lacks an array is
    removed."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        kept = list(threads.map(lambda key: store.read(shard_name(key)), keys))
    # Listed afterwards, because JSON files are written last.
    there = {entry.name: entry.size for entry in store.entries(OBJECTS)}
    found = [_parsed(data) if data is not None else None for data in kept]
    for place, (key, data) in enumerate(zip(keys, kept, strict=True)):
        shard = found[place]
        if shard and any(there.get(object_name(shard.objects[name])) != shard.sizes[name] for name in shard.objects):
            found[place] = shard = None
        if data is not None and shard is None:
            store.delete(shard_name(key))
    return found


def check_written(place: str, keys: Sequence[str]) -> None:
    """Raise SonorantError if a shard written by a worker is not visible on this machine."""
    store = open_store(place)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        lost = sum(data is None for data in threads.map(lambda key: store.read(shard_name(key)), keys))
    if lost:
        raise SonorantError(
            f"store {place}: {lost} of {len(keys)} shards written by workers are missing; mount the same folder "
            "on all machines, or set store.place to a bucket"
        )


def _parsed(data: bytes) -> Shard | None:
    try:
        return Shard(**json.loads(data))
    except (ValueError, TypeError):
        return None
