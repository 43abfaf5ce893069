import errno
import multiprocessing
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from sonorant.errors import SonorantError
from sonorant.features.batches import Batch, SegmentBatches, UtteranceBatches, prefetched
from sonorant.features.feature_store import FeatureStore
from sonorant.features.local_copy import copy_path, local_copy
from sonorant.features.plan import MicroBatch
from testbed.tiny_training import tiny_features
from tests.support.stores import damage, object_of, own_copy


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_features(tmp_path_factory.mktemp("preload"))


def batches(store: FeatureStore, workers: int = 0) -> list[dict[str, torch.Tensor]]:
    items = np.arange(6)
    plans = [MicroBatch(0, 0, items[:4]), MicroBatch(0, 1, items[4:])]
    segments = [MicroBatch(0, 2, items[:3], np.array([0, 5, 9]))]
    datasets = [UtteranceBatches(store, plans), SegmentBatches(store, segments, 32)]
    return [batch for dataset in datasets for batch in prefetched(dataset, workers, pin=False)]


def test_batches_from_memory_and_from_a_copy_are_those_from_disk(features: Path, tmp_path: Path) -> None:
    wanted = batches(FeatureStore.open(features))
    copied = FeatureStore.open(local_copy(features, tmp_path / "copies"))
    held = FeatureStore.open(local_copy(features, tmp_path / "gone"))
    held.read_into_memory(2**30)
    shutil.rmtree(held.path / "shards")  # workers do not read from there either
    torch.testing.assert_close(batches(copied), wanted, rtol=0, atol=0)
    torch.testing.assert_close(batches(held, workers=2), wanted, rtol=0, atol=0)


def test_workers_do_without_shared_memory_where_it_is_small(features: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers have 64 MiB of /dev/shm."""
    store = FeatureStore.open(features)
    monkeypatch.setattr("sonorant.features.batches.ROOM", 0)
    assert all(tensor.is_shared() for batch in batches(store, workers=2) for tensor in batch.values())
    monkeypatch.setattr("sonorant.features.batches.ROOM", 2**60)
    found = batches(store, workers=2)
    torch.testing.assert_close(found, batches(store), rtol=0, atol=0)
    assert not any(tensor.is_shared() for batch in found for tensor in batch.values())


class Deadly(Dataset[Batch]):
    """Its process is killed while loading."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Batch:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_a_loader_process_that_is_killed_is_told_in_one_line() -> None:
    words = r"^a loader process failed; .*, lower data.workers; run the same command to resume from"
    with pytest.raises(SonorantError, match=words):
        list(prefetched(Deadly(), 1, pin=False))


def test_features_that_cannot_be_read_are_told_in_one_line(features: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", broken)
    with pytest.raises(SonorantError, match=r"^cannot read \S+ \(Input/output error\); check the disk$"):
        batches(FeatureStore.open(features))


def test_features_that_do_not_fit_into_memory_are_refused(features: Path) -> None:
    with pytest.raises(SonorantError, match=r"do not fit into .* free memory \(.* GiB\); set data.preload"):
        FeatureStore.open(features).read_into_memory(1000)


def test_a_copy_is_made_once_and_made_again_when_it_is_damaged(features: Path, tmp_path: Path) -> None:
    copy = local_copy(features, tmp_path)
    made = object_of(copy, "mels").stat().st_mtime_ns
    assert local_copy(features, tmp_path) == copy == copy_path(features, tmp_path)
    assert object_of(copy, "mels").stat().st_mtime_ns == made
    damage(object_of(copy, "mels"))
    local_copy(features, tmp_path)
    FeatureStore.open(copy).verify()


def test_damaged_features_are_named_and_leave_no_copy(features: Path, tmp_path: Path) -> None:
    damaged = own_copy(features, tmp_path)
    damage(object_of(damaged, "audio"))
    with pytest.raises(SonorantError, match=r"damaged; run: .* dvc repro --force --single-item features"):
        local_copy(damaged, tmp_path / "copies")
    assert [path.suffix for path in (tmp_path / "copies").iterdir()] == [".lock"]


def test_processes_that_ask_at_once_get_one_whole_copy(features: Path, tmp_path: Path) -> None:
    target = copy_path(features, tmp_path)
    abandoned = tmp_path / f".{target.name}.99999.tmp"  # of a killed process; removed
    abandoned.mkdir()
    (abandoned / "header.json").write_bytes(b"half")
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.starmap(local_copy, [(features, tmp_path)] * 3) == [target] * 3
    FeatureStore.open(target).verify()
    assert {path.name for path in tmp_path.iterdir()} == {target.name, f"{target.name}.lock"}


def test_a_folder_that_cannot_hold_the_copy_is_named(
    features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        SonorantError, match=r"data.preload_folder .*file.*: .*; free disk space, choose another folder"
    ):
        local_copy(features, tmp_path / "file")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    with pytest.raises(SonorantError, match=r"GiB of features, 0.00 GiB free; free disk space"):
        local_copy(features, tmp_path / "full")
    assert [path.suffix for path in (tmp_path / "full").iterdir()] == [".lock"]
