"""Depthwise convolution over time, fast where it is trained on CPUs. Knows nothing of the blocks it stands in."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class DepthwiseConv(nn.Conv1d):
    """A convolution over time of each channel by itself, same length out as in. Weights are those of `nn.Conv1d`."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__(channels, channels, kernel, padding=kernel // 2, groups=channels)

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        """(B, T, C) float -> (B, T, C), in autocast's dtype where there is one."""
        return self.convolve(x_BTC, self.weight)

    def convolve(self, x_BTC: torch.Tensor, weight_C1K: torch.Tensor) -> torch.Tensor:
        """As `forward`, with other weights of the same shape."""
        if not self.training or x_BTC.device.type != "cpu":
            return self._conv_forward(x_BTC.transpose(1, 2), weight_C1K, self.bias).transpose(1, 2)
        if torch.is_autocast_enabled("cpu"):
            x_BTC = x_BTC.to(torch.get_autocast_dtype("cpu"))
        return _ChannelsLast.apply(x_BTC, weight_C1K, self.bias)


class _ChannelsLast(torch.autograd.Function):
    """The same sums with the channels innermost, where neighbours in memory share a vector register.

    torch's own depthwise backward is four to six times slower on CPUs: the gradient of the input is the same convolution with the
    kernel reversed, that of the weights a product with the input's windows, summed in float32.
    """

    @staticmethod
    def forward(ctx: Any, x_BTC: torch.Tensor, weight_C1K: torch.Tensor, bias_C: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x_BTC, weight_C1K)
        return _convolve(x_BTC, weight_C1K.to(x_BTC.dtype), bias_C.to(x_BTC.dtype))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x_BTC, weight_C1K = ctx.saved_tensors
        gradient_BTC = gradients[0].contiguous()
        kernel, half = weight_C1K.shape[2], weight_C1K.shape[2] // 2
        gradient_of_x = _convolve(gradient_BTC, weight_C1K.flip(2).to(gradient_BTC.dtype)) if ctx.needs_input_grad[0] else None
        padded_BTC = F.pad(x_BTC.float(), (0, 0, half, half))
        batch, time, channels = x_BTC.shape
        windows_BKTC = padded_BTC.as_strided((batch, kernel, time, channels), (padded_BTC.stride(0), channels, channels, 1))
        gradient_KC = (windows_BKTC * gradient_BTC.float()[:, None]).sum((0, 2))
        return gradient_of_x, gradient_KC.t()[:, None].to(weight_C1K.dtype), gradient_BTC.float().sum((0, 1)).to(weight_C1K.dtype)


def _convolve(x_BTC: torch.Tensor, weight_C1K: torch.Tensor, bias_C: torch.Tensor | None = None) -> torch.Tensor:
    image_BC1T = x_BTC.transpose(1, 2)[:, :, None]  # channels-last in memory, which torch's 2-d kernels take as it is
    y_BC1T = F.conv2d(image_BC1T, weight_C1K[:, :, None], bias_C, padding=(0, weight_C1K.shape[2] // 2), groups=len(weight_C1K))
    return y_BC1T[:, :, 0].transpose(1, 2)
