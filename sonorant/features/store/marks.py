"""Which shards an index needs, as the store itself knows it, so that `gc` never removes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from sonorant.features.store.store import Store

MARKS = "indexes"
KEYS = "shards.keys"
"""Beside an index: the keys of its shards, 32 bytes each. No hash is taken of it, as the code is part of a key."""
KEY_BYTES = 32


def packed(keys: Sequence[str]) -> bytes:
    """Keys, hex, as the bytes of a file."""
    return bytes.fromhex("".join(keys))


def unpacked(data: bytes) -> Iterator[str]:
    """The keys in the bytes of such a file."""
    return (data[first : first + KEY_BYTES].hex() for first in range(0, len(data), KEY_BYTES))


def mark(store: Store, keys: Sequence[str]) -> None:
    """Note in the store that an index needs the shards with these keys. Before they are computed, so that what a
    killed stage has done is kept as well. Written anew each time: its age says whether a stage may be at work."""
    data = packed(keys)
    with store.draft() as folder:
        (folder / KEYS).write_bytes(data)
        store.put(folder / KEYS, mark_name(data))


def mark_name(data: bytes) -> str:
    """The name of the note of an index with these keys."""
    return f"{MARKS}/{hashlib.sha256(data).hexdigest()}.keys"
