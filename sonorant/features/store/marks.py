"""Mark the shards in a store that an index needs, so that `gc` keeps them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from sonorant.features.store.store import Store

MARKS = "indexes"
KEYS = "shards.keys"
"""File of an index with its shards' keys, 32 bytes each. Not hashed, because keys depend on source code."""
KEY_BYTES = 32


def packed(keys: Sequence[str]) -> bytes:
    return bytes.fromhex("".join(keys))


def unpacked(data: bytes) -> Iterator[str]:
    return (data[first : first + KEY_BYTES].hex() for first in range(0, len(data), KEY_BYTES))


def mark(store: Store, keys: Sequence[str]) -> None:
    """Mark shards as needed before they are computed. Marks are rewritten each time: a recent mark means a running
    stage."""
    data = packed(keys)
    with store.draft() as folder:
        (folder / KEYS).write_bytes(data)
        store.put(folder / KEYS, mark_name(data))


def mark_name(data: bytes) -> str:
    return f"{MARKS}/{hashlib.sha256(data).hexdigest()}.keys"
