"""A copy of a feature store on a local disk, for features on slow storage."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.features.feature_store import FILES, SAID_BY, SAID_MELS, FeatureStore, store_hash
from sonorant.files import atomic_folder, locked

_SHARDS = "shards"
_NO_ROOM = "free disk space, choose another folder or set data.preload to none"


def copy_path(features: Path, folder: Path) -> Path:
    return folder / store_hash(features)[:32]


def local_copy(features: Path, folder: Path) -> Path:
    """Copy a feature store to `folder`, atomically, unless an intact copy exists; concurrent processes wait for the
    first.

    Raises SonorantError if the disk is full or not writable, or the features are damaged.
    """
    target = copy_path(features, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / f"{target.name}.lock"):
            if not _whole(target):
                _copy(features, target)
    except OSError as error:
        raise SonorantError(f"data.preload_folder {folder}: {error.strerror}; {_NO_ROOM}") from None
    return target


def _copy(features: Path, target: Path) -> None:
    for abandoned in target.parent.glob(
        f".{target.name}.*.tmp"
    ):  # left by a killed process, because this one holds the lock
        shutil.rmtree(abandoned)
    store = FeatureStore.open(features)
    needed, free = store.nbytes, shutil.disk_usage(target.parent).free
    if needed > free:
        sizes = f"{needed / 2**30:.2f} GiB of features, {free / 2**30:.2f} GiB free"
        raise SonorantError(f"data.preload_folder {target.parent}: {sizes}; {_NO_ROOM}")
    with atomic_folder(target) as copy:
        for name in (*FILES, *([SAID_MELS] if SAID_BY in store.header else [])):
            (copy / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(features / name, copy / name)
        store.copy_shards(copy / _SHARDS)
        replace(store.place, store=_SHARDS).write(copy)
        if not _whole(copy):
            store.verify()  # raises if the features themselves are damaged
            raise SonorantError(
                f"data.preload_folder {target.parent}: the copy is damaged; choose a folder on another disk"
            )


def _whole(store: Path) -> bool:
    try:
        FeatureStore.open(store).verify()
    except SonorantError:
        return False
    return True
