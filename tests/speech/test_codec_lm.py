import dataclasses
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.export.bundling import export_voice
from sonorant.export.onnx_graph import ExportConfig
from sonorant.extras.codec_lm.decoding.state import State
from sonorant.speech.decoding import DecodingConfig
from sonorant.speech.request import Limits
from sonorant.speech.streaming import CHUNK, PAUSE_SECONDS
from sonorant.speech.voice import Voice
from tasks.params import load
from tests.conftest import ROOT
from tests.support.runtimes import Replaced, assert_same_at_once, joined
from tests.support.tiny_voice import CORPUS, DECODING, write_trained_codec_lm

TOLERANCE = 1e-5
SENTENCE = "When the rain had stopped at last, the children ran out into the garden."
TEXTS = ("No.", "Hello there.", SENTENCE, f"{SENTENCE} Really? It cost $3.50!\n\nThe end")
ONCE: dict[str, Any] = {"retries": 0}
"""Greedy and without retries: random weights often end badly, and a stream cannot retry."""
DRAWN = ONCE | {"temperature": 0.9, "top_k": 10, "advance": "sample"}


@pytest.fixture
def voice(codec_lm_bundle: Path) -> Voice:
    return Voice.load(codec_lm_bundle, threads=1)


def count_steps(voice: Voice) -> list[int]:
    """A list of the number of steps of each stepper call."""
    right, steps = voice.runtime.stepper(), []

    def run(state: State, most: int) -> State:
        done = right.run(state, most)
        steps.append(int(done.step_B[0] - state.step_B[0]))
        return done

    voice.runtime = Replaced(voice.runtime, stepper=lambda: Replaced(right, run=run))
    return steps


def frames_of(voice: Voice, seconds: float) -> int:
    return round(seconds * voice.description.decoding.frames_per_second + 0.5)


def config(changes: dict[str, Any]) -> DecodingConfig:
    return dataclasses.replace(DECODING, **changes)


def decode_otherwise(voice: Voice, **changes: Any) -> None:
    decoding = dataclasses.replace(voice.description.decoding, **changes)
    voice.bundle = dataclasses.replace(
        voice.bundle, description=dataclasses.replace(voice.description, decoding=decoding)
    )


