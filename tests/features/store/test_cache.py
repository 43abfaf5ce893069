import os
from pathlib import Path

import pytest

from sonorant.features.store.bucket_cache import Cache
from sonorant.features.store.folder import Folder
from tests.features.store.test_store import kept

ROOM, SIZE = 100_000, 1000


def held(folder: Path) -> int:
    return sum(file.stat().st_size for file in (folder / "objects").iterdir())


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "store")


@pytest.fixture
def names(store: Folder) -> list[str]:
    """Names of three times as many objects as fit."""
    return [kept(store, os.urandom(SIZE)) for _ in range(3 * ROOM // SIZE)]


def test_two_processes_keep_one_bound(store: Folder, names: list[str], tmp_path: Path) -> None:
    pair = [Cache(store, tmp_path / "cache", ROOM) for _ in range(2)]
    for place, name in enumerate([*names, *names]):
        file = pair[place % 2].path(name)
        assert file.read_bytes() == store.read(name)
        assert held(tmp_path / "cache") <= ROOM
    assert held(tmp_path / "cache") > ROOM - ROOM // 8, "more was removed than had to be"


@pytest.mark.parametrize("count", ["0", "", "no number", "99999999999"])
def test_a_count_that_is_wrong_is_mended_by_the_next_process(
    count: str, store: Folder, names: list[str], tmp_path: Path
) -> None:
    """After a power cut or manual deletion."""
    for name in names[:100]:
        Cache(store, tmp_path / "cache", ROOM).path(name)
    (tmp_path / "cache/held").write_text(count)
    cache = Cache(store, tmp_path / "cache", ROOM)
    for name in names[100:200]:
        cache.path(name)
        assert ROOM // 2 < held(tmp_path / "cache") <= ROOM
