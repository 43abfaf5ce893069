"""Grouped prompts equal those of a search of all utterances for each row."""

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sonorant.features.code_batches import UNPROMPTED, Peers, Prompts
from sonorant.features.plan import MicroBatch

SPLITS = ["train", "validation", "test"]


def store_of(speakers: list[int], splits: list[int]) -> Any:
    columns = {"speaker": np.array(speakers, dtype=np.int64), "split": np.array(splits, dtype=np.uint8)}
    return SimpleNamespace(header={"splits": SPLITS}, **columns)


class Codes:
    """Codes that encode utterance and frame."""

    codebooks = 2

    def __init__(self, frames: np.ndarray) -> None:
        self.frames = frames

    def codes(self, i: int) -> np.ndarray:
        return np.stack([np.full(self.frames[i], i), np.arange(self.frames[i])], axis=1)


def searched(store: Any, codes: Codes, most: int, seed: int, planned: MicroBatch) -> tuple[np.ndarray, np.ndarray]:
    """Prompts by a search for each row."""
    prompt = np.zeros((len(planned.items), most, codes.codebooks), dtype=np.int64)
    lengths = np.zeros(len(planned.items), dtype=np.int64)
    random = np.random.default_rng([seed, planned.epoch, planned.number])
    for row, item in enumerate(planned.items):
        others = np.flatnonzero((store.split == store.split[item]) & (store.speaker == store.speaker[item]))
        others = others[others != item]
        if random.random() < UNPROMPTED or not len(others):
            continue
        other = int(random.choice(others))
        lengths[row] = min(random.integers(1, most + 1), codes.frames[other])
        first = random.integers(0, codes.frames[other] - lengths[row] + 1)
        prompt[row, : lengths[row]] = codes.codes(other)[first : first + lengths[row]]
    return prompt, lengths


@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=30), seed=st.integers(0, 9))
def test_prompts_are_those_of_a_search(rows: list[tuple[int, int]], seed: int) -> None:
    store = store_of([speaker for speaker, _ in rows], [split for _, split in rows])
    codes: Any = Codes(1 + np.arange(len(rows)) % 7)
    prompts = Prompts(store, codes, 5, seed)
    for number in range(4):
        planned = MicroBatch(seed, number, np.random.default_rng(number).integers(0, len(rows), 12))
        found, wanted = prompts.draw(planned), searched(store, codes, 5, seed, planned)
        assert all(np.array_equal(*pair) for pair in zip(found, wanted, strict=True))


def test_without_prompts_nothing_is_grouped() -> None:
    codes: Any = Codes(np.array([3, 4]))
    prompts = Prompts(store_of([0, 0], [0, 0]), codes, 0, 1)
    assert prompts.peers is None
    prompt, lengths = prompts.draw(MicroBatch(0, 0, np.array([0, 1])))
    assert (prompt.shape, lengths.tolist()) == ((2, 1, 2), [0, 0])


def test_a_row_does_not_look_at_every_utterance() -> None:
    peers = Peers(store_of([n % 3 for n in range(3000)], [0] * 3000))
    own = peers.of(7)
    assert own.tolist() == list(range(1, 3000, 3))
    assert own.base is not None, "part of what was grouped once, not found anew"


class Mapped(SimpleNamespace):
    """A store of 100,000 utterances, opened anew in each process."""

    def __init__(self) -> None:
        super().__init__(**vars(store_of([n % 900 for n in range(100_000)], [0] * 100_000)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Mapped, ()


def test_a_loader_is_sent_four_bytes_an_utterance() -> None:
    store: Any = Mapped()
    sent = pickle.dumps(Peers(store))
    assert len(sent) < 5 * 100_000
    assert pickle.loads(sent).of(7).tolist() == list(range(7, 100_000, 900))
