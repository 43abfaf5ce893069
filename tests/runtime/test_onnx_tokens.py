"""Decoding under ONNX Runtime says torch's tokens, however long, in whatever batch, and however many do it at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from sonorant.decoding.session import Session
from sonorant.errors import SonorantError
from sonorant.families.codec_lm.onnx_runtime import SLOTS
from sonorant.runtime.bundle import read_bundle
from sonorant.runtime.runtimes import LoadOptions, TokenRuntime, load_runtime
from tests.export.conftest import utterance
from tests.support.tiny_voice import DECODING

BATCHES = ([3], [31, 9, 2, 17], [150, 40])
"""Phonemes of each row; the longest are some hundred frames."""


@pytest.fixture(scope="module")
def runtime(codec_lm_bundle: Path) -> TokenRuntime:
    loaded: TokenRuntime = load_runtime("onnxruntime", read_bundle(codec_lm_bundle), LoadOptions(threads=1))
    return loaded


@pytest.fixture(scope="module")
def in_torch(codec_lm_bundle: Path, trained_codec_lm: tuple[Path, Path]) -> TokenRuntime:
    """With a cache that grows by concatenation."""
    loaded: TokenRuntime = load_runtime(
        "torch", read_bundle(codec_lm_bundle), LoadOptions(threads=1, trained=trained_codec_lm)
    )
    return loaded


def decoded(
    runtime: TokenRuntime | SimpleNamespace, bundle: Path, lengths: list[int], at_once: int = 10_000
) -> tuple[NDArray[np.int64], list[int]]:
    """Codes and lengths of a batch, so many frames at a time."""
    tokens = np.zeros((len(lengths), max(lengths), 3), np.int64)
    for row, length in enumerate(lengths):
        tokens[row, :length] = utterance(length)
    states, description = (
        runtime.encode(tokens, np.array(lengths), np.zeros(len(lengths), np.int64)),
        read_bundle(bundle).description,
    )
    assert description.decoding is not None
    keys = [(0, row, 0) for row in range(len(lengths))]
    session = Session(runtime.stepper(), states, np.array(lengths), description.decoding, DECODING, keys)
    parts = []
    while not session.ended:
        parts.append(session.more(at_once))
    return np.concatenate(parts, axis=1), session.lengths_B.tolist()


@pytest.mark.parametrize("lengths", BATCHES, ids=str)
def test_tokens_are_torchs(
    runtime: TokenRuntime, in_torch: TokenRuntime, codec_lm_bundle: Path, lengths: list[int]
) -> None:
    codes, frames = decoded(runtime, codec_lm_bundle, lengths)
    wanted, wanted_frames = decoded(in_torch, codec_lm_bundle, lengths)
    assert frames == wanted_frames
    np.testing.assert_array_equal(codes, wanted)
    if max(lengths) > 100:
        assert codes.shape[1] > 2 * SLOTS, "the buffers never grew: this test tests nothing"


def test_tokens_do_not_depend_on_how_many_are_asked_for(runtime: TokenRuntime, codec_lm_bundle: Path) -> None:
    whole, _ = decoded(runtime, codec_lm_bundle, [60, 20])
    np.testing.assert_array_equal(decoded(runtime, codec_lm_bundle, [60, 20], at_once=7)[0], whole)


def test_a_row_is_as_it_would_be_alone(runtime: TokenRuntime, codec_lm_bundle: Path) -> None:
    lengths = [31, 9, 17]
    codes, frames = decoded(runtime, codec_lm_bundle, lengths)
    for row, length in enumerate(lengths):
        alone, (alone_frames,) = decoded(runtime, codec_lm_bundle, [length])
        assert alone_frames == frames[row]
        np.testing.assert_array_equal(alone[0], codes[row, : frames[row]])


def test_several_decode_at_once_and_a_stepper_takes_one_batch_after_the_other(
    runtime: TokenRuntime, codec_lm_bundle: Path
) -> None:
    batches = [[31], [9, 17], [40], [5, 6, 7]] * 2
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda lengths: decoded(runtime, codec_lm_bundle, lengths)[0], batches))
    stepper = runtime.stepper()
    of_one_stepper = SimpleNamespace(encode=runtime.encode, stepper=lambda: stepper)
    for lengths, codes in zip(batches, together, strict=True):
        np.testing.assert_array_equal(decoded(of_one_stepper, codec_lm_bundle, lengths)[0], codes)


def test_a_runtime_that_does_not_speak_the_family_says_which_do(codec_lm_bundle: Path) -> None:
    with pytest.raises(
        SonorantError,
        match=r"^the runtime tensorrt does not speak the family codec_lm; these do: onnxruntime, ",
    ):
        load_runtime("tensorrt", read_bundle(codec_lm_bundle), LoadOptions())
