import copy
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from sonorant.errors import SonorantError
from sonorant.export.quantization.calibration import calibrate, quantized_copy
from sonorant.layers.convnext import DepthwiseConv
from sonorant.layers.quantized import LARGEST, quantizable, quantize_layers, quantized
from sonorant.speech.onnx_sessions import SUMS_THAT_FIT

LAYERS = {
    "linear": (lambda: nn.Linear(24, 16), (2, 9, 24), "MatMulIntegerToFloat"),
    "convolution": (lambda: nn.Conv1d(24, 16, 5, padding=2), (2, 24, 9), "QLinearConv"),
    "depthwise": (lambda: DepthwiseConv(24, 5), (2, 9, 24), "QLinearConv"),
    "transposed": (lambda: nn.ConvTranspose1d(24, 16, 4, stride=2, padding=1), (2, 24, 9), None),
}


def calibrated(name: str) -> tuple[nn.Sequential, nn.Sequential, torch.Tensor]:
    """A float model of one layer, its quantised copy, and the calibration input."""
    make, shape, _ = LAYERS[name]
    torch.manual_seed(0)
    model, x = nn.Sequential(make()).eval(), torch.randn(shape)
    int8 = quantized_copy(model, ["0"], calibrate(model, ["0"], lambda m: m(x)))
    assert isinstance(int8, nn.Sequential)
    return model, int8, x


def exported(model: nn.Sequential, x: torch.Tensor, path: Path) -> onnx.ModelProto:
    # Sizes vary, because ONNX Runtime turns fixed ones into a float Gemm.
    time = 1 if isinstance(model[0], nn.Linear | DepthwiseConv) else 2
    sizes = {0: torch.export.Dim("batch"), time: torch.export.Dim("time")}
    program = torch.export.export(model, (x,), dynamic_shapes=(sizes,), strict=True)
    result = torch.onnx.export(program, input_names=["x"], opset_version=20, dynamo=True, verbose=False)
    assert result is not None
    path.write_bytes(result.model_proto.SerializeToString())
    return result.model_proto


def opened(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = f"{path}.optimised"
    options.log_severity_level = 3
    options.add_session_config_entry(*SUMS_THAT_FIT)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", LAYERS)
def test_onnx_runtime_computes_the_same_in_integers(name: str, tmp_path: Path) -> None:
    (model, int8, x), kernel = calibrated(name), LAYERS[name][2]
    graph = exported(int8, x, tmp_path / "layer.onnx").graph
    session = opened(tmp_path / "layer.onnx")
    with torch.no_grad():
        expected, as_float = int8(x).numpy(), model(x).numpy()
    step = float(quantized(int8)["0"].output_scale) if kernel != "MatMulIntegerToFloat" else 1e-5
    found = session.run(None, {"x": x.numpy()})[0]
    # A sum between two integers may round either way.
    assert np.abs(found - expected).max() <= 1.01 * step
    assert (np.abs(found - expected) > 0.5 * step).mean() < 0.02
    assert np.abs(found - as_float).mean() < 0.02 * np.abs(as_float).mean() + 0.5 * step
    operators = Counter(node.op_type for node in onnx.load(tmp_path / "layer.onnx.optimised").graph.node)
    assert kernel is None or operators[kernel] == 1, operators
    weights = [array for array in graph.initializer if array.data_type == onnx.TensorProto.INT8 and len(array.dims) > 1]
    assert [int(np.prod(array.dims)) for array in weights] == [model[0].get_parameter("weight").numel()]


@pytest.mark.parametrize("name", ["convolution", "depthwise"])
def test_a_bias_lies_where_integer_kernels_round_it_to(name: str, tmp_path: Path) -> None:
    """Off that grid, one value in a few hundred rounds differently."""
    _, int8, x = calibrated(name)
    layer = quantized(int8)["0"]
    layer.output_scale.div_(4)
    exported(int8, x, tmp_path / "layer.onnx")
    session = opened(tmp_path / "layer.onnx")
    many = layer.quantized_input(torch.randn(200, *x.shape[1:], generator=torch.Generator().manual_seed(1)))
    with torch.no_grad():
        expected = int8(many).numpy()
    found = session.run(None, {"x": many.numpy()})[0]
    assert (np.abs(found - expected) > 0.5 * float(layer.output_scale)).mean() < 1e-4


@pytest.mark.parametrize("name", LAYERS)
def test_each_output_channel_has_its_own_scale(name: str) -> None:
    _, int8, x = calibrated(name)
    layer = quantized(int8)["0"]
    stored = layer.stored_weight.movedim(layer.channel_axis, 0).flatten(1)
    assert layer.weight_scale.shape == (int8(x).shape[1 if name in ("convolution", "transposed") else 2],)
    assert (stored.abs().amax(1) == LARGEST).all()


def test_gradients_pass_where_values_are_kept_and_nowhere_else() -> None:
    _, int8, _ = calibrated("linear")
    layer = quantized(int8.train())["0"]
    x = torch.full((1, 24), 0.5 * 127 * float(layer.input_scale))
    x[0, 0] *= 4
    x.requires_grad_()
    int8(x).sum().backward()
    assert x.grad is not None
    assert x.grad[0, 0] == 0.0
    assert torch.all(x.grad[0, 1:] != 0.0)
    assert layer.weight.grad is not None and torch.all(layer.weight.grad != 0.0)


def test_autocast_does_not_blur_the_grid() -> None:
    """In bf16, neighbouring steps near 127 would merge."""
    _, int8, x = calibrated("linear")
    layer = quantized(int8)["0"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        on_grid, weight = layer.quantized_input(x.bfloat16()), layer.quantized_weight()
    assert on_grid.dtype == weight.dtype == torch.float32
    steps = on_grid / layer.input_scale
    assert torch.allclose(steps, steps.round(), atol=1e-4)


def test_stored_weights_follow_the_weights() -> None:
    _, int8, _ = calibrated("linear")
    layer = quantized(int8)["0"]
    before = layer.stored_weight.clone()
    state = copy.deepcopy(int8.state_dict())
    state["0.weight"] = state["0.weight"].flip(0)
    int8.load_state_dict(state)
    assert torch.equal(layer.stored_weight, before.flip(0))
    with torch.no_grad():
        layer.weight.mul_(-1.0)
    int8.eval()
    assert torch.equal(layer.stored_weight, -before.flip(0))


def test_only_float_layers_that_exist_can_be_quantised() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ConvTranspose1d(4, 4, 2, groups=2))
    assert quantizable(model) == ["0"]
    quantize_layers(model, ["0"])
    for name in ("0", "1", "2", "stack.out"):
        with pytest.raises(SonorantError, match=f"layer '{name}' cannot be quantised"):
            quantize_layers(model, [name])
