import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonorant.errors import SonorantError
from sonorant.features.plan import MicroBatch, Plan, balanced, padding_waste, segment_plan, shard, utterance_plan

FRAMES = np.random.default_rng(0).integers(60, 500, 300)
ITEMS = np.arange(20, 300)


def plan(epoch: int, seed: int = 1) -> list[MicroBatch]:
    return utterance_plan(FRAMES, ITEMS, budget=2000, seed=seed, epoch=epoch)


def test_each_utterance_is_in_one_micro_batch_of_the_epoch_within_the_budget_and_with_little_padding() -> None:
    batches = plan(3)
    assert sorted(np.concatenate([batch.items for batch in batches]).tolist()) == ITEMS.tolist()
    assert max(FRAMES[batch.items].max() * len(batch.items) for batch in batches) <= 2000
    assert padding_waste(batches, FRAMES) < 0.08


def test_the_plan_is_a_function_of_seed_and_epoch() -> None:
    first, again, other_epoch, other_seed = (
        [batch.items.tolist() for batch in batches] for batches in (plan(2), plan(2), plan(3), plan(2, seed=7))
    )
    assert first == again and first not in (other_epoch, other_seed)


def test_what_fits_nowhere_is_refused_by_the_setting() -> None:
    with pytest.raises(SonorantError, match="frames_per_micro_batch"):
        utterance_plan(FRAMES, ITEMS, budget=100, seed=1, epoch=0)
    with pytest.raises(SonorantError, match="segment_frames"):
        segment_plan(FRAMES, ITEMS, segments=4, length=1000, seed=1, epoch=0)


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_dealing_gives_every_micro_batch_to_one_rank_and_work_to_all(world_size: int) -> None:
    steps = Plan(3, plan).steps(0)
    for step in steps:
        dealt = [shard(step, rank, world_size) for rank in range(world_size)]
        assert all(dealt)
        counted = sorted(batch.number for own in dealt for batch, weight in own if weight == 1.0)
        assert counted == sorted(batch.number for batch in step)
    assert sum(len(step) for step in steps) == len(plan(0))


def test_segments_lie_inside_their_utterances_and_each_utterance_has_one() -> None:
    batches = segment_plan(FRAMES, ITEMS, segments=16, length=64, seed=1, epoch=5)
    long_enough = ITEMS[FRAMES[ITEMS] >= 64]
    assert {len(batch.items) for batch in batches} == {16}
    assert set(np.concatenate([batch.items for batch in batches]).tolist()) == set(long_enough.tolist())
    for batch in batches:
        assert batch.starts is not None
        assert ((batch.starts >= 0) & (batch.starts + 64 <= FRAMES[batch.items])).all()


@given(st.integers(0, 9), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_speakers_of_few_recordings_are_heard_as_often_as_the_balance_says(epoch: int, balance: float) -> None:
    speakers, frames = np.repeat([0, 1, 2], [400, 100, 20]), np.full(520, 50)
    items = np.arange(520)
    heard = balanced(items, speakers, frames, balance=balance, seed=1, epoch=epoch)
    assert np.array_equal(heard, balanced(items, speakers, frames, balance=balance, seed=1, epoch=epoch))
    for speaker, own in enumerate((400, 100, 20)):
        times = (400 / own) ** balance
        found = np.bincount(heard, minlength=520)[speakers == speaker]
        assert found.min() >= np.floor(times) and found.max() <= np.ceil(times), "nobody is heard less than once"
        assert abs(found.mean() - times) <= 4 * 0.5 / np.sqrt(own)
