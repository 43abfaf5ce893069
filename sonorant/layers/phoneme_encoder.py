"""The phoneme encoder in which both the parallel acoustic model and the codec language model begin."""

from typing import Any

import torch
from torch import Tensor, nn

from sonorant.layers.convnext import ConvNeXtStack


class PhonemeEncoder(nn.Module):
    """Tokens (symbol, stress, word start) and a speaker -> a state for each token, and its mel prior."""

    mel_mean: Tensor
    mel_std: Tensor

    def __init__(
        self, config: Any, *, symbols: int, speakers: int, mels: int, mel_mean: float = 0.0, mel_std: float = 1.0
    ) -> None:
        """`config`: sizes `channels`, `expansion`, `encoder_kernel`, `encoder_blocks` and `dropout`. `symbols`,
        `speakers` and `mels` are counts. `mel_mean` and `mel_std` are the corpus' statistics, kept with the weights."""
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
        self.prior = nn.Linear(channels, mels)
        self.register_buffer("mel_mean", torch.tensor(mel_mean))
        self.register_buffer("mel_std", torch.tensor(mel_std))

    def encode_phonemes(self, tokens_BN3: Tensor, lengths_B: Tensor, speaker_B: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (B, N, 3) int64, lengths, speaker (B,) -> states (B, N, C), mask (B, N) bool. `prior` of the states is
        each token's normalised mel frame, which the alignment search compares with."""
        mask_BN = torch.arange(tokens_BN3.shape[1], device=tokens_BN3.device)[None] < lengths_B[:, None]
        x_BNC = self.symbol(tokens_BN3[..., 0]) + self.stress(tokens_BN3[..., 1]) + self.word_start(tokens_BN3[..., 2])
        x_BNC = x_BNC + self.speaker(speaker_B)[:, None]
        return self.encoder(x_BNC, mask_BN[..., None].to(x_BNC.dtype)), mask_BN

    def normalize(self, mel_BTM: Tensor) -> Tensor:
        """Normalise a log-mel (B, T, M) by the corpus' statistics."""
        return (mel_BTM - self.mel_mean) / self.mel_std
