import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from sonorant.audio.pitch import SourceRows
from sonorant.speech.buckets import Bucketed, Buckets
from sonorant.speech.bundle import Bundle, Lengths
from sonorant.speech.runtimes import LoadOptions, Runtime, load_runtime

BUCKETS = Buckets(tokens=(16, 48), frames=(64, 160), batches=(1, 3))


def request(rng: np.random.Generator, rows: int, longest: int) -> tuple[np.ndarray, ...]:
    lengths = rng.integers(1, longest + 1, rows)
    lengths[0] = longest
    tokens = rng.integers(0, 2, (rows, longest, 3)) + np.array([5, 0, 0])
    tokens[np.arange(longest)[None] >= lengths[:, None]] = 0
    speaker, zeros = rng.integers(0, 2, rows), np.zeros(rows, np.float32)
    return tokens, lengths, speaker, rng.choice([1.0, 1.5], rows).astype(np.float32), zeros, zeros


class Shapes:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.seen = runtime, set[tuple[str, tuple[int, ...]]]()

    def encode(self, tokens: np.ndarray, *rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.seen.add(("encoder", tokens.shape[:2]))
        return self.runtime.encode(tokens, *rest)

    def decode(self, states: np.ndarray, ends: np.ndarray, time: np.ndarray) -> np.ndarray:
        assert len(states) == len(ends)
        self.seen.add(("decoder", (*ends.shape, len(time))))
        return self.runtime.decode(states, ends, time)

    def vocode(self, mel: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        assert len(mel) == len(lengths)
        self.seen.add(("vocoder", (len(mel), mel.shape[2])))
        return self.runtime.vocode(mel, lengths)


@pytest.fixture(scope="module")
def plain(bundle: Bundle) -> Runtime:
    return load_runtime("onnxruntime", bundle, LoadOptions(threads=1))


def assert_same_speech(
    runtime: Runtime, plain: Runtime, arguments: tuple[np.ndarray, ...], first: int = 0, samples: float = 1e-6
) -> None:
    """Compare all three graphs on equal inputs, the decoder's frames from `first`.

    `samples`: tolerance for rounded sines.
    """
    states, ends = plain.encode(*arguments)
    got_states, got_ends = runtime.encode(*arguments)
    np.testing.assert_allclose(got_states, states, atol=1e-5)
    np.testing.assert_array_equal(got_ends, ends)
    time = np.arange(first, ends.max())
    mel = plain.decode(states, ends, time)
    np.testing.assert_allclose(runtime.decode(states, ends, time), mel, atol=1e-5)
    lengths = np.clip(ends[:, -1] - first, 0, None)
    frames = SourceRows(16000, 256).append(mel)
    np.testing.assert_allclose(runtime.vocode(frames, lengths), plain.vocode(frames, lengths), atol=samples)


def test_sizes_cover_the_corpus_without_much_padding() -> None:
    lengths = Lengths(tokens=(10, 40, 90, 130), frames=(60, 240, 500, 750))
    buckets = Buckets.of(lengths, batches=(4, 1))
    assert buckets.tokens == (24, 40, 96, 136)
    assert buckets.frames == (64, 120, 240, 504, 752)
    assert buckets.batches == (1, 4)
    assert len(buckets.plan()) == len(set(buckets.plan())) == 2 * (4 + 5 + 5)


def bucketed(shapes: Shapes) -> Bucketed:
    return Bucketed(shapes, shapes.runtime, BUCKETS, lambda: len(shapes.seen), rows=24)


def test_padding_changes_no_speech_and_only_bucket_shapes_are_run(plain: Runtime) -> None:
    rng, shapes = np.random.default_rng(0), Shapes(plain)
    runtime = bucketed(shapes)
    for rows, longest, first in ((1, 1, 0), (1, 16, 0), (1, 17, 0), (2, 30, 0), (3, 30, 20), (1, 30, 40)):
        assert_same_speech(runtime, plain, request(rng, rows, longest), first)
    assert shapes.seen <= set(BUCKETS.plan())
    assert runtime.counters().misses == 0


def test_what_is_outside_is_served_and_counted(plain: Runtime) -> None:
    rng, shapes = np.random.default_rng(1), Shapes(plain)
    runtime = bucketed(shapes)
    assert_same_speech(runtime, plain, request(rng, 1, 170))
    assert_same_speech(runtime, plain, request(rng, 4, 10))
    assert not shapes.seen
    assert (runtime.counters().hits, runtime.counters().misses) == (0, 6)


def test_many_threads_prepare_a_shape_once_and_are_all_counted(plain: Runtime) -> None:
    at_once, most = 0, 0
    lock = threading.Lock()

    class Preparing(Shapes):
        def encode(self, tokens: np.ndarray, *rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            nonlocal at_once, most
            new = ("encoder", tokens.shape[:2]) not in self.seen
            with lock:
                at_once += new
                most = max(most, at_once)
            threading.Event().wait(0.05 * new)
            result = super().encode(tokens, *rest)
            with lock:
                at_once -= new
            return result

    runtime = bucketed(Preparing(plain))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seed: runtime.encode(*request(np.random.default_rng(seed), 1, 10)), range(40)))
    assert most == 1
    assert runtime.counters().hits == 40


@pytest.fixture(scope="module")
def compiled(bundle: Bundle, trained: tuple[Path, Path], cpp: None) -> Bucketed:
    """One bucket per graph, because each takes seconds to compile."""
    lengths = Lengths(tokens=(32,) * 4, frames=(192,) * 4)
    small = dataclasses.replace(bundle, description=dataclasses.replace(bundle.description, lengths=lengths))
    return load_runtime("torch-compiled", small, LoadOptions(trained=trained, warm_up=True))


def test_after_the_warm_up_nothing_is_compiled_for_any_request(compiled: Bucketed, plain: Runtime) -> None:
    assert compiled.counters().prepared == len(compiled.buckets.plan()) == 3
    rng = np.random.default_rng(2)
    before = compiled.counters()
    with torch.compiler.set_stance("fail_on_recompile"):
        for longest in (1, 9, 20, 32):
            assert_same_speech(compiled, plain, request(rng, 1, longest), first=max(0, 2 * longest - 50), samples=1e-4)
        assert compiled.counters().hits > before.hits
        for rows, longest in ((1, 120), (2, 10)):
            assert_same_speech(compiled, plain, request(rng, rows, longest), samples=1e-4)
        with pytest.raises(RuntimeError, match="recompile"):
            compiled._fixed.encode(*request(rng, 1, 7))
    after = compiled.counters()
    assert after.misses == before.misses + 6
    assert after.late == 0
    assert after.prepared == before.prepared
