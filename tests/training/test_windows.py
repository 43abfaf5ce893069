from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonorant.features.batches import prefetched
from sonorant.features.store.bucket import Bucket
from sonorant.training import checkpoint
from testbed.synthetic_corpus import TINY, store_beside, write_corpus
from testbed.tiny_training import tiny_recipe
from tests.support.object_store import ObjectStore, disturbed
from tests.support.trainings import Training
from tests.support.waiting import PATIENCE
from tests.training.trainings import assert_resumes, assert_same, into_a_bucket, newest_state, trainer_of

WINDOW = 2


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 utterances in about 8 shards."""
    out = tmp_path_factory.mktemp("windows") / "features"
    write_corpus(out, TINY, 24, (1.0, 1.6), config=store_beside(out, 4))
    return out


@pytest.mark.parametrize("kind", ["acoustic", "vocoder"])
@pytest.mark.parametrize("window", [1, 3, 100])
def test_an_epoch_takes_every_training_utterance_once(kind: str, corpus: Path, window: int) -> None:
    recipe = tiny_recipe(kind, corpus, window_shards=window, segments_per_micro_batch=1)
    store, plan = recipe.store, recipe.plan
    shards = len(store.index.shard_ends)
    assert plan.windows == -(-shards // window)
    orders = []
    for epoch in range(2):
        rounds = range(epoch * plan.windows, (epoch + 1) * plan.windows)
        taken = [np.concatenate([b.items for b in plan.micro_batches(r)] or [np.zeros(0, int)]) for r in rounds]
        assert sorted(np.concatenate(taken).tolist()) == store.indices("train").tolist()
        assert max(len(np.unique(store.index.shard[items])) for items in taken) <= window
        orders.append([items.tolist() if plan.windows == 1 else sorted(items.tolist()) for items in taken])
    assert orders[0] != orders[1], "no window meets others in the next epoch"


def test_speakers_are_balanced_over_the_whole_corpus(corpus: Path) -> None:
    """The smallest speaker may differ within a window."""
    recipe = tiny_recipe("acoustic", corpus, window_shards=1, speaker_balance=1.0)
    store, plan = recipe.store, recipe.plan
    heard = np.zeros(2)
    for number in range(40 * plan.windows):
        for batch in plan.micro_batches(number):
            heard += np.bincount(store.speaker[batch.items], store.frames[batch.items], minlength=2)
    assert heard[0] / heard[1] == pytest.approx(1.0, abs=0.05)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", ["acoustic", "vocoder"])
def test_resumed_within_a_window_is_uninterrupted(kind: str, corpus: Path, tmp_path: Path) -> None:
    small: dict[str, Any] = {"window_shards": 3, "segments_per_micro_batch": 1, "frames_per_micro_batch": 250}
    made = assert_resumes(lambda run: trainer_of(tiny_recipe(kind, corpus, **small), run), tmp_path, 6)
    state = checkpoint.load(checkpoint.path_of(made.run.checkpoints, 6))
    assert state["epoch"] == 1 and 0 < state["step_in_epoch"] < len(made.recipe.plan.steps(1)), "not within a window"


Remote = tuple[Path, int]


@pytest.fixture
def remote(corpus: Path, bucket: ObjectStore, tmp_path: Path) -> Remote:
    """The corpus in an object store, and the bytes of its cache."""
    return into_a_bucket(corpus, tmp_path, bucket, 24, 4)


def held(features: Path) -> int:
    return sum(path.stat().st_size for path in (features.parents[1] / "cache" / "objects").iterdir())


@pytest.mark.usefixtures("alone")
def test_from_a_bucket_with_a_small_cache_it_is_the_same_training_to_the_bit(
    corpus: Path, remote: Remote, tmp_path: Path
) -> None:
    states = []
    for name, features in (("local", corpus), ("remote", remote[0])):
        recipe = tiny_recipe("vocoder", features, window_shards=WINDOW, steps=6, segments_per_micro_batch=2)
        trainer = trainer_of(recipe, tmp_path / name)
        assert trainer.train() == "finished"
        states.append(trainer.state())
    assert_same(*states)
    assert 0 < held(remote[0]) <= remote[1]


@pytest.mark.usefixtures("alone")
def test_a_validation_fetches_nothing_anew_after_windows_have_passed_through_the_cache(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Validation utterances are in most shards."""
    fetched: list[str] = []
    fetch = Bucket.fetch
    monkeypatch.setattr(Bucket, "fetch", lambda *given: fetched.append(given[1]) or fetch(*given))
    trainer = trainer_of(tiny_recipe("vocoder", remote[0], window_shards=WINDOW), tmp_path / "run")
    first, plan = trainer.validate(), trainer.recipe.plan
    assert plan.fetch is not None and fetched
    for number in range(plan.windows):
        plan.fetch(number)
    del fetched[:]
    assert trainer.validate() == first
    assert fetched == []


