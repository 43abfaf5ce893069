"""A voice that speaks code by code: streamed as in one shot, seeds reproduce, and no text runs away, by whatever it is
spoken."""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonorant.decoding.advance import FinishReason, advance
from sonorant.decoding.session import Session
from sonorant.decoding.settings import DecodingConfig
from sonorant.decoding.state import Rules, State
from sonorant.errors import SonorantError
from sonorant.runtime.speaking import Allowance, Limits, Manner
from sonorant.runtime.streaming import CHUNK, PAUSE_SECONDS
from sonorant.runtime.voice import Voice
from tests.support.tiny_voice import DECODING

TOLERANCE = 1e-5
SENTENCE = "When the rain had stopped at last, the children ran out into the garden."
TEXTS = ("No.", "Hello there.", SENTENCE, f"{SENTENCE} Really? It cost $3.50!\n\nThe end")
ONCE = dataclasses.replace(DECODING, retries=0)
"""Greedy, and taken as it comes: weights of chance end badly often, and then `say` would try again where a stream
cannot."""
DRAWN = dataclasses.replace(ONCE, temperature=0.9, top_k=10, advance="sample")


@pytest.fixture
def voice(codec_lm_bundle: Path) -> Voice:
    return Voice.load(codec_lm_bundle, threads=1)


class Counted:
    """A stepper that counts its steps."""

    def __init__(self, stepper: Any) -> None:
        self.stepper, self.steps = stepper, 0

    def begin(self, *arguments: Any) -> None:
        self.stepper.begin(*arguments)

    def run(self, state: State, steps: int) -> State:
        done = self.stepper.run(state, steps)
        self.steps += int(done.step - state.step)
        return done


class Planted:
    """A stepper whose pointer never wants to move, and whose codes are of chance but for `loop`, which says the same
    for ever."""

    def __init__(self, codes: int, advances: int, loop: bool) -> None:
        self.codes, self.advances, self.loop = codes, advances, loop

    def begin(self, states: Any, lengths: Any, prompt: Any, prompt_lengths: Any, rules: Rules) -> None:
        self.rules = rules

    def run(self, state: State, steps: int) -> State:
        rows, codebooks = state.codes_BG.shape
        for _ in range(steps):
            seed = 0 if self.loop else int(state.step)
            logits = np.random.default_rng(seed).normal(size=(rows, codebooks, self.codes)).astype(np.float32)
            hop = np.full((rows, self.advances), -20.0, np.float32)
            hop[:, 0] = 20.0
            state = advance(state, self.rules, logits, hop, np, sampled=True, penalised=True)
        return state


class With:
    """A voice's runtime with other steppers."""

    def __init__(self, runtime: Any, stepper: Any) -> None:
        self.runtime, self.stepper = runtime, stepper

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runtime, name)


def joined(chunks: Any) -> np.ndarray:
    return np.concatenate(list(chunks))


def row_of(voice: Voice, text: str) -> np.ndarray:
    return voice.symbols.to_tokens(voice.frontend.speak(text).phonemes)


