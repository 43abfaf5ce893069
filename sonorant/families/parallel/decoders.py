"""Decoders of the acoustic model: hidden states of frames -> normalised frames of D rows.

Each has `forward(hidden, mask, time) -> frames` and `errors(hidden, mask, frames)`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from torch import Tensor, nn

from sonorant.layers.convnext import ConvNeXtStack
from sonorant.layers.flow import FlowMatching

if TYPE_CHECKING:
    from sonorant.families.parallel.acoustic import AcousticConfig


class RegressionDecoder(nn.Module):
    """One pass, L1 loss. Sharp enough for very regular voices."""

    def __init__(self, config: AcousticConfig, rows: int) -> None:
        super().__init__()
        self.stack = _stack(config)
        self.out = nn.Linear(config.channels, rows)

    def forward(self, hidden_BTC: Tensor, mask_BT1: Tensor, time_T: Tensor | None = None) -> Tensor:
        """(B, T, C), mask (B, T, 1) -> (B, T, D); `time_T` is unused."""
        return self.out(self.stack(hidden_BTC, mask_BT1))

    def errors(self, hidden_BTC: Tensor, mask_BT1: Tensor, frames_BTD: Tensor) -> Tensor:
        """Absolute errors (B, T, D), zero at padding."""
        return (self(hidden_BTC, mask_BT1).float() - frames_BTD).abs() * mask_BT1


def _stack(config: AcousticConfig) -> ConvNeXtStack:
    return ConvNeXtStack(
        config.channels, config.expansion, config.decoder_kernel, config.decoder_blocks, config.dropout
    )


def _flow(config: AcousticConfig, rows: int) -> FlowMatching:
    return FlowMatching(partial(_stack, config), config.channels, rows, config.flow_steps)


DECODERS: dict[str, Callable[[AcousticConfig, int], RegressionDecoder | FlowMatching]] = {
    "regression": RegressionDecoder,
    "flow": _flow,
}
