import dataclasses
import gc
import logging
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sonorant.cli.main import main
from sonorant.errors import SonorantError
from sonorant.speech.buckets import Bucketed
from sonorant.speech.bundle import Bundle, read_bundle
from sonorant.speech.runtimes import LoadOptions, Runtime, load_runtime
from tests.extras.tensorrt.stand_in import Gpu, installed, write_engines
from tests.extras.tensorrt.test_engines import CONFIG
from tests.extras.tensorrt.test_gpu import speak
from tests.support.variants import with_variant

Load = Callable[..., Bucketed]
STREAMS = 2
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def engines(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines")
    write_engines(bundle, folder, CONFIG)
    return folder


@pytest.fixture
def gpu() -> Iterator[Gpu]:
    with installed() as gpu:
        yield gpu
        assert gpu.faults == []


@pytest.fixture
def load(gpu: Gpu, bundle: Bundle, engines: Path) -> Load:
    """load(bundle, **options) -> the runtime on the stand-ins."""

    def make(bundle: Bundle = bundle, **options: object) -> Bucketed:
        asked = {"variant": "fp32", "engines": engines, "threads": 1} | options
        return load_runtime("tensorrt", bundle, LoadOptions(**asked))

    return make


def assert_equal(runtime: Runtime, expected: Runtime, batch: int, tokens: int, seed: int = 0) -> None:
    for got, wanted in zip(speak(runtime, batch, tokens, seed), speak(expected, batch, tokens, seed), strict=True):
        assert got.shape == wanted.shape and np.abs(got - wanted).max() < TOLERANCE


def test_every_bucket_is_recorded_once_and_replayed(gpu: Gpu, load: Load, expected: Runtime) -> None:
    runtime = load(warm_up=True)
    shapes = len(runtime.buckets.plan())
    assert (runtime.counters().prepared, gpu.captures) == (shapes, shapes * STREAMS)
    gpu.replays = gpu.runs = 0
    for tokens in (3, 12, 30, 50, 12):
        assert_equal(runtime, expected, 1, tokens, seed=tokens)
    assert (gpu.runs, gpu.replays, gpu.captures) == (0, 15, shapes * STREAMS)
    assert dataclasses.astuple(runtime.counters()) == (15, 0, shapes, 0)


def test_large_requests_take_no_memory_and_lose_no_recording(gpu: Gpu, load: Load, expected: Runtime) -> None:
    runtime = load(warm_up=True)
    gpu.limit = gpu.taken  # other programs use the rest
    captures = gpu.captures
    assert_equal(runtime, expected, 8, 200)
    gpu.runs = 0
    assert_equal(runtime, expected, 1, 30, seed=1)
    assert (gpu.runs, gpu.captures) == (0, captures)


def test_a_full_gpu_is_an_error_of_loading_and_nothing_is_kept(gpu: Gpu, load: Load) -> None:
    gpu.limit = 1_000_000
    with pytest.raises(SonorantError, match="CUDA: cudaErrorMemoryAllocation"):
        load()
    gc.collect()
    assert gpu.taken == 0


def test_a_shape_that_cannot_be_recorded_runs_and_is_not_counted(
    gpu: Gpu, load: Load, expected: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    gpu.recordable = False
    runtime = load()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert_equal(runtime, expected, 1, 12)
    assert (runtime.counters().prepared, gpu.replays) == (0, 0)
    assert caplog.text.count("run without a CUDA graph") == 3 * STREAMS  # once per graph and stream


def test_threads_get_their_own_results(load: Load, expected: Runtime) -> None:
    runtime = load()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda seed: assert_equal(runtime, expected, 1 + seed % 2, 10 + seed, seed), range(12)))


def test_too_large_batches_and_refused_contexts_are_errors(gpu: Gpu, load: Load) -> None:
    with pytest.raises(SonorantError, match=r"batches of 16 rows exceed the maximum of the engines in .*, 8; "):
        load(batches=(1, 16))
    gpu.contexts = False
    with pytest.raises(SonorantError, match="TensorRT cannot create a context for an engine"):
        load()


def test_shapes_outside_all_profiles_run_in_fp32_if_the_cpu_lacks_the_variant(
    load: Load, bundle: Bundle, tmp_path: Path, expected: Runtime
) -> None:
    """As for bfloat16, because ONNX Runtime does not load this graph."""
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"no kernels for it")
    graphs = dict.fromkeys(bundle.graphs, garbage)
    lacking = read_bundle(with_variant(bundle.folder, tmp_path / "voice", "bf16", graphs))
    write_engines(lacking, tmp_path / "engines", CONFIG)
    runtime = load(lacking, engines=tmp_path / "engines", variant="bf16")
    assert_equal(runtime, expected, 9, 11)
    assert runtime.counters().hits == 0
    options = runtime._free.work._any_size.sessions["encoder"].get_session_options()
    assert options.intra_op_num_threads == 1


def test_say_takes_the_engines(
    gpu: Gpu, bundle: Bundle, engines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    say = ["say", "Good morning.", "--voice", str(bundle.folder), "--runtime", "tensorrt", "--variant", "fp32", "-o"]
    main([*say, str(tmp_path / "speech.wav"), "--engines", str(engines)])
    assert gpu.replays or gpu.runs
    with pytest.raises(SystemExit):
        main([*say, str(tmp_path / "none.wav"), "--engines", str(tmp_path / "none")])
