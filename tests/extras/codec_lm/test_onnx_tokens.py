import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sonorant.errors import SonorantError
from sonorant.extras.codec_lm import joined_steps
from sonorant.extras.codec_lm.decoding.session import Session, TokenRuntime
from sonorant.extras.codec_lm.decoding.state import State
from sonorant.extras.codec_lm.joined_steps import AHEAD
from sonorant.extras.codec_lm.step_buffers import SLOTS
from sonorant.speech.bundle import read_bundle
from sonorant.speech.decoding import DecodingConfig
from sonorant.speech.runtimes import LoadOptions, load_runtime
from sonorant.speech.voice import Voice
from tests.support.runtimes import padded, utterance
from tests.support.tiny_voice import DECODING

BATCHES = ([31, 9, 2, 17], [220, 40])
"""Number of phonemes per row; the longest row has some hundred frames."""


@pytest.fixture(scope="module")
def runtime(codec_lm_bundle: Path) -> TokenRuntime:
    return load_runtime("onnxruntime", read_bundle(codec_lm_bundle), LoadOptions(threads=1))


@pytest.fixture(scope="module")
def in_torch(codec_lm_bundle: Path, trained_codec_lm: tuple[Path, Path]) -> TokenRuntime:
    """With a cache that grows by concatenation."""
    return load_runtime("torch", read_bundle(codec_lm_bundle), LoadOptions(threads=1, trained=trained_codec_lm))


def decoded(
    runtime: TokenRuntime, bundle: Path, lengths: list[int], at_once: int = 10_000
) -> tuple[NDArray[np.int64], list[int]]:
    """Codes and lengths of a batch, decoded `at_once` frames at a time."""
    tokens, lengths_B = padded([utterance(length) for length in lengths])
    states = runtime.encode(tokens, lengths_B, np.zeros(len(lengths), np.int64))
    described, keys = read_bundle(bundle).description.decoding, [(0, row, 0) for row in range(len(lengths))]
    session = Session(runtime.stepper(), states, lengths_B, described, DECODING, keys)
    parts = []
    while not session.ended:
        parts.append(session.more(at_once))
    return np.concatenate(parts, axis=1), session.lengths_B.tolist()


@pytest.mark.parametrize("lengths", BATCHES, ids=str)
def test_tokens_are_torchs_in_blocks_of_any_size(
    runtime: TokenRuntime, in_torch: TokenRuntime, codec_lm_bundle: Path, lengths: list[int]
) -> None:
    wanted, wanted_frames = decoded(in_torch, codec_lm_bundle, lengths)
    for at_once in (10_000, 7):
        codes, frames = decoded(runtime, codec_lm_bundle, lengths, at_once)
        assert frames == wanted_frames
        np.testing.assert_array_equal(codes, wanted)
    if max(lengths) > 100:
        assert codes.shape[1] > 2 * SLOTS, "the buffers never grew"


def test_a_runtime_without_the_family_names_those_with_it(codec_lm_bundle: Path) -> None:
    told = r"^the runtime tensorrt does not support the family codec_lm; use one of: onnxruntime, "
    with pytest.raises(SonorantError, match=told):
        load_runtime("tensorrt", read_bundle(codec_lm_bundle), LoadOptions())


def begun(
    runtime: Any, bundle: Path, length: int, seed: int = 0, config: DecodingConfig = DECODING, factor: float = 1.0
) -> Session:
    """A session of one text before its first step; `factor` scales its encoder states."""
    tokens, lengths_B = padded([utterance(length)])
    states = factor * runtime.encode(tokens, lengths_B, np.zeros(1, np.int64))
    return Session(
        runtime.stepper(), states, lengths_B, read_bundle(bundle).description.decoding, config, [(seed, 0, 0)]
    )


def to_the_end(session: Session, at_once: int = 9) -> NDArray[np.int64]:
    parts = []
    while not session.ended:
        parts.append(session.more(at_once))
    return np.concatenate(parts, axis=1)


