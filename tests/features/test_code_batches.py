from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sonorant.features.code_batches import Prompts
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


@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=30), seed=st.integers(0, 9))
def test_a_prompt_is_part_of_another_utterance_of_the_speaker_and_split(rows: list[tuple[int, int]], seed: int) -> None:
    store = store_of([speaker for speaker, _ in rows], [split for _, split in rows])
    codes: Any = Codes(1 + np.arange(len(rows)) % 7)
    planned = MicroBatch(seed, 0, np.random.default_rng(seed).integers(0, len(rows), 12))
    prompts, lengths = Prompts(store, codes, 5, seed).draw(planned)
    for item, prompt, length in zip(planned.items, prompts, lengths, strict=True):
        assert not prompt[length:].any() and length <= 5
        if length:
            other, first = prompt[0]
            assert other != item and rows[other] == rows[item]
            assert np.array_equal(prompt[:length], codes.codes(other)[first : first + length])
    np.testing.assert_array_equal(Prompts(store, codes, 5, seed).draw(planned)[0], prompts)
    prompted = [rows.count(rows[item]) > 1 for item in planned.items]
    assert not np.any(lengths[~np.array(prompted)])


def test_without_prompts_nothing_is_grouped() -> None:
    codes: Any = Codes(np.array([3, 4]))
    prompts = Prompts(store_of([0, 0], [0, 0]), codes, 0, 1)
    assert prompts.peers is None
    prompt, lengths = prompts.draw(MicroBatch(0, 0, np.array([0, 1])))
    assert (prompt.shape, lengths.tolist()) == ((2, 1, 2), [0, 0])
