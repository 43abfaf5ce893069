"""A copy of a feature store on a disk of this machine, for features on slow storage. Does not know who reads it."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sonorant.data.features import AUDIO, MELS, TOKENS, FeatureStore, store_hash
from sonorant.errors import SonorantError
from sonorant.files import atomic_folder

FILES = ("header.json", "index.json", MELS, AUDIO, TOKENS)


def copy_path(features: Path, folder: Path) -> Path:
    """Where in `folder` the copy of these features belongs: named by their content, so that other features never meet it."""
    return folder / store_hash(features)[:32]


def local_copy(features: Path, folder: Path) -> Path:
    """The copy of a feature store in `folder`, made where it is absent or damaged; a copy is either whole or not there.

    Processes that ask at once wait for the first. Raises SonorantError where the disk is full or cannot be written, and where the
    features themselves are damaged.
    """
    target = copy_path(features, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder / f"{target.name}.lock"):
            if not _whole(target):
                _copy(features, target)
    except OSError as error:
        raise SonorantError(
            f"data.preload_folder {folder}: {error.strerror}; make room there, name another folder or set data.preload to none"
        ) from None
    return target


def _copy(features: Path, target: Path) -> None:
    for abandoned in target.parent.glob(f".{target.name}.*.tmp"):  # by a process that was killed: we hold the lock
        shutil.rmtree(abandoned)
    needed, free = sum((features / name).stat().st_size for name in FILES), shutil.disk_usage(target.parent).free
    if needed > free:
        raise SonorantError(
            f"data.preload_folder {target.parent}: {needed / 2**30:.2f} GiB of features, {free / 2**30:.2f} GiB free; make room there, "
            "name another folder or set data.preload to none"
        )
    with atomic_folder(target) as copy:
        for name in FILES:
            shutil.copyfile(features / name, copy / name)
        FeatureStore.open(copy)
        if not _whole(copy):
            FeatureStore.open(features).verify()  # names the features if it is they that are damaged
            raise SonorantError(
                f"data.preload_folder {target.parent}: what was written there reads back otherwise; name another disk"
            )


def _whole(store: Path) -> bool:
    try:
        FeatureStore.open(store).verify()
    except SonorantError:
        return False
    return True


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
