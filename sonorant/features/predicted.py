"""A feature store with predicted mels, on which the waveform model is trained because it receives them in synthesis.

It shares everything except the mels with the recordings' store. Shapes: T frames, M mel bins.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.errors import SonorantError
from sonorant.features.array_file import ArrayWriter, array_hash
from sonorant.features.feature_store import FILES, HEADER, SAID_BY, SAID_MELS, FeatureStore, store_hash
from sonorant.files import atomic_folder, locked, read_json, sha256_file, write_json

VERSION = 1
"""Increase this version if the same model predicts different mels from the same recordings."""
Says = Callable[[FeatureStore], Iterator[Floats]]
"""Function that yields each utterance's predicted log-mel (T, M) in order, with as many frames as the recording."""


def predicted_store(features: Path, predictor: Path, folder: Path, says: Says) -> Path:
    """Return a store of `features` with the mels that `says` predicts with the model in `predictor`. It is created in
    `folder` unless it exists; concurrent processes wait for the first.

    Raises SonorantError if the disk is full, the features are damaged, or a mel is not finite or has a wrong length.
    """
    key = _key(features, predictor)
    target = folder / key[:32]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / f"{target.name}.lock"):
            if not _whole(target, key):
                _write(features, target, key, says)
    except OSError as error:
        raise SonorantError(f"{error.filename or folder}: {error.strerror}; free disk space and start again") from None
    return target


def _key(features: Path, predictor: Path) -> str:
    # Without provenance, because another commit may train the same weights.
    described = {key: value for key, value in read_json(predictor / "model.json").items() if key != "provenance"}
    parts = [VERSION, store_hash(features), sha256_file(predictor / "weights.pt"), described]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _whole(store: Path, key: str) -> bool:
    try:
        opened = FeatureStore.open(store)
        opened.verify()
    except SonorantError:
        return False
    return bool(opened.header.get(SAID_BY) == key)


def _write(features: Path, target: Path, key: str, says: Says) -> None:
    from tqdm import tqdm  # not needed to read a store

    store = FeatureStore.open(features)
    store.verify()  # otherwise damage would be copied under a new hash
    bins = store.audio.n_mels
    with atomic_folder(target) as new:
        with ArrayWriter(new / SAID_MELS, np.float16, (bins,)) as mels:
            said = tqdm(says(store), desc="predicted mels", unit="utterance", total=len(store))
            for i, mel_TM in zip(range(len(store)), said, strict=True):
                if mel_TM.shape != (store.frames[i], bins) or not np.isfinite(mel_TM).all():
                    wanted = f"not finite or not of the recording's shape {(int(store.frames[i]), bins)}"
                    raise SonorantError(
                        f"utterance '{store.ids[i]}': the predicted mel {mel_TM.shape} is {wanted}; train again"
                    )
                mels.append(mel_TM.astype(np.float16))
        for name in FILES:
            (new / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(features / name, new / name)
        store.place.seen_from(target).write(new)
        write_json(new / HEADER, store.header | {SAID_MELS: array_hash(new / SAID_MELS), SAID_BY: key})
