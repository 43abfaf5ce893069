"""Models that never end do end, within their budget, and it is told what was wrong; sound ones are left alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sonorant.extras.codec_lm.decoding.session import Session
from sonorant.speech.speaking import FinishReason
from tests.extras.codec_lm.decoding.tiny_model import (
    CODES,
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


def decoded(plant: Plant | None, *lengths: int, library: str = "numpy", **change: Any) -> tuple[Session, np.ndarray]:
    description, config = DESCRIPTION, replace(CONFIG, **change)
    stepper, keys = TinyStepper(library, plant), [(0, 0, 0)] * len(lengths)
    session = Session(stepper, *texts(*lengths), description, config, keys)
    blocks = []
    while not session.ended:
        blocks.append(session.more(7))
    return session, np.concatenate(blocks, axis=1)


@pytest.mark.parametrize(
    ("plant", "reason"),
    [(stays, FinishReason.STUCK), (silent, FinishReason.SILENCE), (loops, FinishReason.REPETITION)],
    ids=lambda one: str(one)[:20],
)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_what_never_ends_ends_within_its_budget_and_says_why(plant: Plant, reason: FinishReason, library: str) -> None:
    lengths = (4, 10, 25)
    session, codes = decoded(plant, *lengths, library=library)
    assert session.finish_reasons_B.tolist() == [reason] * 3
    assert (session.lengths_B <= np.ceil(CONFIG.budget * P99 * np.array(lengths))).all()
    assert codes.shape[1] == session.lengths_B.max()


def test_a_stuck_pointer_is_pushed_on_to_the_end_of_the_text() -> None:
    session, _ = decoded(stays, 6, longest_phoneme=0.2, longest_repeat=9.0)
    assert session.finish_reasons_B[0] == FinishReason.STUCK and not session.cut_B[0]
    pushes = session.lengths_B[0] / (0.2 * SECOND)
    assert pushes == round(pushes) and pushes <= 6  # each phoneme is stood on for just so long


def never(logits: np.ndarray, hop: np.ndarray, step: int) -> None:
    """Ever other codes, and a pointer that never moves: nothing but the budget ends it where no phoneme is too long."""
    logits[:] = np.random.default_rng(step).standard_normal(logits.shape) * 9
    stays(logits, hop, step)


def moves(hop: np.ndarray, now: bool) -> None:
    hop[:, :2] = (0.0, 30.0) if now else (30.0, 0.0)


def test_the_budget_is_the_last_word() -> None:
    session, _ = decoded(never, 4, 12, longest_phoneme=1e6, budget=2.05)
    assert session.finish_reasons_B.tolist() == [FinishReason.BUDGET] * 2 and session.cut_B.all()
    assert session.lengths_B.tolist() == [np.ceil(2.05 * P99 * length) for length in (4, 12)] == [25, 74]


def pause(frames: int) -> Plant:
    """So many frames of silence on the first phoneme, then other codes and one phoneme a frame."""

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
    """So many frames of a loop while the pointer moves on every third frame, then other codes."""

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
    """Nothing but silence, while the pointer moves on every third frame."""
    silent(logits, hop, step)
    moves(hop, step % 3 == 2)


def test_what_goes_wrong_while_the_pointer_moves_takes_no_phoneme_away() -> None:
    for plant, reason in ((loop(3, 1000), FinishReason.REPETITION), (strolls, FinishReason.SILENCE)):
        session, _ = decoded(plant, 16)
        assert (session.finish_reasons_B[0], session.lengths_B[0]) == (reason, 16 * 3)


def one_on(plant: Plant) -> Plant:
    """The same, and where the pointer must move, it moves by one phoneme."""

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
    assert 0 <= session.lengths_B[0] - 6 * SECOND // 2 <= 4  # a loop shows after its first round


def test_who_leaves_a_phoneme_at_the_last_moment_was_not_stuck() -> None:
    def plant(logits: np.ndarray, hop: np.ndarray, step: int) -> None:
        never(logits, hop, step)
        moves(hop, step % 5 == 4)

    session, _ = decoded(plant, 7, longest_phoneme=5 / SECOND)
    assert (session.finish_reasons_B[0], session.lengths_B[0]) == (FinishReason.WELL, 35)


def test_what_went_wrong_first_is_told() -> None:
    def plant(logits: np.ndarray, hop: np.ndarray, step: int) -> None:
        (never if step < 12 else silent)(logits, hop, step)

    first, _ = decoded(plant, 16, longest_phoneme=0.5)
    second, _ = decoded(plant, 16, longest_phoneme=5.0)
    assert (first.finish_reasons_B[0], second.finish_reasons_B[0]) == (FinishReason.STUCK, FinishReason.SILENCE)


def test_one_bad_row_leaves_the_others_alone() -> None:
    def plant(logits: np.ndarray, hop: np.ndarray, step: int) -> None:
        logits[1, :, CODES - 1] = 50.0
        hop[1, 0] = 30.0

    session, codes = decoded(plant, 9, 9, 9)
    alone, expected = decoded(None, 9)
    assert session.finish_reasons_B.tolist() == [FinishReason.WELL, FinishReason.REPETITION, FinishReason.WELL]
    length = alone.lengths_B[0]
    assert (codes[[0, 2], :length] == expected[0]).all()
