"""Layers that compute like int8 engines: fake quantisation in torch, QuantizeLinear and DequantizeLinear in exports.

Symmetric int8 with zero-point 0, as TensorRT requires: a weight scale per output channel, an activation scale per
tensor. Biases stay float; if the output is quantised, they are rounded to the accumulator's grid, as in ONNX Runtime.
Gradients are straight-through, and zero where a value is clipped (Bengio et al. 2013; Krishnamoorthi 2018).
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sonorant.errors import SonorantError
from sonorant.layers.convnext import DepthwiseConv

LARGEST = 127
"""Largest int8 value. Weights use -127 to 127; activations also -128, at which QuantizeLinear saturates."""


class Quantized(nn.Module):
    """Mixin, listed before the torch layer. Activation scales are buffers set by calibration; weight scales are
    computed from the weights."""

    weight: Tensor
    input_scale: Tensor
    output_scale: Tensor
    stored_weight: Tensor
    weight_scale: Tensor
    grid_weight: Tensor
    grid_bias: Tensor
    channel_axis = 0
    """Axis of the output channels in the weight."""
    quantizes_output = False
    """Whether engines require a quantised output to compute in integers."""

    def prepare(self) -> None:
        """Add the buffers after the layer's class has been changed."""
        weight, bias = self.weight.detach(), self._bias()
        self.register_buffer("input_scale", weight.new_ones(()))
        if self.quantizes_output:
            self.register_buffer("output_scale", weight.new_ones(()))
        # Cached, because rounding the weights at each decoder step would take longer than the step.
        cached = {
            "weight_scale": weight.new_ones(weight.shape[self.channel_axis]),
            "stored_weight": torch.zeros_like(weight, dtype=torch.int8),
            "grid_weight": torch.zeros_like(weight, dtype=torch.float32),
        }
        if self.quantizes_output and bias is not None:
            cached["grid_bias"] = torch.zeros_like(bias, dtype=torch.float32)
        for name, value in cached.items():
            self.register_buffer(name, value, persistent=False)
        self.register_load_state_dict_post_hook(lambda module, _: module.store())
        self.store()

    @torch.no_grad()
    def store(self) -> None:
        """Update int8 weights, scales, dequantised weights and the rounded bias."""
        self.weight_scale.copy_(self._scale_of_weight())
        shape = [-1 if axis == self.channel_axis else 1 for axis in range(self.weight.ndim)]
        self.stored_weight.copy_((self.weight / self.weight_scale.reshape(shape)).round())
        self.grid_weight.copy_(self.stored_weight * self.weight_scale.reshape(shape))
        if self.quantizes_output and (bias := self._bias()) is not None:
            self.grid_bias.copy_(_rounded(bias, self.input_scale * self.weight_scale))

    def train(self, mode: bool = True) -> Any:
        """Set the mode; evaluation mode also updates the int8 weights."""
        if not mode:
            self.store()
        return super().train(mode)

    def quantized_input(self, x: Tensor) -> Tensor:
        return _on_grid(x, self.input_scale)

    def quantized_output(self, y: Tensor) -> Tensor:
        return _on_grid(y, self.output_scale)

    def quantized_weight(self) -> Tensor:
        """Return the weights rounded to their grid, float32; int8 in an exported graph."""
        if torch.compiler.is_exporting():
            return self.stored(self.stored_weight, self.channel_axis)
        if not self.training and not torch.is_grad_enabled():
            return self.grid_weight
        scale = self._scale_of_weight()
        zero = torch.zeros(len(scale), dtype=torch.int32, device=scale.device)
        return torch.fake_quantize_per_channel_affine(
            self.weight.float(), scale, zero, self.channel_axis, -LARGEST, LARGEST
        )

    def quantized_bias(self) -> Tensor | None:
        """Return the bias (out,) float32, rounded to multiples of input scale x weight scale, with a straight-through
        gradient."""
        bias = self._bias()
        if bias is None:
            return None
        if torch.compiler.is_exporting() or not (self.training or torch.is_grad_enabled()):
            return self.grid_bias
        bias = bias.float()
        return bias + (_rounded(bias, self.input_scale * self._scale_of_weight()) - bias).detach()

    def stored(self, weight: Tensor, axis: int) -> Tensor:
        """Dequantise int8 weights to float32 in an exported graph."""
        from sonorant.layers.onnx_operators import dequantize

        return dequantize(weight, self.weight_scale, torch.zeros_like(self.weight_scale, dtype=torch.int8), axis)

    def _bias(self) -> Tensor | None:
        bias: Any = self.bias
        return None if bias is None else torch.as_tensor(bias)

    def _scale_of_weight(self) -> Tensor:
        others = [axis for axis in range(self.weight.ndim) if axis != self.channel_axis]
        return (self.weight.detach().float().abs().amax(others) / LARGEST).clamp(min=1e-12)


