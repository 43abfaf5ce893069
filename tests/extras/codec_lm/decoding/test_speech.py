from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.extras.codec_lm.decoding.advance import uniform_noise
from sonorant.extras.codec_lm.decoding.attempts import RETRY_TEMPERATURE, Attempt, Spoken, decode_texts
from sonorant.extras.codec_lm.decoding.session import Session
from sonorant.extras.codec_lm.decoding.state import Rules
from sonorant.speech.decoding import DecodingConfig, Pace
from sonorant.speech.speaking import FinishReason
from tests.extras.codec_lm.decoding.tiny_model import (
    CODES,
    CONFIG,
    DESCRIPTION,
    SILENCE,
    STREAMS,
    TinyStepper,
    texts,
)

DRAWN = replace(CONFIG, temperature=1.0, top_k=6)


class FirstAttemptsFail(TinyStepper):
    """The pointer never moves in the first batches; keeps the rules of each batch."""

    def __init__(self, failing: int) -> None:
        super().__init__(plant=self._fail)
        self.failing, self.rules = failing, list[Rules]()

    def _fail(self, logits: np.ndarray, hop: np.ndarray, step: int) -> None:
        if len(self.batches) <= self.failing:
            hop[self.rules[-1].phonemes_B > 8, 0] = 30.0  # only longer texts fail, so that rows differ

    def begin(self, states_BNC: np.ndarray, lengths_B: np.ndarray, *rest: object) -> None:
        super().begin(states_BNC, lengths_B, *rest)  # type: ignore[arg-type]
        self.rules.append(rest[-1])  # type: ignore[arg-type]


def speak(stepper: TinyStepper, *lengths: int, config: DecodingConfig = CONFIG, **more: Any) -> Spoken:
    return decode_texts(stepper, *texts(*lengths), DESCRIPTION, config, **more)


@pytest.mark.parametrize("failing", [0, 1, 2, 3])
def test_failed_rows_alone_are_decoded_again_with_other_noise_and_temperature(failing: int) -> None:
    stepper = FirstAttemptsFail(failing)
    spoken = speak(stepper, 12, 4, 10, config=replace(CONFIG, retries=2, advance="sample"), seed=7)
    assert stepper.batches == [3, 2, 2][: failing + 1]
    assert spoken.attempts_B.tolist() == [min(3, failing + 1), 1, min(3, failing + 1)]
    assert (spoken.finish_reasons_B == FinishReason.WELL).tolist() == [failing < 3, True, failing < 3]
    for number, rules in enumerate(stepper.rules[1:], 1):
        assert (rules.temperature_B == np.float32(RETRY_TEMPERATURE)).all() and rules.median_B.all()
        assert (rules.noise_BSG == uniform_noise([(7, 0, number)] * 2, *rules.noise_BSG.shape[1:])).all()


def test_a_retry_draws_and_is_no_cooler() -> None:
    stepper = FirstAttemptsFail(1)
    speak(stepper, 12, config=replace(DRAWN, top_k=1, retries=1))
    assert [rules.top_k_B.tolist() for rules in stepper.rules] == [[1], [CODES]]
    assert stepper.rules[1].temperature_B.tolist() == [1.0]


def test_ending_with_the_last_frame_of_the_budget_is_not_a_cut() -> None:
    frames = int(speak(TinyStepper(), 9).lengths_B[0])
    described = replace(DESCRIPTION, frames_per_phoneme=Pace(median=1.0, p99=frames / 9))
    spoken = decode_texts(TinyStepper(), *texts(9), described, replace(CONFIG, budget=1.0))
    assert (spoken.lengths_B[0], spoken.finish_reasons_B[0], spoken.cut_B[0]) == (frames, FinishReason.WELL, False)


def test_the_likeliest_sound_candidate_is_kept() -> None:
    states, lengths = texts(9, 14)
    spoken = decode_texts(TinyStepper(), states, lengths, DESCRIPTION, DRAWN, seed=3, candidates=5)
    for row in range(2):
        made = []
        for candidate in range(5):
            own = states[row : row + 1], lengths[row : row + 1]
            session = Session(TinyStepper(), *own, DESCRIPTION, DRAWN, [(3, candidate, 0)])
            codes = session.more(1000)[0]
            went = session.finish_reasons_B[0] == FinishReason.WELL, float(session.log_probability_B[0])
            made.append((*went, codes, session.pointers(0)))
        assert len({codes.tobytes() for _, _, codes, _ in made}) == 5
        _, _, best, pointers = max(made, key=lambda one: one[:2])
        assert (spoken.codes_BFG[row, : spoken.lengths_B[row]] == best).all()
        assert spoken.pointers_BF[row, : spoken.lengths_B[row]].tolist() == pointers.tolist()
        assert (spoken.pointers_BF[row, spoken.lengths_B[row] :] == -1).all()


def test_attempts_rank_by_soundness_then_end_then_likelihood() -> None:
    ranks = [(True, True, -3.0), (True, True, -4.0), (False, True, -2.0), (False, False, -1.0)]
    nothing = np.zeros(0, np.int64)
    kept = [Attempt(*rank, 0, nothing, nothing).rank for rank in ranks]
    assert sorted(kept) == kept[::-1]


def test_a_row_equals_itself_alone_with_retries_and_candidates() -> None:
    config = replace(DRAWN, retries=2, longest_phoneme=0.2)  # strict enough that some rows fail
    lengths = (11, 6, 14, 9, 18, 5)
    together = speak(TinyStepper(), *lengths, config=config, seed=1, candidates=2)
    assert len(set(together.attempts_B.tolist())) > 1
    for row, length in enumerate(lengths):
        alone = speak(TinyStepper(), length, config=config, seed=1, candidates=2)
        frames = alone.lengths_B[0]
        assert (together.lengths_B[row], together.attempts_B[row]) == (frames, alone.attempts_B[0])
        assert (together.codes_BFG[row, :frames] == alone.codes_BFG[0]).all()
        assert (together.codes_BFG[row, frames:] == SILENCE).all()


@pytest.mark.parametrize("lengths", [(0,), (2, 1)])
def test_empty_texts_end_at_once_without_a_fault(lengths: tuple[int, ...]) -> None:
    stepper = TinyStepper()
    spoken = speak(stepper, *lengths, config=replace(CONFIG, retries=2))
    assert spoken.codes_BFG.shape == (len(lengths), 0, STREAMS) and stepper.batches == []
    assert not spoken.lengths_B.any() and (spoken.finish_reasons_B == FinishReason.WELL).all()


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, {"seed": -1}, "seed"),
        ({}, {"candidates": 0}, "candidates"),
        ({}, {"candidates": 2}, "temperature"),
        ({"temperature": 0.7, "top_k": 1}, {"candidates": 2}, "top_k 1"),
    ],
)
def test_contradictions_are_refused(change: dict, arguments: dict, message: str) -> None:
    with pytest.raises(SonorantError, match=message):
        speak(TinyStepper(), 9, config=replace(CONFIG, **change), **arguments)
