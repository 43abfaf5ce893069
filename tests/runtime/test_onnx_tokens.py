"""Decoding under ONNX Runtime says torch's tokens, however long, in whatever batch, and however many do it at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sonorant.decoding.session import Session
from sonorant.errors import SonorantError
from sonorant.families.codec_lm.onnx_runtime import SLOTS
from sonorant.runtime.bundle import read_bundle
from sonorant.runtime.runtimes import LoadOptions, TokenRuntime, load_runtime
from tests.support.runtimes import Replaced, padded, utterance
from tests.support.tiny_voice import DECODING

BATCHES = ([3], [31, 9, 2, 17], [150, 40])
"""Phonemes of each row; the longest are some hundred frames."""


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
    """Codes and lengths of a batch, so many frames at a time."""
    tokens, lengths_B = padded([utterance(length) for length in lengths])
    states = runtime.encode(tokens, lengths_B, np.zeros(len(lengths), np.int64))
    described, keys = read_bundle(bundle).description.decoding, [(0, row, 0) for row in range(len(lengths))]
    session = Session(runtime.stepper(), states, lengths_B, described, DECODING, keys)
    parts = []
    while not session.ended:
        parts.append(session.more(at_once))
    return np.concatenate(parts, axis=1), session.lengths_B.tolist()


@pytest.mark.parametrize("lengths", BATCHES, ids=str)
def test_tokens_are_torchs_however_many_are_asked_for(
    runtime: TokenRuntime, in_torch: TokenRuntime, codec_lm_bundle: Path, lengths: list[int]
) -> None:
    wanted, wanted_frames = decoded(in_torch, codec_lm_bundle, lengths)
    for at_once in (10_000, 7):
        codes, frames = decoded(runtime, codec_lm_bundle, lengths, at_once)
        assert frames == wanted_frames
        np.testing.assert_array_equal(codes, wanted)
    if max(lengths) > 100:
        assert codes.shape[1] > 2 * SLOTS, "the buffers never grew: this test tests nothing"


def test_several_decode_at_once_and_a_stepper_takes_one_batch_after_the_other(
    runtime: TokenRuntime, codec_lm_bundle: Path
) -> None:
    batches = [[31], [9, 17], [40], [5, 6, 7]] * 2
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda lengths: decoded(runtime, codec_lm_bundle, lengths)[0], batches))
    stepper = runtime.stepper()
    of_one_stepper = Replaced(runtime, stepper=lambda: stepper)
    for lengths, codes in zip(batches, together, strict=True):
        np.testing.assert_array_equal(decoded(of_one_stepper, codec_lm_bundle, lengths)[0], codes)


def test_a_runtime_that_does_not_speak_the_family_says_which_do(codec_lm_bundle: Path) -> None:
    told = r"^the runtime tensorrt does not speak the family codec_lm; these do: onnxruntime, "
    with pytest.raises(SonorantError, match=told):
        load_runtime("tensorrt", read_bundle(codec_lm_bundle), LoadOptions())
