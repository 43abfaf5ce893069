"""The ledger's hash distinguishes plans, and no extra plan is built."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sonorant.features.plan import MicroBatch, Plan, utterance_plan
from sonorant.training.distributed.ledger import Ledger, _hash, samples_of
from sonorant.training.distributed.ranks import AllRanksError, Ranks

ONE = Ranks(0, 1, 0, torch.device("cpu"))


class Alone(Ranks):
    def gather(self, value: Any) -> list[Any]:
        return [value]


def micro_batch(rows: list[tuple[int, int]], whole: bool) -> MicroBatch:
    items, starts = (np.array([row[column] for row in rows], dtype=np.int64) for column in (0, 1))
    return MicroBatch(0, 0, items, None if whole else starts)


rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=2)
plans = st.lists(st.lists(st.builds(micro_batch, rows, st.booleans()), min_size=1, max_size=2), max_size=3)


@given(plans, plans)
def test_hashes_are_equal_where_the_samples_of_each_step_are(
    some: list[list[MicroBatch]], others: list[list[MicroBatch]]
) -> None:
    samples = [[samples_of(batches) for batches in steps] for steps in (some, others)]
    assert (_hash(some) == _hash(others)) == (samples[0] == samples[1])


class Counted:
    """Plan epochs of 300 utterances and count the plans."""

    def __init__(self, shuffles: bool = True) -> None:
        self.built, self.shuffles = 0, shuffles

    def __call__(self, epoch: int) -> list[MicroBatch]:
        self.built += 1
        frames = np.random.default_rng(0).integers(60, 500, 300)
        return utterance_plan(frames, np.arange(300), budget=2000, seed=1, epoch=epoch if self.shuffles else 0)


def opened(counted: Counted, place: int = 0) -> tuple[Ledger, list[MicroBatch]]:
    ledger = Ledger(Alone(ONE.rank, ONE.world_size, ONE.local_rank, ONE.device))
    return ledger, ledger.open(Plan(3, counted), 4, place)


def test_two_plans_are_built_to_open_it_and_none_to_begin_again() -> None:
    counted = Counted()
    ledger, first = opened(counted)
    assert counted.built == 2
    for _ in range(2):
        ledger.note([torch.from_numpy(np.array(samples_of([batch]))) for batch in first])
        ledger.check(1)
        ledger.back()
    assert counted.built == 2


def test_the_end_of_an_epoch_is_the_beginning_of_the_next() -> None:
    counted = Counted()
    steps = Plan(3, counted).steps(4)
    _, first = opened(counted, len(steps))
    assert samples_of(first) == samples_of(Plan(3, counted).steps(5)[0])


def test_epochs_that_are_planned_alike_are_refused() -> None:
    with pytest.raises(AllRanksError, match="epochs 4 to 7 are planned alike, so nothing is ever reshuffled"):
        opened(Counted(shuffles=False))


WINDOWS = 5


@pytest.mark.parametrize("shuffles", [True, False])
def test_windows_are_compared_with_themselves_in_later_epochs(shuffles: bool) -> None:
    """Windows differ even without shuffling."""

    def planned(number: int) -> list[MicroBatch]:
        items = np.arange(60) + 60 * (number % WINDOWS)
        epoch = number if shuffles else number % WINDOWS
        return utterance_plan(np.full(300, 100), items, budget=300, seed=1, epoch=epoch)

    ledger = Ledger(Alone(ONE.rank, ONE.world_size, ONE.local_rank, ONE.device))
    if shuffles:
        assert ledger.open(Plan(3, planned, WINDOWS), 2 * WINDOWS + 3, 0)
        return
    with pytest.raises(AllRanksError, match="epochs 2 to 5 are planned alike"):
        ledger.open(Plan(3, planned, WINDOWS), 2 * WINDOWS + 3, 0)


def test_who_computes_the_epoch_before_again_is_told_so_by_windows_too() -> None:
    def planned(number: int) -> list[MicroBatch]:
        items = np.arange(60) + 60 * (number % WINDOWS)
        return utterance_plan(np.full(300, 100), items, budget=300, seed=1, epoch=number)

    plan, number = Plan(3, planned, WINDOWS), 2 * WINDOWS + 3
    ledger = Ledger(Alone(ONE.rank, ONE.world_size, ONE.local_rank, ONE.device))
    ledger.open(plan, number, 0)
    before = plan.steps(number - WINDOWS)[0]
    ledger.note([torch.from_numpy(np.array(samples_of([batch]))) for batch in before])
    with pytest.raises(AllRanksError, match=r"\(epoch 2\): rank 0 .* computed epoch 1 again in the same order"):
        ledger.check(1)
