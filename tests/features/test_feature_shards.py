import multiprocessing
import os
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonorant.corpus.manifest import Utterance
from sonorant.features.feature_store import FeatureStore, store_hash
from sonorant.features.grouping import leaves
from sonorant.features.store import StoreConfig
from testbed.synthetic_corpus import store_beside
from tests.features.test_features import Corpus, make_corpus, write
from tests.support.folders import contents
from tests.support.stores import object_of

TAKES = 8


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """48 utterances, takes of six texts."""
    folder, utterances = make_corpus(tmp_path_factory.mktemp("takes"))
    return folder, [replace(u, id=f"{u.id}-{take}") for take in range(TAKES) for u in utterances]


@pytest.fixture
def store(tmp_path: Path) -> StoreConfig:
    return store_beside(tmp_path / "features", 8)


def written(corpus: Corpus, store: StoreConfig, out: Path, change: list[Utterance] | None = None) -> tuple[Path, int]:
    """The feature store, and the number of computed shards."""
    before = shards_in(store)
    write((corpus[0], change or corpus[1]), out, store=store)
    FeatureStore.open(out).verify()
    return out, len(shards_in(store) - before)


def shards_in(store: StoreConfig) -> set[str]:
    return {path.stem for path in Path(store.place).glob("shards/*/*.json")}


def test_a_recording_added_edited_or_removed_changes_its_shard_alone(
    corpus: Corpus, store: StoreConfig, tmp_path: Path
) -> None:
    all_ = corpus[1]
    few, made = written(corpus, store, tmp_path / "few", all_[:-1])
    assert made == len(shards_in(store)) >= 6
    more, made = written(corpus, store, tmp_path / "more")
    assert made == 1
    assert store_hash(more) != store_hash(few)
    edited = [replace(u, text="One small leap.") if u.id == "u2-3" else u for u in all_]
    assert written(corpus, store, tmp_path / "edited", edited)[1] == 1
    again, made = written(corpus, store, tmp_path / "again", all_[:-1])
    assert made == 0
    assert store_hash(again) == store_hash(few), "what a recording left when it went is nothing"


def test_another_split_or_speaker_computes_nothing(corpus: Corpus, store: StoreConfig, tmp_path: Path) -> None:
    written(corpus, store, tmp_path / "features")
    moved = [replace(u, split="test", speaker="zoe") if u.id == "u1-1" else u for u in corpus[1]]
    out, made = written(corpus, store, tmp_path / "moved", moved)
    assert made == 0
    assert FeatureStore.open(out).header["speakers"] == ["adam", "eve", "mallory", "zoe"]


def test_a_changed_recording_of_the_same_name_is_computed_anew(store: StoreConfig, tmp_path: Path) -> None:
    own = make_corpus(tmp_path / "corpus")
    written(own, store, tmp_path / "features")
    shutil.copyfile(own[0] / "audio/u1.wav", own[0] / "audio/u0.wav")
    out, made = written(own, store, tmp_path / "features")
    assert made == 1
    features = FeatureStore.open(out)
    np.testing.assert_array_equal(features.samples(0), features.samples(1))


def test_a_stage_that_is_killed_goes_on_where_it_was(corpus: Corpus, store: StoreConfig, tmp_path: Path) -> None:
    whole = store_beside(tmp_path / "whole", 8)
    uninterrupted, shards = written(corpus, whole, tmp_path / "whole")
    work = multiprocessing.get_context("spawn").Process(target=write, args=(corpus, tmp_path / "out", 1, store))
    work.start()
    while len(shards_in(store)) < 2 and work.is_alive():
        time.sleep(0.005)
    os.kill(work.pid or 0, signal.SIGKILL)
    work.join()
    assert not (tmp_path / "out").exists(), "it was killed before it was done"
    resumed, made = written(corpus, store, tmp_path / "out")
    assert 0 < made <= shards - 2
    assert store_hash(resumed) == store_hash(uninterrupted)
    for folder in ("objects", "shards"):
        assert contents(Path(store.place) / folder) == contents(Path(whole.place) / folder)


def test_two_that_compute_the_same_at_once_leave_one_whole_store(
    corpus: Corpus, store: StoreConfig, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=write, args=(corpus, tmp_path / name, 1, store)) for name in ("a", "b")]
    for work in both:
        work.start()
    for work in both:
        work.join()
    assert [work.exitcode for work in both] == [0, 0]
    FeatureStore.open(tmp_path / "a").verify()
    assert store_hash(tmp_path / "a") == store_hash(tmp_path / "b")


def test_a_shard_that_misses_an_array_is_computed_again(corpus: Corpus, store: StoreConfig, tmp_path: Path) -> None:
    out, _ = written(corpus, store, tmp_path / "features")
    before = store_hash(out)
    object_of(out, "tokens", shard=3).unlink()
    again, _ = written(corpus, store, out)
    assert store_hash(again) == before


names = st.lists(st.text(st.characters(codec="utf-8"), max_size=4), unique=True, max_size=60)


@given(ids=names, most=st.integers(1, 9), seed=st.integers(0, 99))
def test_the_grouping_is_a_function_of_the_set(ids: list[str], most: int, seed: int) -> None:
    found = leaves(ids, most)
    assert all(0 < len(members) <= most for members in found)
    assert sorted(np.concatenate([*found, np.zeros(0, np.int64)]).tolist()) == list(range(len(ids)))
    shuffled = random.Random(seed).sample(ids, len(ids))
    assert [[ids[place] for place in members] for members in found] == [
        [shuffled[place] for place in members] for members in leaves(shuffled, most)
    ]


@given(ids=names.filter(bool), most=st.integers(1, 9))
def test_whatever_comes_changes_one_group_that_it_may_split(ids: list[str], most: int) -> None:
    *before, new = ids
    old, now = (
        {frozenset(found[place] for place in members) for members in leaves(found, most)} for found in (before, ids)
    )
    gone = old - now
    assert len(gone) <= 1
    assert frozenset({new}).union(*gone) == frozenset().union(*(now - old))
