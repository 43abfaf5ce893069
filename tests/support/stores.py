"""Edit feature stores: rewrite the index and its header, or damage a shard."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.features.feature_store import ARRAYS, FeatureStore
from sonorant.features.index import FOLDER, Index, Rows, write_index
from sonorant.features.local_copy import local_copy
from sonorant.features.store.shard_files import object_name
from sonorant.files import read_json, write_json

_NAMES = ("id", "split", "speaker", "frames", "tokens")


def rows_of(store: Path) -> list[dict[str, Any]]:
    """The index's data on each utterance: id, split, speaker, frames and tokens."""
    rows = _rows(store)
    columns = rows.split.tolist(), rows.speaker.tolist(), rows.frames.tolist(), rows.tokens.tolist()
    return [dict(zip(_NAMES, row, strict=True)) for row in zip(rows.ids, *columns, strict=True)]


def _rows(store: Path) -> Rows:
    """The rows that a store's index was written from."""
    index = Index.open(store, read_json(store / "header.json")["index"])
    return Rows(
        ids=list(index.ids),
        split=np.array(index.split),
        speaker=np.array(index.speaker),
        frames=np.array(index.frames),
        tokens=np.array(index.tokens),
        shards=[np.array(index.in_shard(shard)) for shard in range(len(index.shard_ends))],
        objects=np.array(index.shard_objects),
    )


def edit_index(store: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]], **header: Any) -> None:
    """Rewrite the index with `change` applied to `rows_of`, and `header` over the header's keys."""
    before = _rows(store)
    changed = change(rows_of(store))
    columns = {name: [row[name] for row in changed] for name in _NAMES}
    rows = Rows(
        ids=columns["id"],
        split=np.array(columns["split"]),
        speaker=np.array(columns["speaker"]),
        frames=np.array(columns["frames"]),
        tokens=np.array(columns["tokens"]),
        shards=before.shards,
        objects=before.objects,
    )
    shutil.rmtree(store / FOLDER)
    index = {"index": write_index(store, rows)}
    write_json(store / "header.json", read_json(store / "header.json") | header | index)


def own_copy(features: Path, folder: Path) -> Path:
    """A copy of a feature store in `folder` with its own shards, which a test may damage."""
    return local_copy(features, folder).rename(folder / "own")


def object_of(features: Path, name: str, shard: int = 0) -> Path:
    """The file of an array of a shard; `name` is in `ARRAYS`."""
    store = FeatureStore.open(features)
    sha256 = store.index.shard_objects[shard, ARRAYS.index(name)].tobytes().hex()
    return Path(store.place.store) / object_name(sha256)


def damage(file: Path) -> None:
    """Change the last byte of a file."""
    data = file.read_bytes()
    file.chmod(0o644)
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