def test_rows_that_join_and_leave_equal_themselves_alone(
    runtime: TokenRuntime, codec_lm_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit-identical, also when drawn and penalised."""
    drawn = replace(DECODING, temperature=0.9, top_p=0.9, repetition_penalty=1.3, advance="sample")
    asked = [
        (length, seed, (DECODING, drawn)[seed % 2]) for seed, length in enumerate((40, 31, 9, 150, 17, 25, 60, 12))
    ]
    alone = [to_the_end(begun(runtime, codec_lm_bundle, *one)) for one in asked]

    chance = random.Random(0)
    waiting, speaking, said = list(range(len(asked))), {}, {}
    abandoned = [begun(runtime, codec_lm_bundle, 33, 5)]
    calls = count_rows(runtime, monkeypatch)
    while waiting or speaking:
        if waiting and chance.random() < 0.8:
            number = waiting.pop(0)
            speaking[number], said[number] = begun(runtime, codec_lm_bundle, *asked[number]), []
        if len(said) == 4:
            abandoned.clear()
        for session in abandoned:
            session.more(5)
        for number in [number for number in speaking if chance.random() < 0.6]:
            said[number].append(speaking[number].more(chance.choice((1, 3, 8))))
            if speaking[number].ended:
                del speaking[number]
    for number, codes in enumerate(alone):
        np.testing.assert_array_equal(np.concatenate(said[number], axis=1), codes)
    assert max(calls) > 3 and sum(calls) > 1.4 * len(calls), "too few joined steps"


def count_rows(runtime: Any, patch: pytest.MonkeyPatch) -> list[int]:
    """Collect the number of rows of each later step."""
    right, rows = runtime._joined_steps()._step, []

    class Noting:
        def io_binding(self) -> Any:
            return right.io_binding()

        def run_with_iobinding(self, binding: Any) -> None:
            rows.append(binding.get_outputs()[0].shape()[0])
            right.run_with_iobinding(binding)

    patch.setattr(runtime._joined_steps(), "_step", Noting())
    return rows


def test_a_stalled_row_is_computed_a_bounded_number_of_steps_ahead(
    runtime: TokenRuntime, codec_lm_bundle: Path
) -> None:
    stalled, heard = (begun(runtime, codec_lm_bundle, 150) for _ in range(2))
    stalled.more(4)
    while not heard.ended:
        heard.more(10)
    asked = 4 + read_bundle(codec_lm_bundle).description.decoding.codebooks - 1
    assert heard._made > asked + 2 * AHEAD
    (row,) = stalled._stepper._rows  # type: ignore[attr-defined]
    assert row.made == asked + AHEAD


def test_a_row_continues_from_a_given_state_beside_others(runtime: TokenRuntime, codec_lm_bundle: Path) -> None:
    session, other = begun(runtime, codec_lm_bundle, 31), begun(runtime, codec_lm_bundle, 150, 1)
    path = [session._state]
    for _ in range(40):
        path.append(session._stepper.run(path[-1], 1))
    told = begun(runtime, codec_lm_bundle, 31)
    carried = False
    for before, after in pairwise(path):
        other.more(3)
        carried |= told._stepper._rows[0].made > before.step_B[0]  # type: ignore[attr-defined]
        found = told._stepper.run(State(*(field.copy() for field in before)), 1)
        np.testing.assert_array_equal(found.log_probability_B, after.log_probability_B)
        np.testing.assert_array_equal(found.codes_BG, after.codes_BG)
    assert carried, "never ahead of a given state"


def test_a_row_of_nan_harms_no_row_beside_or_after_it(runtime: TokenRuntime, codec_lm_bundle: Path) -> None:
    beside, bad = begun(runtime, codec_lm_bundle, 60), begun(runtime, codec_lm_bundle, 40, factor=np.nan)
    said = [beside.more(3)]
    with pytest.raises(SonorantError, match="NaN or infinity"):
        bad.more(10)
    del bad
    after = begun(runtime, codec_lm_bundle, 31)
    np.testing.assert_array_equal(to_the_end(after, 3), to_the_end(begun(runtime, codec_lm_bundle, 31)))
    said.append(to_the_end(beside))
    np.testing.assert_array_equal(np.concatenate(said, axis=1), to_the_end(begun(runtime, codec_lm_bundle, 60)))


def test_an_interrupted_step_leaves_all_rows_right(
    runtime: Any, codec_lm_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [to_the_end(begun(runtime, codec_lm_bundle, length)) for length in (31, 40)]
    sessions = [begun(runtime, codec_lm_bundle, length) for length in (31, 40)]
    said: list[list[NDArray[np.int64]]] = [[], []]
    chance, right = random.Random(1), joined_steps.complete

    def interrupted(state: State, xp: Any) -> Any:
        if chance.random() < 0.1:
            raise KeyboardInterrupt
        return right(state, xp)

    monkeypatch.setattr(joined_steps, "complete", interrupted)
    interruptions = 0
    while not all(session.ended for session in sessions):
        for session, parts in zip(sessions, said, strict=True):
            try:
                if not session.ended:
                    parts.append(session.more(5))
            except KeyboardInterrupt:
                interruptions += 1
    assert interruptions > 5
    for parts, codes in zip(said, alone, strict=True):
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), codes)


def test_buffers_and_rows_are_freed_with_the_last_session(codec_lm_bundle: Path) -> None:
    fresh: Any = load_runtime("onnxruntime", read_bundle(codec_lm_bundle), LoadOptions(threads=1))
    decoded(fresh, codec_lm_bundle, [31, 9])
    assert fresh._joined_steps()._buffers is None
    session = begun(fresh, codec_lm_bundle, 40)
    session.more(3)
    assert fresh._joined_steps()._buffers is not None
    del session
    assert fresh._joined_steps()._buffers is None
    fresh._joined_steps().add([])
    assert not fresh._joined_steps()._rows


def test_a_closed_speech_is_no_longer_computed(codec_lm_bundle: Path) -> None:
    voice = Voice.load(codec_lm_bundle, threads=1)
    closed = voice.stream("Once upon a time there was a king.")
    next(closed)
    assert voice.runtime._joined_steps()._unfinished()
    closed.close()
    assert not voice.runtime._joined_steps()._unfinished()
