"""Whatever runs a voice gives the same answers, and what cannot run says why, by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.families import load_family
from sonorant.runtime.buckets import Bucketed
from sonorant.runtime.bundle import Bundle, read_bundle
from sonorant.runtime.runtimes import RUNTIMES, LoadOptions, Runtime, load_runtime

GPU = torch.cuda.is_available()
Speech = tuple[np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def bundle(voice_bundle: Path) -> Bundle:
    return read_bundle(voice_bundle)


@pytest.fixture(scope="module")
def expected(bundle: Bundle, trained: tuple[Path, Path]) -> Speech:
    return spoken(load_runtime("torch", bundle, LoadOptions(trained=trained)))


def spoken(runtime: Runtime) -> Speech:
    """Ends, mel and samples of two utterances together."""
    tokens = np.random.default_rng(0).integers(0, 2, (2, 30, 3)) + np.array([5, 0, 0])
    states, ends = runtime.encode(tokens, np.array([30, 12]), np.array([0, 1]), np.array([1.0, 1.5], np.float32))
    mel = runtime.decode(states, ends, np.arange(ends.max()))
    return ends, mel, runtime.vocode(mel, ends[:, -1])


def assert_equal_speech(got: Speech, expected: Speech, mel: float, samples: float) -> None:
    assert [value.dtype for value in got] == [np.int64, np.float32, np.float32]
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_allclose(got[1], expected[1], atol=mel)
    np.testing.assert_allclose(got[2], expected[2], atol=samples)


def test_onnx_runtime_answers_as_torch(bundle: Bundle, expected: Speech) -> None:
    assert_equal_speech(spoken(load_runtime("onnxruntime", bundle, LoadOptions(threads=1))), expected, 1e-5, 1e-6)


def test_half_precision_keeps_the_timing_and_nearly_the_sound(
    bundle: Bundle, trained: tuple[Path, Path], expected: Speech
) -> None:
    halved = spoken(load_runtime("torch", bundle, LoadOptions(trained=trained, variant="bf16")))
    assert_equal_speech(halved, expected, 0.1, 0.01)
    assert np.abs(halved[1] - expected[1]).max() > 1e-4, "computed in full precision"


def test_an_unknown_runtime_is_answered_with_those_there_are(bundle: Bundle) -> None:
    with pytest.raises(SonorantError, match=r"unknown runtime 'onyx'; there are: onnxruntime, onnxruntime-cuda, torch"):
        load_runtime("onyx", bundle, LoadOptions())


@pytest.mark.parametrize("name", [name for name in load_family("parallel").loaders() if not RUNTIMES[name].standalone])
def test_torch_without_trained_models_is_refused(name: str, bundle: Bundle) -> None:
    with pytest.raises(SonorantError, match="need the folders of the trained models"):
        load_runtime(name, bundle, LoadOptions())


@pytest.mark.parametrize(
    ("variant", "why"),
    [("int4", "no variant 'int4'"), ("int8", "hold float models; int8 needs"), ("fp16", "by emulation")],
)
def test_a_variant_that_makes_no_sense_is_refused(
    variant: str, why: str, bundle: Bundle, trained: tuple[Path, Path]
) -> None:
    with pytest.raises(SonorantError, match=why):
        load_runtime("torch", bundle, LoadOptions(trained=trained, variant=variant))


def test_quantised_folders_are_not_taken_for_float_ones(
    bundle: Bundle, trained: tuple[Path, Path], expected: Speech, tmp_path: Path
) -> None:
    quantized = tmp_path / "acoustic"
    shutil.copytree(trained[0], quantized)
    description = json.loads((quantized / "model.json").read_text(encoding="utf-8"))
    description["quantization"] = {"layers": ["decoder.stack.blocks.0.expand"]}
    (quantized / "model.json").write_text(json.dumps(description), encoding="utf-8")
    weights = torch.load(quantized / "weights.pt", weights_only=True)
    weights["decoder.stack.blocks.0.expand.input_scale"] = torch.tensor(0.05)
    torch.save(weights, quantized / "weights.pt")
    folders = (quantized, trained[1])
    with pytest.raises(SonorantError, match="hold quantised models; bf16 needs"):
        load_runtime("torch", bundle, LoadOptions(trained=folders, variant="bf16"))
    for variant in (None, "int8"):
        got = spoken(load_runtime("torch", bundle, LoadOptions(trained=folders, variant=variant)))
        assert 1e-5 < np.abs(got[1] - expected[1]).max() < 1.0


@pytest.mark.skipif(GPU, reason="a GPU is here")
@pytest.mark.parametrize(
    "name", [row.name for row in RUNTIMES.values() if (row.engine, row.device) == ("torch", "cuda")]
)
def test_torch_without_a_gpu_says_so(name: str, bundle: Bundle, trained: tuple[Path, Path]) -> None:
    with pytest.raises(SonorantError, match="torch sees no GPU here"):
        load_runtime(name, bundle, LoadOptions(trained=trained))


@pytest.mark.skipif(
    "CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="onnxruntime-gpu is installed"
)
def test_onnx_runtime_without_cuda_says_which_package_has_it(bundle: Bundle) -> None:
    with pytest.raises(SonorantError, match="has no CUDAExecutionProvider; put onnxruntime-gpu in its place"):
        load_runtime("onnxruntime-cuda", bundle, LoadOptions())


@pytest.mark.skipif(not GPU, reason="no GPU: CUDA runtimes are not run")
@pytest.mark.parametrize("variant", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize(
    "name", [row.name for row in RUNTIMES.values() if (row.engine, row.device) == ("torch", "cuda")]
)
def test_gpu_runtimes_answer_as_torch_on_the_cpu(
    name: str, variant: str, bundle: Bundle, trained: tuple[Path, Path], expected: Speech
) -> None:
    runtime = load_runtime(name, bundle, LoadOptions(trained=trained, variant=variant, batches=(2,), warm_up=True))
    mel, samples = (1e-3, 1e-3) if variant == "fp32" else (0.1, 0.01)
    assert_equal_speech(spoken(runtime), expected, mel, samples)
    if isinstance(runtime, Bucketed):
        assert (runtime.counters().misses, runtime.counters().late) == (0, 0)


@pytest.mark.skipif(
    "CUDAExecutionProvider" not in onnxruntime.get_available_providers(), reason="no onnxruntime-gpu here"
)
def test_gpu_onnx_runtime_answers_as_torch_on_the_cpu(bundle: Bundle, expected: Speech) -> None:
    assert_equal_speech(spoken(load_runtime("onnxruntime-cuda", bundle, LoadOptions())), expected, 1e-3, 1e-3)


def test_threads_below_one_are_refused() -> None:
    with pytest.raises(SonorantError, match="threads must be at least 1, not 0"):
        LoadOptions(threads=0)


@pytest.mark.parametrize("sizes", [{"batches": ()}, {"batches": (1, 0)}, {"slots": ()}, {"slots": (-64, 64)}], ids=str)
def test_shapes_of_nothing_are_refused(sizes: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(SonorantError, match=f"{next(iter(sizes))} must be one or several numbers of at least 1, not"):
        LoadOptions(**sizes)  # type: ignore[arg-type]
