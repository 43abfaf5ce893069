from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sonorant.text.frontend import SymbolTable


@dataclass(frozen=True, kw_only=True)
class HummerConfig:
    width: int
    frames: int
    """Number of frames per phoneme."""


@dataclass(frozen=True, kw_only=True)
class BuzzerConfig:
    width: int


class Hummer(nn.Module):
    """Tokens (B, N, 3), lengths (B,) -> mel (B, M, N * frames), frames of each row (B,)."""

    def __init__(self, config: HummerConfig, symbols: int, mels: int) -> None:
        super().__init__()
        self.frames = config.frames
        self.symbol = nn.Embedding(symbols, config.width)
        self.out = nn.Linear(config.width, mels)

    def hum(self, tokens: torch.Tensor) -> torch.Tensor:
        """The mel (B, N, M) of each token."""
        return self.out(self.symbol(tokens[..., 0]))

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mel_BNM = self.hum(tokens)
        frames_BNFM = mel_BNM[:, :, None].expand(-1, -1, self.frames, -1)
        return frames_BNFM.flatten(1, 2).transpose(1, 2), lengths * self.frames


class Buzzer(nn.Module):
    """Mel (B, M, T) -> samples (B, T * hop)."""

    def __init__(self, config: BuzzerConfig, mels: int, hop: int) -> None:
        super().__init__()
        self.enter, self.out = nn.Linear(mels, config.width), nn.Linear(config.width, hop)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        mel = mel[:, : self.enter.in_features]  # in training, frames also contain pitch
        return self.out(self.enter(mel.transpose(1, 2)).tanh()).tanh().flatten(1)


def build_hummer(description: dict[str, Any]) -> Hummer:
    symbols = SymbolTable(description["symbols"]).size
    return Hummer(HummerConfig(**description["config"]), symbols, description["audio"]["n_mels"])


def build_buzzer(description: dict[str, Any]) -> Buzzer:
    audio = description["audio"]
    return Buzzer(BuzzerConfig(**description["config"]), audio["n_mels"], audio["hop"])
