"""The index of a feature store: a table with a row per utterance, kept as memory-mapped .npy columns.

All ranks on a machine share its pages. U utterances, K shards, F arrays of a shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.errors import SonorantError
from sonorant.features.array_file import array_hash, content_hash

COLUMNS: dict[str, Any] = {
    "frames": np.int64,
    "first_frame": np.int64,
    "tokens": np.int64,
    "first_token": np.int64,
    "speaker": np.int64,
    "split": np.uint8,
    "shard": np.int32,
    "by_shard": np.int64,
    "shard_ends": np.int64,
    "shard_objects": np.uint8,
    "id_ends": np.int64,
    "id_bytes": np.uint8,
}
"""Data types of columns. All are (U,) except `shard_ends` (K,), the ends of shards in `by_shard`; `shard_objects` (K,
F, 32), the SHA-256 of arrays; and `id_bytes`, all ids in UTF-8, which end at `id_ends`."""
FOLDER = "index"
FILES = tuple(f"{FOLDER}/{name}.npy" for name in COLUMNS)
_REPAIR = "run: dvc repro features"


class Ids(Sequence[str]):
    """Utterance ids, decoded on access."""

    def __init__(self, data: np.ndarray, ends: np.ndarray) -> None:
        self._data, self._ends = data, ends

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, place: int) -> str:  # type: ignore[override]  # no slices
        place = range(len(self))[place]
        first = int(self._ends[place - 1]) if place else 0
        return bytes(self._data[first : int(self._ends[place])]).decode("utf-8")


class Index:
    """Memory-mapped columns, see `COLUMNS`. `first_frame` and `first_token` are offsets in the shard, `split` and
    `speaker` positions in the header's lists; `by_shard` contains the utterances in shard order."""

    frames: np.ndarray
    first_frame: np.ndarray
    tokens: np.ndarray
    first_token: np.ndarray
    speaker: np.ndarray
    split: np.ndarray
    shard: np.ndarray
    by_shard: np.ndarray
    shard_ends: np.ndarray
    shard_objects: np.ndarray

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        vars(self).update(columns)
        self.ids = Ids(columns["id_bytes"], columns["id_ends"])

    @classmethod
    def open(cls, store: Path, content: str, *, compared: bool = False) -> Index:
        """Open the index of `store`. `content`: hash in the header; `compared`: whether it was already checked. Raises
        SonorantError if a column is missing or has changed."""
        columns = {name: _mapped(store / file) for name, file in zip(COLUMNS, FILES, strict=True)}
        if not compared and content_hash([array_hash(store / file) for file in FILES]) != content:
            raise SonorantError(f"{store / FOLDER}: does not match the header; {_REPAIR}")
        return cls(columns)

    def __len__(self) -> int:
        return len(self.frames)

    def in_shard(self, shard: int) -> np.ndarray:
        """Return the indices (int64) of a shard's utterances in shard order."""
        first = int(self.shard_ends[shard - 1]) if shard else 0
        return self.by_shard[first : int(self.shard_ends[shard])]


def _mapped(column: Path) -> np.ndarray:
    try:
        return np.load(column, mmap_mode="r").view(np.ndarray)
    except FileNotFoundError:
        raise SonorantError(f"{column}: no such file; {_REPAIR}") from None
    except (OSError, ValueError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise SonorantError(f"{column}: truncated or damaged ({reason}); {_REPAIR}") from None


@dataclass(frozen=True)
class Rows:
    """Input of `write_index`; columns as in `Index`."""

    ids: Sequence[str]
    split: np.ndarray
    speaker: np.ndarray
    frames: np.ndarray
    tokens: np.ndarray
    shards: Sequence[np.ndarray]
    """Utterances of each shard, in shard order."""
    objects: np.ndarray
    """SHA-256 of each shard's arrays, uint8 (K, F, 32)."""


def write_index(store: Path, rows: Rows) -> str:
    """Write the index of a new store; return its hash."""
    sizes = np.array([len(members) for members in rows.shards], dtype=np.int64)
    by_shard = np.concatenate(rows.shards) if len(rows.shards) else np.zeros(0, np.int64)
    shard = np.zeros(len(by_shard), np.int32)
    shard[by_shard] = np.repeat(np.arange(len(sizes)), sizes)
    ids = [name.encode("utf-8") for name in rows.ids]
    columns = vars(rows) | {
        "first_frame": begins(rows.frames, by_shard, np.cumsum(sizes)),
        "first_token": begins(rows.tokens, by_shard, np.cumsum(sizes)),
        "shard": shard,
        "by_shard": by_shard,
        "shard_ends": np.cumsum(sizes),
        "shard_objects": rows.objects,
        "id_ends": np.cumsum(np.fromiter(map(len, ids), np.int64, len(ids))),
        "id_bytes": np.frombuffer(b"".join(ids), np.uint8),
    }
    (store / FOLDER).mkdir()
    for name, file in zip(COLUMNS, FILES, strict=True):
        np.save(store / file, np.ascontiguousarray(columns[name], dtype=COLUMNS[name]))
    return content_hash([array_hash(store / file) for file in FILES])


def begins(counts: np.ndarray, by_shard: np.ndarray, shard_ends: np.ndarray) -> np.ndarray:
    """Return the offset of each utterance in its shard, int64 (U,). `counts` (U,): rows of each utterance."""
    after = np.cumsum(counts[by_shard])
    firsts = np.concatenate([[0], shard_ends[:-1]])[: len(shard_ends)]
    before_shard = np.concatenate([[0], after])[firsts]
    found = np.zeros(len(counts), np.int64)
    found[by_shard] = after - counts[by_shard] - np.repeat(before_shard, shard_ends - firsts)
    return found
