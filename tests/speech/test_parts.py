import numpy as np
import pytest

from sonorant.families.parallel.synthesis import speak, vocoder_frames
from sonorant.speech.bundle import Bundle, read_bundle
from sonorant.speech.chunks import compute_chunks, decode_chunks
from sonorant.speech.runtimes import LoadOptions, Runtime, load_runtime
from tests.support.runtimes import Replaced


@pytest.fixture(params=["voice_bundle", "flow_bundle"])
def voice(request: pytest.FixtureRequest) -> tuple[Bundle, Runtime]:
    bundle = read_bundle(request.getfixturevalue(request.param))
    return bundle, load_runtime("onnxruntime", bundle, LoadOptions(threads=1))


def encoded(runtime: Runtime) -> tuple[np.ndarray, np.ndarray]:
    tokens = np.random.default_rng(0).integers(0, 2, (2, 60, 3)) + np.array([5, 0, 0])
    zeros = np.zeros(2, np.float32)
    return runtime.encode(tokens, np.array([60, 25]), np.array([0, 1]), zeros + 1, zeros, zeros)


@pytest.mark.parametrize("sizes", [(17,), (8, 16, 64), (1, 100_000)])
def test_parts_equal_the_whole(voice: tuple[Bundle, Runtime], sizes: tuple[int, ...]) -> None:
    bundle, runtime = voice
    receptive_field = bundle.description.receptive_field
    states, ends = encoded(runtime)
    lengths = ends[:, -1]
    whole = runtime.decode(states, ends, np.arange(lengths.max()))
    mel_parts = list(decode_chunks(runtime, states, ends, receptive_field.decoder, sizes))
    assert mel_parts[0].shape[2] == min(sizes[0], lengths.max())
    np.testing.assert_allclose(np.concatenate(mel_parts, axis=2), whole, atol=1e-5)
    frames = vocoder_frames(mel_parts, bundle.description)
    parts = list(compute_chunks(runtime.vocode, frames, lengths, receptive_field.vocoder, (23, *sizes)))
    (whole_frames,) = vocoder_frames([whole], bundle.description)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), runtime.vocode(whole_frames, lengths), atol=1e-5)


@pytest.mark.parametrize("limit", [40, 1_000_000])
def test_a_limit_changes_the_work_not_the_speech(voice: tuple[Bundle, Runtime], limit: int) -> None:
    bundle, runtime = voice
    states, ends = encoded(runtime)
    (frames,) = vocoder_frames([runtime.decode(states, ends, np.arange(ends.max()))], bundle.description)
    whole = runtime.vocode(frames, ends[:, -1])
    widest = 0

    def vocode(mel: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        nonlocal widest
        widest = max(widest, mel.shape[0] * mel.shape[2])
        return runtime.vocode(mel, lengths)

    watched = Replaced(runtime, vocode=vocode)
    spoken = speak(watched, states, ends, bundle.description, limit)
    np.testing.assert_allclose(spoken, whole, atol=1e-5)
    assert widest <= limit + 2 * 2 * bundle.description.receptive_field.vocoder