@pytest.mark.parametrize("decoding", [ONCE, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("text", TEXTS)
def test_streamed_equals_one_shot(voice: Voice, text: str, decoding: dict[str, Any]) -> None:
    whole = voice.say(text, "ben", decoding=decoding, seed=3)
    for chunk in (997, CHUNK):
        chunks = voice.stream(text, "ben", chunk=chunk, decoding=decoding, seed=3)
        np.testing.assert_allclose(joined(chunks), whole, rtol=0, atol=TOLERANCE)


def test_a_voice_whose_codec_has_no_source_streams_as_in_one_shot(tmp_path: Path) -> None:
    trained = write_trained_codec_lm(tmp_path, kind="vocos")
    export_voice(*trained, tmp_path / "voice", CORPUS, load("export", ExportConfig, ROOT / "params.yaml"), config(ONCE))
    voice = Voice.load(tmp_path / "voice", threads=1)
    assert "decoder" not in voice.description.graphs
    whole = voice.say(SENTENCE)
    for lookahead in (None, 10**6):
        streamed = joined(voice.stream(SENTENCE, lookahead=lookahead))
        np.testing.assert_allclose(streamed, whole, rtol=0, atol=TOLERANCE)
    in_torch = Voice.load(tmp_path / "voice", "torch", threads=1, trained=trained)
    np.testing.assert_allclose(in_torch.say(SENTENCE), whole, rtol=0, atol=1e-4)


def test_seeds_reproduce_and_differ(voice: Voice) -> None:
    one, again, other = (voice.say(SENTENCE, decoding=DRAWN, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert one.shape != other.shape or not np.allclose(one, other)


def test_a_sentence_sounds_the_same_wherever_it_stands(voice: Voice) -> None:
    pause = round(PAUSE_SECONDS * voice.sample_rate)
    alone = [voice.say(text, decoding=DRAWN, seed=5) for text in ("One apple.", "Two pears.")]
    both = voice.say("One apple. Two pears.", decoding=DRAWN, seed=5)
    parts = np.split(both, [len(alone[0]), len(alone[0]) + pause])
    for part, own in zip(parts[::2], alone, strict=True):
        np.testing.assert_allclose(part, own, rtol=0, atol=TOLERANCE)


def test_the_best_of_candidates_streams_too_when_whole(voice: Voice) -> None:
    best = voice.say("Hello there.", decoding=DRAWN, seed=1, candidates=4)
    first = voice.say("Hello there.", decoding=DRAWN, seed=1)
    assert best.shape != first.shape or not np.allclose(best, first)
    streamed = joined(voice.stream("Hello there.", decoding=DRAWN, seed=1, candidates=4, whole=True))
    np.testing.assert_allclose(streamed, best, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("lookahead", [0, None])
def test_no_part_waits_for_more_steps_than_its_samples_depend_on(voice: Voice, lookahead: int | None) -> None:
    described, steps = voice.description.decoding, count_steps(voice)
    speech = voice.stream(SENTENCE + SENTENCE, decoding=ONCE, lookahead=lookahead, chunk=1)
    sounding, behind = voice.speaking.sounding, described.codebooks - 1
    first, second = frames_of(voice, 0.25), frames_of(voice, 0.75)
    next(speech)
    least, all_of_it = sounding.least_lookahead, sounding.lookahead
    assert 0 < least < 3 < all_of_it
    assert sum(steps) == first + (all_of_it if lookahead is None else max(least, lookahead)) + behind
    for _ in range(first * described.samples_per_frame):
        next(speech)
    assert sum(steps) == first + second + all_of_it + behind


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ({"speed": 1.5}, r"this voice speaks at its own pace \(family codec_lm\); leave out speed, pitch and energy"),
        ({"seed": -1}, "seed must be 0 to"),
        ({"candidates": 0, "decoding": DRAWN}, "candidates must be 1 to 16, not 0"),
        ({"whole": True, "lookahead": 0}, "whole-sentence decoding has no lookahead"),
        ({"whole": False, "candidates": 2, "decoding": DRAWN}, "requires whole-sentence decoding"),
        ({"candidates": 2, "decoding": ONCE}, "2 candidates would all be the same"),
        ({"prompt": np.zeros((3, 2), np.int64)}, r"this voice was trained without prompts \(prompt_frames 0\)"),
    ],
    ids=str,
)
def test_what_the_voice_cannot_do_is_refused_at_once(voice: Voice, how: dict[str, Any], line: str) -> None:
    with pytest.raises(SonorantError, match=line):
        voice.stream("Hello.", **{"whole": True, **how})


def test_settings_of_decoding_are_checked(voice: Voice, own_voice: Voice) -> None:
    for wrong, line in (
        ({"top_p": 0.0}, "decoding: key 'top_p': input should be greater than 0, not 0"),
        ({"heat": 1}, "heat"),
    ):
        with pytest.raises(SonorantError, match=line):
            voice.stream("Hello.", decoding=wrong)
    for how in (
        {"decoding": {"temperature": 0.5}},
        {"seed": 0},
        {"candidates": 2},
        {"prompt": np.zeros((3, 2), np.int64)},
    ):
        with pytest.raises(SonorantError, match="this voice is of the family parallel"):
            own_voice.say("Hello.", **how)


def test_audio_is_counted_as_it_comes(voice: Voice) -> None:
    heard = 0
    speech = voice.stream(itertools.repeat("The rain had stopped. "), limits=Limits(audio_seconds=5))
    with pytest.raises(SonorantError, match="the speech would be longer than 5 seconds"):
        for chunk in speech:
            heard += len(chunk)
    assert 0 < heard <= 5 * voice.sample_rate


def test_a_voice_that_says_nothing_is_told_apart_from_a_text_without_words(voice: Voice) -> None:
    decode_otherwise(voice, frames_per_phoneme=SimpleNamespace(median=0.0, p99=0.0))
    with pytest.raises(SonorantError, match="the voice stopped before it produced any speech"):
        voice.say("Hello.")


def test_eight_speeches_at_once_are_those_of_one_after_the_other(voice: Voice) -> None:
    texts = [f"{SENTENCE} Number {number} is another." for number in range(8)]
    assert_same_at_once(lambda number: joined(voice.stream(texts[number], decoding=DRAWN, seed=number)), range(8))
