"""Predict and measure length, pitch and energy of each token (Łańcucki 2021, "FastPitch", section 2). Shapes: B items,
N tokens, T frames, C channels."""

import math
from functools import partial

import torch
from torch import Tensor, nn

from sonorant.layers.convnext import ConvNeXtStack, Dropout
from sonorant.layers.flow import FlowMatching

PROSODY = 2
"""Number of prosody values per token: pitch and energy."""
TYPICAL = 1.5
"""Log of the number of frames initially predicted for a token."""
SPREAD = 0.6
"""Standard deviation of the log number of frames around `TYPICAL`."""
NEAR_TOKENS = 16.0
"""Number of tokens from the start and end of an utterance within which prosody depends on the position."""


def nepers(decibels: Tensor) -> Tensor:
    """Convert decibels to the natural log of an amplitude, the unit of a log-mel."""
    return decibels * (math.log(10) / 20)


def length_errors(log_BN: Tensor, frames_BN: Tensor) -> Tensor:
    """Return an eighth of the Poisson deviance of log numbers of frames, to match the scale of other errors.
    Predictions are unbiased; a squared error of the logarithm would shorten speech."""
    wanted_BN = frames_BN.clamp(min=1)
    return (log_BN.exp() - wanted_BN + wanted_BN * (wanted_BN.log() - log_BN)) / 8.0


class _Place(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.place = nn.Linear(3, width)

    def placed(self, states_BNC: Tensor, mask_BN1: Tensor, lengths_B: Tensor) -> Tensor:
        since_BN = (mask_BN1[..., 0].cumsum(1) - 0.5).to(states_BNC.dtype)
        length_B1 = lengths_B[:, None].to(states_BNC.dtype)
        near_BN2 = (torch.stack([since_BN, length_B1 - since_BN], dim=2) / NEAR_TOKENS).clamp(0.0, 1.0)
        place_BN3 = torch.cat([(since_BN / length_B1)[..., None], near_BN2], dim=2)
        return (self.dropout(states_BNC) + self.place(place_BN3)) * mask_BN1


class ProsodyPredictor(_Place):
    """Predicts the mean of each token's length, pitch and energy."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__(width, dropout)
        self.stack = _stack(width, dropout)
        self.out = nn.Linear(width, 1 + PROSODY)

    def forward(self, states_BNC: Tensor, mask_BN1: Tensor, lengths_B: Tensor) -> Tensor:
        """States (B, N, C), mask (B, N, 1), lengths (B,) -> (B, N, 3): log number of frames, normalised pitch and
        energy."""
        told_BN3 = self.out(self.stack(self.placed(states_BNC, mask_BN1, lengths_B), mask_BN1))
        return torch.cat([told_BN3[..., :1] + TYPICAL, told_BN3[..., 1:]], dim=2)

    def errors(
        self, states_BNC: Tensor, mask_BN1: Tensor, lengths_B: Tensor, frames_BN: Tensor, prosody_BN2: Tensor
    ) -> Tensor:
        """Return errors (B, N, 3) against each token's frames (B, N) int64, pitch and energy (B, N, 2); zero at
        padding."""
        told_BN3 = self(states_BNC, mask_BN1, lengths_B).float()
        length_BN1 = length_errors(told_BN3[..., :1], frames_BN[..., None])
        return torch.cat([length_BN1, (told_BN3[..., 1:] - prosody_BN2).square()], dim=2) * mask_BN1


class ProsodyFlow(_Place):
    """Samples length, pitch and energy with a speaker's variance (Mehta et al. 2024, "Should you use a probabilistic
    duration model in TTS? Probably!", 2.3, for durations)."""

    def __init__(self, width: int, dropout: float, steps: int, temperature: float) -> None:
        super().__init__(width, dropout)
        self.flow = FlowMatching(partial(_stack, width, dropout), width, 1 + PROSODY, steps, temperature)

    def forward(self, states_BNC: Tensor, mask_BN1: Tensor, lengths_B: Tensor) -> Tensor:
        """Return samples; arguments and shapes are as in `ProsodyPredictor.forward`."""
        number_N = torch.arange(states_BNC.shape[1], device=states_BNC.device)
        told_BN3 = self.flow(self.placed(states_BNC, mask_BN1, lengths_B), mask_BN1, number_N)
        return torch.cat([told_BN3[..., :1] * SPREAD + TYPICAL, told_BN3[..., 1:]], dim=2)

    def errors(
        self, states_BNC: Tensor, mask_BN1: Tensor, lengths_B: Tensor, frames_BN: Tensor, prosody_BN2: Tensor
    ) -> Tensor:
        """Return errors of the flow's velocity, in the shapes of `ProsodyPredictor.errors`."""
        log_BN1 = (frames_BN[..., None].clamp(min=1).log() - TYPICAL) / SPREAD
        wanted_BN3 = torch.cat([log_BN1, prosody_BN2], dim=2)
        errors_BN3 = self.flow.errors(self.placed(states_BNC, mask_BN1, lengths_B), mask_BN1, wanted_BN3)
        return torch.cat([errors_BN3[..., :1] / 4.0, errors_BN3[..., 1:]], dim=2)  # as large as `length_errors`


def _stack(width: int, dropout: float) -> ConvNeXtStack:
    return ConvNeXtStack(width, expansion=1, kernel=7, blocks=3, dropout=dropout)


def token_means(frames_BTK: Tensor, durations_BN: Tensor) -> Tensor:
    """Return means of K values over each token's frames: (B, T, K) float, durations (B, N) int64 -> (B, N, K); 0 for a
    token without frames."""
    sums_BTK = nn.functional.pad(frames_BTK.double().cumsum(1), (0, 0, 1, 0))
    ends_BN = durations_BN.cumsum(1)
    width = sums_BTK.shape[2]
    last, first = (
        sums_BTK.gather(1, edge_BN[..., None].expand(-1, -1, width)) for edge_BN in (ends_BN, ends_BN - durations_BN)
    )
    return ((last - first) / durations_BN.clamp(min=1)[..., None]).to(frames_BTK.dtype)
