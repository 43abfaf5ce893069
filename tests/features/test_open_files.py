import resource
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import sonorant.features.shards
from sonorant.features.array_file import ArrayFile
from sonorant.features.feature_store import FeatureStore
from testbed.synthetic_corpus import TINY, store_beside, write_corpus
from tests.features.store.test_store import Distant

UTTERANCES = 24


@pytest.fixture
def features(tmp_path: Path) -> Path:
    """24 utterances in shards of one or two, with a cache for a fifth of them."""
    out = tmp_path / "features"
    config = store_beside(out, 2)
    write_corpus(out, TINY, UTTERANCES, (1.0, 1.2), config=config)
    files = [file for file in Path(config.place).rglob("objects/*/*") if file.is_file()]
    object.__setattr__(config, "cache_gib", sum(file.stat().st_size for file in files) / 5 / 2**30)
    config.as_place().seen_from(out).write(out)
    return out


def open_below(folder: Path) -> list[str]:
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(link.readlink()))
    return [name for name in found if name.startswith(str(folder))]


def read_all(store: FeatureStore) -> list[np.ndarray]:
    return [store.mel_and_pitch(item) for item in range(UTTERANCES)]


@pytest.mark.parametrize(("allowed", "most"), [(40, 10), (3, 1), (resource.RLIM_INFINITY, 10**6)])
def test_a_quarter_of_those_that_the_system_allows(
    allowed: int, most: int, features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sonorant.features.shards.resource, "getrlimit", lambda _: (allowed, allowed))
    store = FeatureStore.open(features)
    first, again = read_all(store), read_all(store)
    kept = len(open_below(tmp_path / "features-store"))
    assert kept == min(most, 2 * len(store.index.shard_ends)), "mels and pitch of each shard"
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_the_cache_has_removed_is_closed(features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open files would occupy disk space beyond the cache's limit."""
    wanted = read_all(FeatureStore.open(features))
    monkeypatch.setattr(sonorant.features.shards, "open_store", lambda place: Distant(Path(place)))
    store = FeatureStore.open(features)
    for item in range(UTTERANCES):
        np.testing.assert_array_equal(store.mel_and_pitch(item), wanted[item])
        removed = [name for name in open_below(tmp_path / "cache") if name.endswith("(deleted)")]
        assert len(removed) <= 2, removed
    assert len(list((tmp_path / "cache/objects").iterdir())) < 2 * len(store.index.shard_ends)


def test_what_was_removed_is_closed_when_more_is_fetched(
    features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in an idle process, such as a rank between validations."""
    monkeypatch.setattr(sonorant.features.shards, "open_store", lambda place: Distant(Path(place)))
    store = FeatureStore.open(features)
    store.mel(0)
    [file] = open_below(tmp_path / "cache/objects")
    Path(file).unlink()
    assert open_below(tmp_path / "cache/objects")
    store.fetch([UTTERANCES - 1])
    assert not open_below(tmp_path / "cache/objects")
    assert len(store.mel(0)) == store.frames[0]


def test_a_file_that_goes_as_it_is_opened_is_read_all_the_same(
    features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = FeatureStore.open(features).mel(0)
    monkeypatch.setattr(sonorant.features.shards, "open_store", lambda place: Distant(Path(place)))

    class Gone(ArrayFile):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            path.unlink()

    monkeypatch.setattr(sonorant.features.shards, "ArrayFile", Gone)
    np.testing.assert_array_equal(FeatureStore.open(features).mel(0), wanted)