@pytest.mark.parametrize("decoding", [ONCE, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("text", TEXTS)
def test_streamed_equals_one_shot(voice: Voice, text: str, decoding: DecodingConfig) -> None:
    whole = voice.say(text, "ben", decoding=decoding, seed=3)
    for chunk, whole_sentences in itertools.product((997, CHUNK, 10**9), (False, True)):
        chunks = list(voice.stream(text, "ben", chunk=chunk, whole=whole_sentences, decoding=decoding, seed=3))
        assert {len(part) for part in chunks[:-1]} <= {chunk}
        assert all(part.dtype == np.float32 for part in chunks)
        np.testing.assert_allclose(joined(chunks), whole, rtol=0, atol=TOLERANCE)


def test_streamed_in_small_parts_equals_the_graphs_run_once(voice: Voice) -> None:
    tokens = row_of(voice, SENTENCE)
    stepless = dataclasses.replace(voice.description.decoding, defaults=ONCE)  # type: ignore[type-var]
    voice.bundle = dataclasses.replace(
        voice.bundle, description=dataclasses.replace(voice.description, decoding=stepless)
    )
    judged = voice.synthesize_judged(tokens[None], np.array([len(tokens)]), np.array([0]), np.ones(1, np.float32))
    for frames in (2, 20, 10_000):
        parts = joined(voice.stream(SENTENCE, limits=Limits(frames=frames)))
        np.testing.assert_allclose(parts, judged.samples[0], rtol=0, atol=TOLERANCE)


def test_a_batch_equals_its_rows_alone_and_an_empty_row_is_silent(voice: Voice) -> None:
    rows = [row_of(voice, text) for text in ("No.", "A rather longer sentence, with a pause.")] + [
        np.array([[1, 0, 0], [2, 0, 0]])
    ]
    tokens = np.zeros((3, max(map(len, rows)), 3), np.int64)
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = row
    lengths, speaker, speed = np.array([len(row) for row in rows]), np.array([0, 1, 0]), np.ones(3, np.float32)
    together = voice.synthesize_judged(tokens, lengths, speaker, speed)
    assert together.samples.shape == (3, together.lengths.max())
    assert together.lengths[2] == 0
    assert (together.attempts >= 1).all()
    for number, row in enumerate(rows):
        one = slice(number, number + 1)
        alone = voice.synthesize_judged(row[None], lengths[one], speaker[one], speed[one])
        assert (alone.lengths[0], alone.finish_reasons[0]) == (
            together.lengths[number],
            together.finish_reasons[number],
        )
        assert alone.attempts[0] == together.attempts[number]
        np.testing.assert_allclose(together.samples[number, : alone.lengths[0]], alone.samples[0], atol=1e-4)
        assert not together.samples[number, alone.lengths[0] :].any()


def test_seeds_reproduce_and_differ(voice: Voice) -> None:
    one, again, other = (voice.say(SENTENCE, decoding=DRAWN, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert one.shape != other.shape or not np.allclose(one, other)
    greedy, still_greedy = (voice.say(SENTENCE, decoding=ONCE, seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(greedy, still_greedy)


def test_speakers_differ_and_the_first_is_the_default(voice: Voice) -> None:
    default, anna, ben = (voice.say("Hello there.", speaker, decoding=ONCE) for speaker in (None, "anna", "ben"))
    np.testing.assert_array_equal(default, anna)
    assert anna.shape != ben.shape or not np.allclose(anna, ben)


def test_a_sentence_sounds_the_same_wherever_it_stands(voice: Voice) -> None:
    pause = np.zeros(round(PAUSE_SECONDS * voice.sample_rate), np.float32)
    alone = [voice.say(text, decoding=DRAWN, seed=5) for text in ("One apple.", "Two pears.")]
    both = voice.say("One apple. Two pears.", decoding=DRAWN, seed=5)
    np.testing.assert_allclose(both, np.concatenate([alone[0], pause, alone[1]]), rtol=0, atol=TOLERANCE)


def test_the_best_of_candidates_is_one_of_them_and_streams_too_when_whole(voice: Voice) -> None:
    best = voice.say("Hello there.", decoding=DRAWN, seed=1, candidates=4)
    np.testing.assert_array_equal(best, voice.say("Hello there.", decoding=DRAWN, seed=1, candidates=4))
    tokens, described = row_of(voice, "Hello there.")[None].astype(np.int64), voice.description.decoding
    runtime: Any = voice.runtime
    lengths = np.array([tokens.shape[1]])
    states, rows = runtime.encode(tokens, lengths, np.zeros(1, np.int64)), [(1, candidate, 0) for candidate in range(4)]
    assert described is not None
    session = Session(runtime.stepper(), np.repeat(states, 4, 0), np.repeat(lengths, 4), described, DRAWN, rows)
    codes = session.more(10_000)
    likeliest = max(
        range(4), key=lambda row: (session.finish_reasons_B[row] == FinishReason.WELL, session.log_probability_B[row])
    )
    own = slice(likeliest, likeliest + 1)
    heard = runtime.vocode(codes[own, : session.lengths_B[likeliest]], session.lengths_B[own])[0]
    np.testing.assert_allclose(best, np.clip(heard, -1, 1), rtol=0, atol=TOLERANCE)
    assert likeliest > 0, "the first candidate is what is said without candidates"
    streamed = joined(voice.stream("Hello there.", decoding=DRAWN, seed=1, candidates=4, whole=True))
    np.testing.assert_allclose(streamed, best, rtol=0, atol=TOLERANCE)


def test_first_speech_takes_the_same_few_steps_whatever_follows(voice: Voice) -> None:
    described = voice.description.decoding
    assert described is not None
    runtime, steps = voice.runtime, []
    for text in (SENTENCE, SENTENCE + " And more of it." * 20_000):
        counted = Counted(runtime.stepper())  # type: ignore[union-attr]
        voice.runtime = With(runtime, lambda counted=counted: counted)
        speech = voice.stream(text, chunk=1)
        next(speech)
        steps.append(counted.steps)
        speech.close()
        assert list(speech) == []
        assert counted.steps == steps[-1]
    first = round(0.25 * described.frames_per_second + 0.5)
    assert steps == [first + voice.description.receptive_field.vocoder + described.codebooks - 1] * 2


def test_a_shorter_lookahead_changes_the_first_part_of_the_first_sentence_alone(voice: Voice) -> None:
    described = voice.description.decoding
    assert described is not None
    text = f"{SENTENCE} {SENTENCE}"
    whole = voice.say(text, decoding=ONCE)
    exact = joined(voice.stream(text, decoding=ONCE, lookahead=10**6))
    np.testing.assert_allclose(exact, whole, rtol=0, atol=TOLERANCE)
    short = joined(voice.stream(text, decoding=ONCE, lookahead=0))
    end = round(0.25 * described.frames_per_second + 0.5) * described.samples_per_frame
    assert np.abs(short[:end] - whole[:end]).max() > TOLERANCE
    np.testing.assert_allclose(short[end:], whole[end:], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("lookahead", [0, 2, None])
def test_no_part_waits_for_more_steps_than_its_samples_depend_on(voice: Voice, lookahead: int | None) -> None:
    described = voice.description.decoding
    assert described is not None
    counted = Counted(voice.runtime.stepper())  # type: ignore[union-attr]
    voice.runtime = With(voice.runtime, lambda: counted)
    speech = voice.stream(SENTENCE + SENTENCE, decoding=ONCE, lookahead=lookahead, chunk=1)
    receptive_field, sizes = (
        voice.description.receptive_field.vocoder,
        [round(part * described.frames_per_second + 0.5) for part in (0.25, 0.75)],
    )
    behind = described.codebooks - 1
    next(speech)
    assert counted.steps == sizes[0] + (receptive_field if lookahead is None else lookahead) + behind
    for _ in range(sizes[0] * described.samples_per_frame):
        next(speech)
    assert counted.steps == sum(sizes) + receptive_field + behind


def test_parts_of_later_sentences_wait_for_no_more_either(voice: Voice) -> None:
    described = voice.description.decoding
    assert described is not None
    counted = Counted(voice.runtime.stepper())  # type: ignore[union-attr]
    voice.runtime = With(voice.runtime, lambda: counted)
    speaking, tokens = voice.speaking, row_of(voice, SENTENCE).astype(np.int64)
    parts = speaking.parts(tokens, Manner(whole=False, decoding=ONCE), Allowance(Limits()), first=False)
    size, behind = (
        round(described.frames_per_second + 0.5),
        voice.description.receptive_field.vocoder + described.codebooks - 1,
    )
    for number in (1, 2):
        next(parts)
        assert counted.steps == number * size + behind


def test_a_model_whose_numbers_are_none_is_told(voice: Voice) -> None:
    runtime = voice.runtime
    broken: Any = With(runtime, runtime.stepper)  # type: ignore[union-attr]
    broken.encode = lambda *inputs: np.full_like(runtime.encode(*inputs), np.nan)
    voice.runtime = broken
    with pytest.raises(SonorantError, match="the language model's logits hold NaN or infinity"):
        voice.say("Hello there.")


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ({"speed": 1.5}, r"this voice speaks at its own pace \(family codec_lm\): leave out the speed, 1\.5"),
        ({"speed": float("nan")}, "this voice speaks at its own pace"),
        ({"seed": -1}, "seed must be 0 to"),
        ({"candidates": 0, "decoding": DRAWN}, "candidates must be 1 to 16, not 0"),
        ({"candidates": 99, "decoding": DRAWN}, "candidates must be 1 to 16, not 99"),
        ({"candidates": 2, "decoding": ONCE}, "2 candidates would all be the same"),
        ({"prompt": np.zeros((3, 2), np.int64)}, r"this voice was trained without references \(prompt_frames 0\)"),
    ],
    ids=str,
)
def test_what_the_voice_cannot_do_is_refused_at_once(voice: Voice, how: dict[str, Any], line: str) -> None:
    with pytest.raises(SonorantError, match=line):
        voice.say("Hello.", **how)
    with pytest.raises(SonorantError, match=line):
        voice.stream("Hello.", whole=True, **how)


def test_a_lookahead_is_for_codebooks(voice: Voice) -> None:
    with pytest.raises(SonorantError, match="leave out the lookahead"):
        voice.stream("Hello.", whole=True, lookahead=0)


def test_candidates_in_a_stream_must_be_whole(voice: Voice) -> None:
    with pytest.raises(SonorantError, match="candidates are compared when they are whole"):
        voice.stream("Hello.", candidates=2, decoding=DRAWN)


def test_a_batch_at_another_speed_is_refused(voice: Voice) -> None:
    with pytest.raises(SonorantError, match="own pace"):
        voice.synthesize(row_of(voice, "No.")[None], np.array([4]), np.array([0]), np.array([1.1]))


def test_settings_of_decoding_are_checked(voice: Voice, voice_bundle: Path) -> None:
    assert voice.decoding() is None
    assert voice.decoding(temperature=0.5, top_k=7) == dataclasses.replace(DECODING, temperature=0.5, top_k=7)
    with pytest.raises(SonorantError, match="top_p must be above 0 and at most 1, not 0"):
        voice.decoding(top_p=0.0)
    parallel = Voice.load(voice_bundle, threads=1)
    assert parallel.decoding() is None
    with pytest.raises(SonorantError, match="this voice is of the family parallel"):
        parallel.decoding(temperature=0.5)
    for how in ({"seed": 0}, {"candidates": 2}, {"prompt": np.zeros((3, 2), np.int64)}):
        with pytest.raises(SonorantError, match="this voice is of the family parallel"):
            parallel.say("Hello.", **how)


@pytest.mark.parametrize("loop", [False, True], ids=["stuck", "loop"])
@pytest.mark.parametrize("streamed", [False, True], ids=["say", "stream"])
def test_a_voice_that_never_moves_on_ends_within_its_budget_and_says_so(
    voice: Voice, loop: bool, streamed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    described = voice.description.decoding
    assert described is not None
    voice.runtime = With(voice.runtime, lambda: Planted(described.codes, described.advances, loop))
    with caplog.at_level(logging.WARNING):
        speech = voice.stream("Hello there.", whole=not streamed)
        samples = joined(speech)
    frames = DECODING.budget * described.frames_per_phoneme.p99 * len(row_of(voice, "Hello there."))
    assert 0 < len(samples) <= np.ceil(frames) * described.samples_per_frame
    assert len(speech.finish_reasons) == 1
    assert speech.finish_reasons[0] != FinishReason.WELL
    assert f"sentence 1 did not go well ({speech.finish_reasons[0].name.lower()})" in caplog.text
    judged = voice.synthesize_judged(row_of(voice, "No.")[None], np.array([4]), np.array([0]), np.ones(1))
    assert judged.attempts[0] == 1 + DECODING.retries
    assert judged.finish_reasons[0] != FinishReason.WELL


@pytest.mark.parametrize("whole", [False, True])
def test_audio_is_counted_as_it_comes(voice: Voice, whole: bool) -> None:
    heard = 0
    speech = voice.stream(itertools.repeat("The rain had stopped. "), limits=Limits(audio_seconds=5), whole=whole)
    with pytest.raises(SonorantError, match="the speech would be longer than 5 seconds"):
        for chunk in speech:
            heard += len(chunk)
    assert 0 < heard <= 5 * voice.sample_rate


def test_absurd_text_gets_one_clear_error_or_ends(voice: Voice) -> None:
    for text, line in (
        ("", "the text is empty"),
        ("...", "nothing in the text can be spoken"),
        ("a" * 10**6, "a word of more than 300"),
    ):
        for speak in (voice.stream, lambda text: iter([voice.say(text, limits=Limits())])):
            with pytest.raises(SonorantError, match=line):
                list(speak(text))


def test_a_voice_that_says_nothing_is_told_apart_from_a_text_without_words(voice: Voice) -> None:
    described = dataclasses.replace(voice.description.decoding, frames_per_phoneme=Silent())  # type: ignore[type-var]
    voice.bundle = dataclasses.replace(
        voice.bundle, description=dataclasses.replace(voice.description, decoding=described)
    )
    for speak in (voice.stream, lambda text: iter([voice.say(text)])):
        with pytest.raises(SonorantError, match="the voice ends before it has said anything"):
            list(speak("Hello."))


class Silent:
    """The pace of a voice that has no time for a phoneme."""

    median = p99 = 0.0


def test_eight_speeches_at_once_are_those_of_one_after_the_other(voice: Voice) -> None:
    texts = [f"{SENTENCE} Number {number} is another." for number in range(8)]
    expected = [joined(voice.stream(text, decoding=DRAWN, seed=number)) for number, text in enumerate(texts)]

    def speak(number: int) -> np.ndarray:
        return joined(voice.stream(texts[number], decoding=DRAWN, seed=number))

    with ThreadPoolExecutor(8) as pool:
        for got, wanted in zip(pool.map(speak, range(8)), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_speeches_that_take_turns_do_not_disturb_each_other(voice: Voice) -> None:
    expected = [joined(voice.stream(text, decoding=ONCE)) for text in TEXTS]
    speeches: list[Iterator[np.ndarray]] = [voice.stream(text, decoding=ONCE) for text in TEXTS]
    heard: list[list[np.ndarray]] = [[] for _ in TEXTS]
    for row in itertools.zip_longest(*speeches):
        for number, chunk in enumerate(row):
            if chunk is not None:
                heard[number].append(chunk)
    for got, wanted in zip(heard, expected, strict=True):
        np.testing.assert_array_equal(joined(got), wanted)
