"""The hashes that a feature store had in earlier layouts, by which the run directories of its trainings are found."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.features.array_file import content_hash
from sonorant.features.feature_store import FeatureStore
from sonorant.formerly import store_hash_of_version_2, store_hash_of_version_3


def former_hashes(path: Path) -> set[str]:
    """Those of the store at `path` in versions 2 and 3, which had all utterances in one file an array. Reads it all."""
    store = FeatureStore.open(path)
    read = (store.mel, store.pitch, store.samples, store.tokens)
    digests = [hashlib.sha256() for _ in read]
    for i in range(len(store)):
        for digest, array in zip(digests, read, strict=True):
            digest.update(array(i).tobytes())
    header = store.header | {"content": content_hash([digest.hexdigest() for digest in digests])}
    places = {"first_frame": _begins(store.frames), "first_token": _begins(store.tokens_count)}
    index = store.index
    ids = [name.encode("utf-8") for name in store.ids]
    columns: list[np.ndarray] = [
        store.frames, places["first_frame"], store.tokens_count, places["first_token"], store.speaker,
        np.asarray(store.split), np.cumsum([len(name) for name in ids]), np.frombuffer(b"".join(ids), np.uint8),
    ]  # fmt: skip
    hashed = content_hash([hashlib.sha256(np.ascontiguousarray(column).tobytes()).hexdigest() for column in columns])

    def row(i: int) -> dict[str, Any]:
        numbers = {"split": index.split, "speaker": index.speaker, "frames": index.frames, "tokens": index.tokens}
        return {"id": index.ids[i], **{name: int(column[i]) for name, column in (numbers | places).items()}}

    return {store_hash_of_version_2(header, map(row, range(len(store)))), store_hash_of_version_3(header, hashed)}


def _begins(counts: np.ndarray) -> np.ndarray:
    return np.cumsum(counts) - counts
