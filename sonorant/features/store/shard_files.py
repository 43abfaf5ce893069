"""A shard in a store: its arrays, and the file written last that says they are all there.

A shard is named by its key, a hash of all that it is computed from; its arrays by their own content. So a stage finds
what an earlier one has computed, whoever it was, and two that compute the same at the same time do not disturb each
other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.features.store.store import Store, open_store
from sonorant.files import sha256_file

OBJECTS, SHARDS = "objects", "shards"
_AT_ONCE = 16  # small files read from a bucket, where waiting is most of it


@dataclass(frozen=True)
class Shard:
    """A whole one."""

    objects: dict[str, str]
    """Name of each array, and the SHA-256 of its file."""
    sizes: dict[str, int]
    """Bytes of these files."""
    rows: dict[str, list[Any]]
    """What is known of each utterance, a column each, as they lie in the shard."""


def object_name(sha256: str) -> str:
    """Of an array in the store."""
    return f"{OBJECTS}/{sha256[:2]}/{sha256}"


def shard_name(key: str) -> str:
    """Of the file that says that a shard is whole."""
    return f"{SHARDS}/{key[:2]}/{key}.json"


def write_shard(store: Store, key: str, arrays: dict[str, Path], rows: dict[str, list[Any]]) -> Shard:
    """Keep a shard of these files, which lie in a draft of the store; return what the store holds under this key."""
    hashes, sizes = {}, {}
    for name, file in arrays.items():
        hashes[name], sizes[name] = sha256_file(file), file.stat().st_size
        store.put(file, object_name(hashes[name]))
    kept = store.create(shard_name(key), json.dumps(asdict(Shard(hashes, sizes, rows))).encode())
    found = _parsed(kept)
    assert found is not None, key  # just written, or by another process that computed the same
    return found


def find_shards(store: Store, keys: Sequence[str]) -> list[Shard | None]:
    """The shards that are whole; None for each that is missing, or misses an array. Such a one's last file is removed,
    so that it can be written again."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        kept = list(threads.map(lambda key: store.read(shard_name(key)), keys))
    there = {
        entry.name: entry.size for entry in store.entries(OBJECTS)
    }  # looked at afterwards: whoever writes the last file has written the others
    found = [_parsed(data) if data is not None else None for data in kept]
    for place, (key, data) in enumerate(zip(keys, kept, strict=True)):
        shard = found[place]
        if shard and any(there.get(object_name(shard.objects[name])) != shard.sizes[name] for name in shard.objects):
            found[place] = shard = None
        if data is not None and shard is None:
            store.delete(shard_name(key))
    return found


def check_written(place: str, keys: Sequence[str]) -> None:
    """Raises SonorantError if a shard that a worker has written is not in the store as this process sees it."""
    store = open_store(place)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        lost = sum(data is None for data in threads.map(lambda key: store.read(shard_name(key)), keys))
    if lost:
        raise SonorantError(
            f"store {place}: {lost} of {len(keys)} shards that workers have written are not there: on every machine "
            "this must be the same folder, or a bucket (store.place)"
        )


def _parsed(data: bytes) -> Shard | None:
    try:
        return Shard(**json.loads(data))
    except (ValueError, TypeError):
        return None
