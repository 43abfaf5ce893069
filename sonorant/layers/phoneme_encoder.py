"""The phoneme encoder shared by the parallel acoustic model and the codec language model."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sonorant.layers.convnext import ConvNeXtStack


class Phonemes(NamedTuple):
    """Encoded phoneme tokens. Shapes: B items, N tokens, C channels, M mel bins."""

    states_BNC: Tensor
    prior_BNM: Tensor
    """Normalised mel frame of each token, for the alignment search."""
    mask_BN: Tensor


class PhonemeEncoder(nn.Module):
    """Encodes tokens (symbol, stress, word start) and a speaker as one state and one mel frame per token."""

    float_parts: tuple[str, ...] = ("near",)
    """Names of modules that are not quantised, because no graph contains them."""
    mel_mean: Tensor
    mel_std: Tensor

    def __init__(
        self, config: Any, *, symbols: int, speakers: int, mels: int, mel_mean: float = 0.0, mel_std: float = 1.0
    ) -> None:
        """`config`: `channels`, `expansion`, `encoder_kernel`, `encoder_blocks`, `prior_kernel`, `dropout`. `symbols`,
        `speakers`, `mels`: counts. `mel_mean`, `mel_std`: statistics of the corpus, saved with the weights."""
        super().__init__()
        channels = config.channels
        self.symbol = nn.Embedding(symbols, channels)
        self.stress = nn.Embedding(3, channels)
        self.word_start = nn.Embedding(2, channels)
        self.speaker = nn.Embedding(speakers, channels)
        for embedding in (self.symbol, self.stress, self.word_start, self.speaker):
            nn.init.normal_(embedding.weight, std=0.3)
        self.encoder = ConvNeXtStack(
            channels, config.expansion, config.encoder_kernel, config.encoder_blocks, config.dropout
        )
        self.near = (
            ConvNeXtStack(channels, config.expansion, config.prior_kernel, 1, config.dropout)
            if config.prior_kernel
            else None
        )
        self.prior = nn.Linear(channels, mels)
        self.register_buffer("mel_mean", torch.tensor(mel_mean))
        self.register_buffer("mel_std", torch.tensor(mel_std))

    def encode_phonemes(self, tokens_BN3: Tensor, lengths_B: Tensor, speaker_B: Tensor) -> Phonemes:
        """Encode tokens (B, N, 3) int64 with lengths and speaker (B,) int64."""
        mask_BN = torch.arange(tokens_BN3.shape[1], device=tokens_BN3.device)[None] < lengths_B[:, None]
        x_BNC = self.symbol(tokens_BN3[..., 0]) + self.stress(tokens_BN3[..., 1]) + self.word_start(tokens_BN3[..., 2])
        x_BNC = x_BNC + self.speaker(speaker_B)[:, None]
        mask_BN1 = mask_BN[..., None].to(x_BNC.dtype)
        states_BNC = self.encoder(x_BNC, mask_BN1)
        near_BNC = states_BNC if self.near is None else self.near(x_BNC, mask_BN1)
        return Phonemes(states_BNC, self.prior(near_BNC), mask_BN)

    def normalize(self, mel_BTM: Tensor) -> Tensor:
        return (mel_BTM - self.mel_mean) / self.mel_std


def check_prior_kernel(kernel: int) -> None:
    if kernel < 0 or (kernel and kernel % 2 == 0):
        raise ValueError(f"prior_kernel must be 0 or odd, not {kernel}")
