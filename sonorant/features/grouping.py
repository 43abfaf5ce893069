"""Group utterances into shards: the leaves of a binary trie over the hashes of their ids.

The grouping depends on the set of ids, not on their order. Adding or removing an utterance changes only its leaf.
"""

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

_BITS = 256


def leaves(ids: Sequence[str], most: int) -> list[np.ndarray]:
    """Return each leaf as positions in `ids`, int64, in hash order. A leaf has at most `most`."""
    digests = np.frombuffer(b"".join(hashlib.sha256(name.encode("utf-8")).digest() for name in ids), np.uint8)
    digests = digests.reshape(-1, 32)
    order = np.lexsort(digests.view(">u8").T[::-1])
    return [order[first:end] for first, end in _split(digests[order], 0, len(ids), 0, most)]


def _split(digests: np.ndarray, first: int, end: int, bit: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of sorted digests (U, 32) that form leaves. All digests share the bits before `bit`."""
    if first == end:
        return
    if end - first <= most or bit == _BITS:
        yield first, end
        return
    byte = digests[first:end, bit // 8]
    middle = first + int(np.count_nonzero(byte >> (7 - bit % 8) & 1 == 0))
    yield from _split(digests, first, middle, bit + 1, most)
    yield from _split(digests, middle, end, bit + 1, most)