def test_loader_processes_fetch_too(corpus: Path, remote: Remote) -> None:
    """Fetched here first, because the client would not survive a fork."""
    wanted, found = (tiny_recipe("acoustic", features, window_shards=WINDOW) for features in (corpus, remote[0]))
    assert found.plan.fetch
    found.plan.fetch(1)
    planned = wanted.plan.micro_batches(0)
    batches = prefetched(found.dataset(found.plan.micro_batches(0)), 1, pin=False, fresh=found.store.fetches)
    for place, batch in enumerate(batches):
        assert_same(wanted.dataset(planned)[place], batch)


@pytest.mark.long
def test_two_ranks_from_a_bucket_train_as_from_a_folder_and_as_one(
    corpus: Path, remote: Remote, tmp_path: Path
) -> None:
    """Bit-identical on as many ranks, and to rounding on others."""
    states = {}
    for name, features, ranks in (("folder", corpus, 1), ("folder", corpus, 2), ("bucket", remote[0], 2)):
        job = {"data": {"workers": 1}} if name == "bucket" else {}
        changes = {"window_shards": WINDOW, "steps": 6, "checkpoint_every": 6}
        training = Training("acoustic", features, tmp_path / f"{name}-{ranks}", job, **changes)
        training.finish(ranks)
        states[name, ranks] = newest_state(training.run.path)
    assert_same(states["folder", 2]["phases"], states["bucket", 2]["phases"])
    assert_same(states["folder", 2]["ema"], states["bucket", 2]["ema"])
    assert 0 < held(remote[0]) <= remote[1]
    for name, weights in states["folder", 1]["ema"].items():
        np.testing.assert_allclose(weights.numpy(), states["folder", 2]["ema"][name].numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_a_key_that_expires_ends_a_training_in_one_line_and_a_new_one_goes_on(
    corpus: Path, bucket: ObjectStore, remote: Remote, tmp_path: Path
) -> None:
    changes = {"window_shards": WINDOW, "steps": 12, "checkpoint_every": 1}
    undisturbed = Training("vocoder", corpus, tmp_path / "folder", **changes)
    undisturbed.finish(2)
    training = Training("vocoder", remote[0], tmp_path / "bucket", {"data": {"workers": 1}}, **changes)
    expired = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"

    def until_it_expires(number: int) -> tuple[int, bytes] | None:
        return (400, expired) if list(training.run.checkpoints.glob("*")) else None

    with disturbed(bucket.environment["AWS_ENDPOINT_URL"], until_it_expires) as address:
        assert training.start(2, AWS_ENDPOINT_URL=address).wait(PATIENCE) != 0
    [said] = {line for line in training.said().splitlines() if line.startswith("error: ")}
    assert "ExpiredToken: The provided token has expired." in said and "Traceback" not in training.said()
    training.finish(2)
    assert_same(newest_state(undisturbed.run.path)["phases"], newest_state(training.run.path)["phases"])
