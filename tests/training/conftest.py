"""A tiny feature store, and process groups of one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from testbed.tiny_training import tiny_features
from tests.support.object_store import ObjectStore, object_store


@pytest.fixture(scope="session")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 utterances of tones, 1.0 to 1.6 s, by two speakers; 16 for training."""
    return tiny_features(tmp_path_factory.mktemp("tiny"))


def group_of_one(backend: str, folder: Path) -> Iterator[None]:
    dist.init_process_group(backend, init_method=f"file://{folder}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """An object store that clients find through environment variables."""
    with object_store(tmp_path_factory.mktemp("bucket") / "s3") as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield running


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of only this process."""
    yield from group_of_one("gloo", tmp_path)


@pytest.fixture
def alone_on_a_gpu(tmp_path: Path) -> Iterator[None]:
    """As `alone`, on a GPU, or skip."""
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    yield from group_of_one("cpu:gloo,cuda:nccl", tmp_path)
