from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.families.parallel.synthesis import vocoder_frames
from sonorant.files import read_json
from sonorant.layers.model_folder import save_model
from sonorant.speech.buckets import Bucketed
from sonorant.speech.bundle import Bundle
from sonorant.speech.runtimes import RUNTIMES, LoadOptions, Runtime, load_runtime

GPU = torch.cuda.is_available()
CUDA_PROVIDER = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
TORCH_ON_GPU = [row.name for row in RUNTIMES.values() if (row.engine, row.device) == ("torch", "cuda")]
Speech = tuple[np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def expected(bundle: Bundle, trained: tuple[Path, Path]) -> Speech:
    return spoken(load_runtime("torch", bundle, LoadOptions(trained=trained)), bundle)


def spoken(runtime: Runtime, bundle: Bundle, told: np.ndarray | None = None) -> Speech:
    """Ends, frames and samples of two utterances.

    `told`: frames for the vocoder, because phases accumulate pitch errors.
    """
    tokens = np.random.default_rng(0).integers(0, 2, (2, 30, 3)) + np.array([5, 0, 0])
    prosody = np.array([[1.0, 1.5], [0.0, 0.0], [0.0, 0.0]], np.float32)
    states, ends = runtime.encode(tokens, np.array([30, 12]), np.array([0, 1]), *prosody)
    mel = runtime.decode(states, ends, np.arange(ends.max()))
    (frames,) = vocoder_frames([mel if told is None else told], bundle.description)
    return ends, mel, runtime.vocode(frames, ends[:, -1])


def assert_equal_speech(got: Speech, expected: Speech, mel: float, samples: float) -> None:
    assert [value.dtype for value in got] == [np.int64, np.float32, np.float32]
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_allclose(got[1], expected[1], atol=mel)
    np.testing.assert_allclose(got[2], expected[2], atol=samples)


def test_onnx_runtime_answers_as_torch(bundle: Bundle, expected: Speech) -> None:
    got = spoken(load_runtime("onnxruntime", bundle, LoadOptions(threads=1)), bundle, expected[1])
    assert_equal_speech(got, expected, 1e-5, 1e-4)  # a pulse is a quotient of sines


def test_half_precision_keeps_the_timing_and_nearly_the_sound(
    bundle: Bundle, trained: tuple[Path, Path], expected: Speech
) -> None:
    halved = spoken(load_runtime("torch", bundle, LoadOptions(trained=trained, variant="bf16")), bundle, expected[1])
    assert_equal_speech(halved, expected, 0.1, 0.01)
    assert np.abs(halved[1] - expected[1]).max() > 1e-4, "computed in full precision"


def test_torch_without_trained_models_is_refused(bundle: Bundle) -> None:
    with pytest.raises(SonorantError, match="require the folders of the trained models"):
        load_runtime("torch", bundle, LoadOptions())


@pytest.mark.parametrize(
    ("variant", "why"),
    [
        ("int4", "unknown torch variant 'int4'"),
        ("int8", "contain float models; for int8 give"),
        ("fp16", "by emulation"),
    ],
)
def test_a_variant_that_makes_no_sense_is_refused(
    variant: str, why: str, bundle: Bundle, trained: tuple[Path, Path]
) -> None:
    with pytest.raises(SonorantError, match=why):
        load_runtime("torch", bundle, LoadOptions(trained=trained, variant=variant))


def test_quantised_folders_are_not_taken_for_float_ones(
    bundle: Bundle, trained: tuple[Path, Path], expected: Speech, tmp_path: Path
) -> None:
    layer = "decoder.stack.blocks.0.expand"
    weights = torch.load(trained[0] / "weights.pt", weights_only=True) | {f"{layer}.input_scale": torch.tensor(0.05)}
    described = read_json(trained[0] / "model.json") | {"quantization": {"layers": [layer]}}
    save_model(tmp_path / "acoustic", weights, described)
    folders = (tmp_path / "acoustic", trained[1])
    with pytest.raises(SonorantError, match="contain quantised models; for bf16 give"):
        load_runtime("torch", bundle, LoadOptions(trained=folders, variant="bf16"))
    for variant in (None, "int8"):
        got = spoken(load_runtime("torch", bundle, LoadOptions(trained=folders, variant=variant)), bundle)
        assert 1e-5 < np.abs(got[1] - expected[1]).max() < 1.0


@pytest.mark.skipif(GPU, reason="a GPU is here")
def test_torch_without_a_gpu_says_so(bundle: Bundle, trained: tuple[Path, Path]) -> None:
    with pytest.raises(SonorantError, match="torch finds no GPU"):
        load_runtime("torch-cuda-graphs", bundle, LoadOptions(trained=trained))


@pytest.mark.skipif(CUDA_PROVIDER, reason="onnxruntime-gpu is installed")
def test_onnx_runtime_without_cuda_says_which_package_has_it(bundle: Bundle) -> None:
    with pytest.raises(SonorantError, match="has no CUDAExecutionProvider; uninstall it and install onnxruntime-gpu"):
        load_runtime("onnxruntime-cuda", bundle, LoadOptions())


@pytest.mark.skipif(not GPU, reason="no GPU: CUDA runtimes are not run")
@pytest.mark.parametrize("variant", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("name", TORCH_ON_GPU)
def test_gpu_runtimes_answer_as_torch_on_the_cpu(
    name: str, variant: str, bundle: Bundle, trained: tuple[Path, Path], expected: Speech
) -> None:
    runtime = load_runtime(name, bundle, LoadOptions(trained=trained, variant=variant, batches=(2,), warm_up=True))
    mel, samples = (1e-3, 1e-3) if variant == "fp32" else (0.1, 0.01)
    assert_equal_speech(spoken(runtime, bundle), expected, mel, samples)
    if isinstance(runtime, Bucketed):
        assert (runtime.counters().misses, runtime.counters().late) == (0, 0)


@pytest.mark.skipif(not CUDA_PROVIDER, reason="no onnxruntime-gpu here")
def test_gpu_onnx_runtime_answers_as_torch_on_the_cpu(bundle: Bundle, expected: Speech) -> None:
    assert_equal_speech(spoken(load_runtime("onnxruntime-cuda", bundle, LoadOptions()), bundle), expected, 1e-3, 1e-3)


@pytest.mark.parametrize("sizes", [{"threads": 0}, {"batches": ()}, {"slots": (-64, 64)}], ids=str)
def test_shapes_of_nothing_are_refused(sizes: dict[str, Any]) -> None:
    with pytest.raises(SonorantError, match=rf"{next(iter(sizes))} must be .*at least 1, not"):
        LoadOptions(**sizes)
