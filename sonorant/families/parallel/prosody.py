"""How long, how high and how loud each token is spoken, as a network predicts it and as a recording has it (Łańcucki
2021, "FastPitch", section 2). Shapes: B items, N tokens, T frames, C channels."""

import math

import torch
from torch import Tensor, nn

from sonorant.layers.convnext import ConvNeXtStack, Dropout

PROSODY = 2
"""Pitch and energy."""
TYPICAL = 1.5
"""Log frames of a token, about which predictors begin."""
NEAR_TOKENS = 16.0
"""Tokens from the beginning and the end of an utterance that count for its melody."""


def nepers(decibels: Tensor) -> Tensor:
    """Decibels as natural log of an amplitude, in which a log-mel is."""
    return decibels * (math.log(10) / 20)


class DurationPredictor(nn.Module):
    """Log of each token's length in frames, from encoder states it does not train: of models without prosody."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stack = ConvNeXtStack(width, expansion=1, kernel=3, blocks=2)
        self.out = nn.Linear(width, 1)

    def forward(self, states_BNC: Tensor, mask_BN1: Tensor) -> Tensor:
        """(B, N, C), mask (B, N, 1) -> (B, N) log frames."""
        return self.out(self.stack(states_BNC, mask_BN1))[..., 0] + TYPICAL


class ProsodyPredictor(nn.Module):
    """Length, pitch and energy of each token, from encoder states that it does not train and where in the utterance it
    stands."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.place = nn.Linear(3, width)
        self.stack = ConvNeXtStack(width, expansion=1, kernel=7, blocks=3, dropout=dropout)
        self.out = nn.Linear(width, 1 + PROSODY)

    def forward(self, states_BNC: Tensor, mask_BN1: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N, C), mask (B, N, 1), lengths (B,) -> log frames (B, N); pitch and energy (B, N, 2), normalised."""
        since_BN = (mask_BN1[..., 0].cumsum(1) - 0.5).to(states_BNC.dtype)
        length_B1 = lengths_B[:, None].to(states_BNC.dtype)
        near_BN2 = (torch.stack([since_BN, length_B1 - since_BN], dim=2) / NEAR_TOKENS).clamp(0.0, 1.0)
        place_BN3 = torch.cat([(since_BN / length_B1)[..., None], near_BN2], dim=2)
        x_BNC = (self.dropout(states_BNC) + self.place(place_BN3)) * mask_BN1
        told_BN3 = self.out(self.stack(x_BNC, mask_BN1))
        return told_BN3[..., 0] + TYPICAL, told_BN3[..., 1:]


def token_means(frames_BTK: Tensor, durations_BN: Tensor) -> Tensor:
    """Means of K figures over each token's frames: (B, T, K) float, durations (B, N) int64 -> (B, N, K); 0 where a
    token has none."""
    sums_BTK = nn.functional.pad(frames_BTK.double().cumsum(1), (0, 0, 1, 0))
    ends_BN = durations_BN.cumsum(1)
    width = sums_BTK.shape[2]
    last, first = (
        sums_BTK.gather(1, edge_BN[..., None].expand(-1, -1, width)) for edge_BN in (ends_BN, ends_BN - durations_BN)
    )
    return ((last - first) / durations_BN.clamp(min=1)[..., None]).to(frames_BTK.dtype)