class QuantizedLinear(Quantized, nn.Linear):
    """A linear layer in int8 with float bias and output."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.quantized_input(x)
        if not torch.compiler.is_exporting():
            return F.linear(x, self.quantized_weight(), self.bias)
        # Stored transposed, because engines require a constant second factor.
        y = x @ self.stored(self.stored_weight.t().contiguous(), 1)
        return y if self.bias is None else y + self.bias


class QuantizedConv1d(Quantized, nn.Conv1d):
    quantizes_output = True

    def forward(self, x_BCT: Tensor) -> Tensor:
        return self.quantized_output(
            self._conv_forward(self.quantized_input(x_BCT), self.quantized_weight(), self.quantized_bias())
        )


class QuantizedDepthwiseConv(Quantized, DepthwiseConv):
    quantizes_output = True

    def forward(self, x_BTC: Tensor) -> Tensor:
        bias = self.quantized_bias()
        return self.quantized_output(self.convolve(self.quantized_input(x_BTC), self.quantized_weight(), bias))


class QuantizedConvTranspose1d(Quantized, nn.ConvTranspose1d):
    """A transposed convolution over time with one group; ONNX Runtime computes this layer in float."""

    channel_axis = 1
    quantizes_output = True

    def forward(self, x_BCT: Tensor, output_size: list[int] | None = None) -> Tensor:
        x_BCT, weight, bias = self.quantized_input(x_BCT), self.quantized_weight(), self.quantized_bias()
        padding: Any = self.padding  # may be a string in torch's type, but never is in this layer
        y = F.conv_transpose1d(
            x_BCT, weight, bias, self.stride, padding, self.output_padding, self.groups, self.dilation
        )
        return self.quantized_output(y)


LAYERS: dict[type[nn.Module], type[Quantized]] = {
    nn.Linear: QuantizedLinear,
    nn.Conv1d: QuantizedConv1d,
    DepthwiseConv: QuantizedDepthwiseConv,
    nn.ConvTranspose1d: QuantizedConvTranspose1d,
}


def quantizable(model: nn.Module) -> list[str]:
    """Return the names of the layers that can be quantised, in order of definition, except those in
    `model.float_parts`."""
    layers = [
        name
        for name, layer in model.named_modules()
        if type(layer) in LAYERS and not (isinstance(layer, nn.ConvTranspose1d) and layer.groups != 1)
    ]
    kept = tuple(f"{part}." for part in getattr(model, "float_parts", ()))
    return [name for name in layers if not f"{name}.".startswith(kept)]


def quantized(model: nn.Module) -> dict[str, Quantized]:
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, Quantized)}


def quantize_layers(model: nn.Module, names: Iterable[str]) -> None:
    """Quantise layers in place. Raises SonorantError naming a layer that cannot be quantised."""
    possible = set(quantizable(model))
    for name in names:
        if name not in possible:
            raise SonorantError(f"layer '{name}' cannot be quantised or is not in this model; run: dvc repro quantize")
        layer = model.get_submodule(name)
        layer.__class__ = LAYERS[type(layer)]
        assert isinstance(layer, Quantized)
        layer.prepare()


def _rounded(bias: Tensor, step: Tensor) -> Tensor:
    return (bias.detach().float() / step).round() * step


def _on_grid(x: Tensor, scale: Tensor) -> Tensor:
    if torch.compiler.is_exporting():
        from sonorant.layers.onnx_operators import dequantize, quantize

        zero = torch.zeros((), dtype=torch.int8)
        return dequantize(quantize(x, scale, zero), scale, zero)
    zero = torch.zeros((), dtype=torch.int32, device=x.device)
    return torch.fake_quantize_per_tensor_affine(x.float(), scale, zero, -LARGEST - 1, LARGEST)
