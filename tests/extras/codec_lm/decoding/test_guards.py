from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sonorant.extras.codec_lm.decoding.session import Session
from sonorant.speech.speaking import FinishReason
from tests.extras.codec_lm.decoding.tiny_model import (
    CONFIG,
    DESCRIPTION,
    Plant,
    TinyStepper,
    loops,
    silent,
    stays,
    texts,
)

SECOND = round(DESCRIPTION.frames_per_second)
P99 = DESCRIPTION.frames_per_phoneme.p99


def decoded(plant: Plant, *lengths: int, **change: Any) -> tuple[Session, np.ndarray]:
    keys = [(0, 0, 0)] * len(lengths)
    session = Session(TinyStepper(plant=plant), *texts(*lengths), DESCRIPTION, replace(CONFIG, **change), keys)
    blocks = []
    while not session.ended:
        blocks.append(session.more(7))
    return session, np.concatenate(blocks, axis=1)


@pytest.mark.parametrize(
    ("plant", "reason"),
    [(stays, FinishReason.STUCK), (silent, FinishReason.SILENCE), (loops, FinishReason.REPETITION)],
    ids=lambda one: str(one)[:20],
)
def test_a_runaway_ends_within_its_budget_with_the_reason(plant: Plant, reason: FinishReason) -> None:
    lengths = (4, 10, 25)
    session, codes = decoded(plant, *lengths)
    assert session.finish_reasons_B.tolist() == [reason] * 3
    assert (session.lengths_B <= np.ceil(CONFIG.budget * P99 * np.array(lengths))).all()
    assert codes.shape[1] == session.lengths_B.max()


def never(logits: np.ndarray, hop: np.ndarray, step: int) -> None:
    """New codes in every frame and a still pointer: without a longest phoneme only the budget ends it."""
    logits[:] = np.random.default_rng(step).standard_normal(logits.shape) * 9
    stays(logits, hop, step)


def moves(hop: np.ndarray, now: bool) -> None:
    hop[:, :2] = (0.0, 30.0) if now else (30.0, 0.0)


def test_the_budget_ends_every_row() -> None:
    session, _ = decoded(never, 4, 12, longest_phoneme=1e6, budget=2.05)
    assert session.finish_reasons_B.tolist() == [FinishReason.BUDGET] * 2 and session.cut_B.all()
    assert session.lengths_B.tolist() == [np.ceil(2.05 * P99 * length) for length in (4, 12)] == [25, 74]


def pause(frames: int) -> Plant:
    """`frames` of silence on the first phoneme, then other codes, one phoneme per frame."""

    def plant(logits: np.ndarray, hop: np.ndarray, step: int) -> None:
        (never if step >= frames else silent)(logits, hop, step)
        moves(hop, step >= frames)

    return plant


def test_silence_as_long_as_a_pause_is_no_fault() -> None:
    longest = round(CONFIG.longest_silence * SECOND)
    session, codes = decoded(pause(longest - 2), 12)
    assert session.finish_reasons_B[0] == FinishReason.WELL and (codes[0, : longest - 3] == DESCRIPTION.silence).all()
    session, _ = decoded(pause(longest + 2), 12)
    assert session.finish_reasons_B[0] == FinishReason.SILENCE


def loop(period: int, frames: int) -> Plant:
    """`frames` of a loop while the pointer moves every third frame, then other codes."""

    def plant(logits: np.ndarray, hop: np.ndarray, step: int) -> None:
        never(logits, hop, step)
        if step < frames:
            logits[:, :, step % period] = 90.0
        moves(hop, step % 3 == 2)

    return plant


@pytest.mark.parametrize("period", range(1, 10))
def test_loops_of_one_to_eight_frames_are_noticed(period: int) -> None:
    longest = round(CONFIG.longest_repeat * SECOND)
    session, codes = decoded(loop(period, longest + period + 1), 16)
    assert (codes[0, :longest, 0] == np.arange(longest) % period).all()
    assert session.finish_reasons_B[0] == (FinishReason.REPETITION if period <= 8 else FinishReason.WELL)
    session, _ = decoded(loop(period, longest + period), 16)
    assert session.finish_reasons_B[0] == FinishReason.WELL


def strolls(logits: np.ndarray, hop: np.ndarray, step: int) -> None:
    """Silence while the pointer moves every third frame."""
    silent(logits, hop, step)
    moves(hop, step % 3 == 2)


def test_a_fault_under_a_moving_pointer_skips_no_phoneme() -> None:
    for plant, reason in ((loop(3, 1000), FinishReason.REPETITION), (strolls, FinishReason.SILENCE)):
        session, _ = decoded(plant, 16)
        assert (session.finish_reasons_B[0], session.lengths_B[0]) == (reason, 16 * 3)


def one_on(plant: Plant) -> Plant:
    """`plant`, but a pushed pointer moves by one phoneme."""

    def planted(logits: np.ndarray, hop: np.ndarray, step: int) -> None:
        plant(logits, hop, step)
        hop[:, 1] = 20.0

    return planted


@pytest.mark.parametrize(
    ("plant", "limit"),
    [(never, "longest_phoneme"), (silent, "longest_silence"), (loops, "longest_repeat")],
    ids=["stuck", "silence", "loop"],
)
def test_each_guard_pushes_on_as_soon_as_its_own_time_is_up(plant: Plant, limit: str) -> None:
    limits = {"longest_phoneme": 9.0, "longest_silence": 9.0, "longest_repeat": 9.0, limit: 0.5}
    session, _ = decoded(one_on(plant), 6, budget=30.0, **limits)
    assert session.finish_reasons_B[0] != FinishReason.WELL and not session.cut_B[0]
    assert 0 <= session.lengths_B[0] - 6 * SECOND // 2 <= 4  # a loop is detected after its first round


def test_leaving_a_phoneme_in_its_last_frame_is_no_fault() -> None:
    def plant(logits: np.ndarray, hop: np.ndarray, step: int) -> None:
        never(logits, hop, step)
        moves(hop, step % 5 == 4)

    session, _ = decoded(plant, 7, longest_phoneme=5 / SECOND)
    assert (session.finish_reasons_B[0], session.lengths_B[0]) == (FinishReason.WELL, 35)


def test_the_first_fault_is_the_reason() -> None:
    def plant(logits: np.ndarray, hop: np.ndarray, step: int) -> None:
        (never if step < 12 else silent)(logits, hop, step)

    first, _ = decoded(plant, 16, longest_phoneme=0.5)
    second, _ = decoded(plant, 16, longest_phoneme=5.0)
    assert (first.finish_reasons_B[0], second.finish_reasons_B[0]) == (FinishReason.STUCK, FinishReason.SILENCE)
