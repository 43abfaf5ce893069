"""ConvNeXt blocks over time, and layers that train fast on CPUs."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class GELU(nn.Module):
    """GELU (Hendrycks & Gimpel 2016) in its tanh form, which engines fuse. bfloat16 on CPUs uses the erf form, which is
    3 to 4 times as fast; the difference is a tenth of bfloat16's rounding."""

    def forward(self, x: Tensor) -> Tensor:
        as_erf = x.dtype == torch.bfloat16 and x.device.type == "cpu"
        return F.gelu(x, approximate="none" if as_erf else "tanh")


_LEVELS = 2**16


class Dropout(nn.Dropout):
    """`nn.Dropout` with one 64-bit random number per four elements on CPUs (`p` is rounded to a multiple of 1/65536),
    because torch's dropout takes a seventh of a training step."""

    def forward(self, input: Tensor) -> Tensor:
        dropped = round(self.p * _LEVELS)
        if not self.training or input.device.type != "cpu" or not 0 < dropped < _LEVELS:
            return F.dropout(input, self.p, self.training)
        words = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        levels = words.view(torch.int16)[: input.numel()].view(input.shape)
        kept = torch.ge(levels, dropped - _LEVELS // 2, out=torch.empty(input.shape, dtype=input.dtype))
        return input * kept.mul_(_LEVELS / (_LEVELS - dropped))


class DepthwiseConv(nn.Conv1d):
    """Depthwise convolution over time with "same" padding; weights as in `nn.Conv1d`."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__(channels, channels, kernel, padding=kernel // 2, groups=channels)

    def forward(self, x_BTC: Tensor) -> Tensor:
        """Convolve (B, T, C) float; the output has the autocast dtype."""
        return self.convolve(x_BTC, self.weight, self.bias)

    def convolve(self, x_BTC: Tensor, weight_C1K: Tensor, bias_C: Tensor | None) -> Tensor:
        """Compute `forward` with a different weight and bias of the same shapes."""
        if not self.training or x_BTC.device.type != "cpu":
            return self._conv_forward(x_BTC.transpose(1, 2), weight_C1K, bias_C).transpose(1, 2)
        if torch.is_autocast_enabled("cpu"):
            x_BTC = x_BTC.to(torch.get_autocast_dtype("cpu"))
        return _ChannelsLast.apply(x_BTC, weight_C1K, bias_C)


class _ChannelsLast(torch.autograd.Function):
    """Depthwise convolution with channels innermost, because torch's depthwise backward is 4 to 6 times slower on
    CPUs."""

    @staticmethod
    def forward(ctx: Any, x_BTC: Tensor, weight_C1K: Tensor, bias_C: Tensor) -> Tensor:
        ctx.save_for_backward(x_BTC, weight_C1K)
        return _convolve(x_BTC, weight_C1K.to(x_BTC.dtype), bias_C.to(x_BTC.dtype))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x_BTC, weight_C1K = ctx.saved_tensors
        gradient_BTC = gradients[0].contiguous()
        kernel, half = weight_C1K.shape[2], weight_C1K.shape[2] // 2
        gradient_of_x = (
            _convolve(gradient_BTC, weight_C1K.flip(2).to(gradient_BTC.dtype)) if ctx.needs_input_grad[0] else None
        )
        padded_BTC = F.pad(x_BTC.float(), (0, 0, half, half))
        batch, time, channels = x_BTC.shape
        windows_BKTC = padded_BTC.as_strided(
            (batch, kernel, time, channels), (padded_BTC.stride(0), channels, channels, 1)
        )
        gradient_KC = (windows_BKTC * gradient_BTC.float()[:, None]).sum((0, 2))
        return (
            gradient_of_x,
            gradient_KC.t()[:, None].to(weight_C1K.dtype),
            gradient_BTC.float().sum((0, 1)).to(weight_C1K.dtype),
        )


def _convolve(x_BTC: Tensor, weight_C1K: Tensor, bias_C: Tensor | None = None) -> Tensor:
    image_BC1T = x_BTC.transpose(1, 2)[:, :, None]  # channels-last in memory, which torch's 2-d kernels accept
    y_BC1T = F.conv2d(
        image_BC1T, weight_C1K[:, :, None], bias_C, padding=(0, weight_C1K.shape[2] // 2), groups=len(weight_C1K)
    )
    return y_BC1T[:, :, 0].transpose(1, 2)


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution over time, then an MLP over channels, with a scaled residual (Liu et al. 2022, "A ConvNet
    for the 2020s"; in one dimension as in Siuzdak 2023, "Vocos")."""

    def __init__(self, channels: int, expansion: int, kernel: int, dropout: float = 0.0, scale: float = 0.1) -> None:
        super().__init__()
        self.depthwise = DepthwiseConv(channels, kernel)
        self.norm = nn.LayerNorm(channels)
        self.expand = nn.Linear(channels, channels * expansion)
        self.activation = GELU()
        self.dropout = Dropout(dropout)
        self.contract = nn.Linear(channels * expansion, channels)
        self.scale = nn.Parameter(torch.full((channels,), scale))

    def forward(self, x_BTC: Tensor) -> Tensor:
        """(B, T, C) float -> (B, T, C). Padding must be zero in the input, but is nonzero in the output."""
        y = self.norm(self.depthwise(x_BTC))
        y = self.contract(self.dropout(self.activation(self.expand(y))))
        return x_BTC + self.scale * y


class ConvNeXtStack(nn.Module):
    """ConvNeXt blocks, with padding masked before each block, then a layer norm."""

    def __init__(self, channels: int, expansion: int, kernel: int, blocks: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(ConvNeXtBlock(channels, expansion, kernel, dropout) for _ in range(blocks))
        self.norm = nn.LayerNorm(channels)
        self.recompute = False  # activation checkpointing, see training/networks.py

    def forward(self, x_BTC: Tensor, mask_BT1: Tensor | None = None) -> Tensor:
        """(B, T, C) float, mask (B, T, 1) of ones and zeros (None means no padding) -> (B, T, C)."""
        for block in self.blocks:
            if mask_BT1 is not None:
                x_BTC = x_BTC * mask_BT1
            recompute = self.recompute and torch.is_grad_enabled()
            x_BTC = checkpoint(block, x_BTC, use_reentrant=False) if recompute else block(x_BTC)
        return self.norm(x_BTC)
