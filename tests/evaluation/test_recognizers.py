import importlib.util

import numpy as np
import pytest

from sonorant.audio.recognizers import Clip, PocketSphinx, RecognizerConfig, load_recognizer, transcribe
from sonorant.audio.wav import resample
from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import Normalizer
from sonorant.evaluation.recordings import score


@pytest.fixture(scope="module")
def recognizer() -> PocketSphinx:
    return load_recognizer("pocketsphinx")


def test_most_words_said_clearly_are_heard(recognizer: PocketSphinx, clips: list[Clip], references: list[str]) -> None:
    heard = [recognizer.transcribe(clip.samples, clip.rate) for clip in clips]
    assert score(references, heard, Normalizer("en-us")).wer < 20
    assert "pocketsphinx" in recognizer.revision


def test_several_processes_hear_the_same_in_the_same_order(recognizer: PocketSphinx, clips: list[Clip]) -> None:
    alone = [recognizer.transcribe(clip.samples, clip.rate) for clip in clips[:2]]
    assert transcribe(clips[:2], "pocketsphinx", "en-us", processes=2) == alone


def test_what_is_heard_does_not_depend_on_the_clips_before(clips: list[Clip]) -> None:
    """Compares word scores, which change before words do."""
    noise = Clip(0.1 * np.random.default_rng(0).standard_normal(4000).astype(np.float32), 16000)
    used = PocketSphinx()
    for before in (clips[0], noise):
        used.transcribe(before.samples, before.rate)
    fresh = PocketSphinx()
    scores = []
    for recognizer in (used, fresh):
        recognizer.transcribe(clips[1].samples, clips[1].rate)
        scores.append([(segment.word, segment.ascore, segment.end_frame) for segment in recognizer._decoder.seg()])
    assert scores[0] == scores[1]


def test_other_rates_are_resampled(recognizer: PocketSphinx, clips: list[Clip], references: list[str]) -> None:
    upsampled = resample(clips[1].samples, clips[1].rate, 44100)
    heard = recognizer.transcribe(upsampled, 44100)
    assert score(references[1:2], [heard], Normalizer("en-us")).wer <= 25


@pytest.mark.parametrize("length", [0, 16])
def test_nothing_is_heard_in_nothing(recognizer: PocketSphinx, length: int) -> None:
    assert recognizer.transcribe(np.zeros(length, np.float32), 16000) == ""


@pytest.mark.parametrize("name", ["sphinx", "pocketsphinx:big", "faster-whisper", "onnx-asr:", ""])
def test_an_unknown_name_is_refused_with_those_that_are_allowed(name: str) -> None:
    with pytest.raises(ValueError, match=r"use one of pocketsphinx, faster-whisper:<model>, onnx-asr:<model>"):
        RecognizerConfig(name=name, sentences=10)
    with pytest.raises(SonorantError, match="use one of pocketsphinx"):
        load_recognizer(name)


def test_a_language_it_does_not_know_is_refused() -> None:
    with pytest.raises(SonorantError, match="English only"):
        load_recognizer("pocketsphinx", "de-de")


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("faster-whisper:tiny.en", "faster_whisper", "whisper"), ("onnx-asr:whisper-base", "onnx_asr", "onnx-asr")],
)
def test_a_missing_extra_is_named(name: str, module: str, extra: str) -> None:
    if importlib.util.find_spec(module):
        pytest.skip(f"{module} is installed")
    with pytest.raises(SonorantError, match=rf"pip install .*\[{extra}\]'"):
        load_recognizer(name)
