"""The ledger's hash distinguishes plans, and no extra plan is built."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sonorant.features.plan import MicroBatch, Plan, utterance_plan
from sonorant.training.distributed.ledger import Ledger, _hash, samples_of
from sonorant.training.distributed.ranks import AllRanksError, Ranks


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


def opened(plan: Plan, epoch: int, place: int = 0) -> Ledger:
    ledger = Ledger(Alone(0, 1, 0, torch.device("cpu")))
    ledger.open(plan, epoch, place)
    return ledger


def test_two_plans_are_built_to_open_it_and_the_end_of_an_epoch_is_the_beginning_of_the_next() -> None:
    counted = Counted()
    plan = Plan(3, counted)
    last = len(plan.steps(4)) - 1
    counted.built = 0
    ledger = opened(plan, 4, last)
    assert counted.built == 2
    for batches in (plan.steps(4)[last], plan.steps(5)[0]):
        ledger.note([torch.from_numpy(np.array(samples_of([batch]))) for batch in batches])
    ledger.check(2)
    with pytest.raises(AllRanksError, match=r"step 3 \(epoch 5\): .* computed by no rank"):
        ledger.note([])
        ledger.check(3)


def test_epochs_that_are_planned_alike_are_refused() -> None:
    with pytest.raises(AllRanksError, match="epochs 4 to 7 have the same plan, so nothing is ever reshuffled"):
        opened(Plan(3, Counted(shuffles=False)), 4)


WINDOWS = 5


@pytest.mark.parametrize("shuffles", [True, False])
def test_windows_are_compared_with_themselves_in_later_epochs(shuffles: bool) -> None:
    """Windows differ even without shuffling."""

    def planned(number: int) -> list[MicroBatch]:
        items = np.arange(60) + 60 * (number % WINDOWS)
        epoch = number if shuffles else number % WINDOWS
        return utterance_plan(np.full(300, 100), items, budget=300, seed=1, epoch=epoch)

    with nullcontext() if shuffles else pytest.raises(AllRanksError, match="epochs 2 to 5 have the same plan"):
        opened(Plan(3, planned, WINDOWS), 2 * WINDOWS + 3)
