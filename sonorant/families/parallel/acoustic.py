"""The parallel acoustic model: tokens in, log-mel out, no recurrence. Two decoders can end it; both have
`forward(hidden, mask, time) -> mel` and `loss(hidden, mask, mel) -> summed loss`, on normalised mels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sonorant.layers.convnext import ConvNeXtStack
from sonorant.layers.phoneme_encoder import PhonemeEncoder

NOISE_FRAMES = 1024
"""Length of the flow decoder's noise, which repeats: a constant, so that the exported graph equals torch."""
SIGMA_MIN = 1e-4
"""Noise left at the data end of the flow's path (Lipman et al. 2023)."""


class RegressionDecoder(nn.Module):
    """One pass; L1. Sharp enough where a voice says the same thing the same way."""

    def __init__(self, config: AcousticConfig, mels: int) -> None:
        super().__init__()
        self.stack = _stack(config)
        self.out = nn.Linear(config.channels, mels)

    def forward(self, hidden_BTC: Tensor, mask_BT1: Tensor, time_T: Tensor | None = None) -> Tensor:
        """(B, T, C), mask (B, T, 1) -> (B, T, M); the same at any time."""
        return self.out(self.stack(hidden_BTC, mask_BT1))

    def loss(self, hidden_BTC: Tensor, mask_BT1: Tensor, mel_BTM: Tensor) -> Tensor:
        """Sum over real frames of the mean absolute error over mel bins."""
        return ((self(hidden_BTC, mask_BT1).float() - mel_BTM).abs().mean(2, keepdim=True) * mask_BT1).sum()


class FlowDecoder(nn.Module):
    """Optimal-transport conditional flow matching (Lipman et al. 2023, 4.1; Mehta et al. 2024, "Matcha-TTS")."""

    noise_TM: Tensor
    frequency: Tensor

    def __init__(self, config: AcousticConfig, mels: int) -> None:
        super().__init__()
        self.steps = config.flow_steps
        self.mels = mels
        self.enter = nn.Linear(mels + config.channels, config.channels)
        self.time = nn.Sequential(
            nn.Linear(64, config.channels), nn.SiLU(), nn.Linear(config.channels, config.channels)
        )
        self.stack = _stack(config)
        self.out = nn.Linear(config.channels, mels)
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("noise_TM", torch.randn(NOISE_FRAMES, mels, generator=generator))
        self.register_buffer(
            "frequency", torch.exp(torch.arange(32) * (-math.log(1000.0) / 31)) * 100.0, persistent=False
        )

    def velocity(self, x_BTM: Tensor, time_B: Tensor, hidden_BTC: Tensor, mask_BT1: Tensor) -> Tensor:
        """The field that carries noise at time 0 to a mel at time 1: (B, T, M), time (B,) -> (B, T, M)."""
        angle_BF = time_B[:, None] * self.frequency
        time_BC = self.time(torch.cat([angle_BF.sin(), angle_BF.cos()], dim=1))
        x_BTC = self.enter(torch.cat([x_BTM, hidden_BTC], dim=2)) + time_BC[:, None]
        return self.out(self.stack(x_BTC, mask_BT1))

    def forward(self, hidden_BTC: Tensor, mask_BT1: Tensor, time_T: Tensor) -> Tensor:
        """(B, T, C), mask (B, T, 1), frame numbers (T,) int64 -> (B, T, M): `flow_steps` Euler steps from fixed
        noise."""
        x_BTM = self.noise_TM[time_T % NOISE_FRAMES][None].expand(hidden_BTC.shape[0], -1, -1)
        for step in range(self.steps):
            time_B = torch.full((hidden_BTC.shape[0],), step / self.steps, device=hidden_BTC.device)
            x_BTM = x_BTM + self.velocity(x_BTM, time_B, hidden_BTC, mask_BT1).float() / self.steps
        return x_BTM

    def loss(self, hidden_BTC: Tensor, mask_BT1: Tensor, mel_BTM: Tensor) -> Tensor:
        """Sum over real frames of the mean squared error of the velocity at a random time."""
        time_B = torch.rand(mel_BTM.shape[0], device=mel_BTM.device)
        noise_BTM = torch.randn_like(mel_BTM)
        weight_B11 = time_B[:, None, None]
        x_BTM = (1 - (1 - SIGMA_MIN) * weight_B11) * noise_BTM + weight_B11 * mel_BTM
        target_BTM = mel_BTM - (1 - SIGMA_MIN) * noise_BTM
        predicted_BTM = self.velocity(x_BTM, time_B, hidden_BTC, mask_BT1).float()
        return (((predicted_BTM - target_BTM) ** 2).mean(2, keepdim=True) * mask_BT1).sum()


def _stack(config: AcousticConfig) -> ConvNeXtStack:
    return ConvNeXtStack(
        config.channels, config.expansion, config.decoder_kernel, config.decoder_blocks, config.dropout
    )


DECODERS: dict[str, type[RegressionDecoder] | type[FlowDecoder]] = {
    "regression": RegressionDecoder,
    "flow": FlowDecoder,
}
LONGEST_TOKEN = 300.0
"""Frames one token may last at synthesis: a guard against a duration predictor gone astray."""
SILENCE = -11.5129
"""Natural log of the mel's floor of 1e-5: what stands after the end of the shorter utterances of a batch."""


@dataclass(frozen=True, kw_only=True)
class AcousticConfig:
    """Size and kind of the acoustic model."""

    decoder: Literal["regression", "flow"]
    """`regression`: L1 on the mel, best on very regular voices; `flow`: conditional flow matching, for real speech."""
    channels: int
    """Width of encoder and decoder."""
    expansion: int
    """Hidden width of a block's MLP as a multiple of `channels`."""
    encoder_blocks: int
    """ConvNeXt blocks over tokens."""
    encoder_kernel: int
    """Their kernel, in tokens; odd."""
    decoder_blocks: int
    """ConvNeXt blocks over frames."""
    decoder_kernel: int
    """Their kernel, in frames; odd."""
    dropout: float
    """Dropout inside the blocks, 0 to below 1."""
    flow_steps: int
    """Euler steps of the flow decoder at synthesis."""

    def __post_init__(self) -> None:
        if self.encoder_kernel % 2 == 0 or self.decoder_kernel % 2 == 0:
            raise ValueError("encoder_kernel and decoder_kernel must be odd")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout must be at least 0 and below 1, not {self.dropout}")
        if min(self.channels, self.expansion, self.encoder_blocks, self.decoder_blocks, self.flow_steps) < 1:
            raise ValueError("channels, expansion, encoder_blocks, decoder_blocks and flow_steps must be at least 1")


@dataclass(frozen=True)
class Encoded:
    """What the encoder knows of each token."""

    states_BNC: Tensor
    prior_BNM: Tensor
    """The mel frame each token stands for, normalised; what the alignment search compares with."""
    log_duration_BN: Tensor
    mask_BN: Tensor


class AcousticModel(PhonemeEncoder):
    """Tokens -> encoder -> durations -> frames -> decoder -> log-mel."""

    decoder: RegressionDecoder | FlowDecoder

    def __init__(self, config: AcousticConfig, *, mels: int, **of_corpus: Any) -> None:
        """`mels` and `of_corpus` as in `PhonemeEncoder`."""
        super().__init__(config, mels=mels, **of_corpus)
        self.config = config
        width = config.channels
        self.duration = DurationPredictor(width)
        self.position = nn.Linear(5, width)
        self.decoder = DECODERS[config.decoder](config, mels)

    def encode(self, tokens_BN3: Tensor, lengths_B: Tensor, speaker_B: Tensor) -> Encoded:
        """Tokens (B, N, 3) int64 (symbol, stress, word start), lengths (B,), speaker ids (B,) -> Encoded."""
        states_BNC, mask_BN = self.encode_phonemes(tokens_BN3, lengths_B, speaker_B)
        mask_BN1 = mask_BN[..., None].to(states_BNC.dtype)
        return Encoded(states_BNC, self.prior(states_BNC), self.duration(states_BNC.detach(), mask_BN1), mask_BN)

    def expand(self, states_BNC: Tensor, ends_BN: Tensor, time_T: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Repeat each token's state for its frames, and add where in the token each frame stands.

        States (B, N, C), ends (B, N) int64 as of `encode_speech`, frame numbers (T,) int64 in a row -> hidden (B, T,
        C), token index of each frame (B, T) int64, mask (B, T, 1): 0 before frame 0 and past a row's last end.
        """
        batch, tokens, width = states_BNC.shape
        starts_BN = torch.cat([torch.zeros_like(ends_BN[:, :1]), ends_BN[:, :-1]], dim=1)
        # How many tokens have begun, and from frame 0 one has: so 0 to N - 1 without a limit on integers, which
        # TensorRT does not know.
        owner_BT = (time_T[None, :, None] >= starts_BN[:, None, :]).sum(2) - (time_T >= 0).long()
        row_BT = owner_BT + torch.arange(batch, device=states_BNC.device)[:, None] * tokens
        end_BT = F.embedding(row_BT, ends_BN.reshape(-1, 1))[..., 0]
        start_BT = F.embedding(row_BT, starts_BN.reshape(-1, 1))[..., 0]
        since_BT = (time_T - start_BT).to(states_BNC.dtype) + 0.5
        until_BT = (end_BT - time_T).to(states_BNC.dtype) - 0.5
        length_BT = (since_BT + until_BT).clamp(min=1.0)
        place_BT5 = torch.stack(
            [since_BT / length_BT, until_BT / length_BT, length_BT.log(), since_BT / 16, until_BT / 16], dim=2
        )
        mask_BT1 = ((time_T[None] >= 0) & (time_T[None] < ends_BN[:, -1:]))[..., None].to(states_BNC.dtype)
        hidden_BTC = F.embedding(row_BT, states_BNC.reshape(-1, width)) + self.position(place_BT5.clamp(-4.0, 4.0))
        return hidden_BTC * mask_BT1, owner_BT, mask_BT1

    def encode_speech(
        self, tokens_BN3: Tensor, lengths_B: Tensor, speaker_B: Tensor, speed_B: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Synthesis on tokens: what each says, and when. Tokens (B, N, 3), lengths, speaker (B,) int64, speed (B,)
        float32 (2.0 = twice as fast) -> states (B, N, C) float32, ends (B, N) int64: the frame after each token's last
        one, constant over padded tokens."""
        encoded = self.encode(tokens_BN3, lengths_B, speaker_B)
        duration_BN = encoded.log_duration_BN.float().exp().clamp(max=LONGEST_TOKEN) / speed_B[:, None]
        duration_BN = duration_BN.clamp(min=1.0) * encoded.mask_BN
        return encoded.states_BNC + self.speaker(speaker_B)[:, None], (duration_BN.cumsum(1) + 0.5).floor().long()

    def decode(self, states_BNC: Tensor, ends_BN: Tensor, time_T: Tensor) -> Tensor:
        """Synthesis on frames: output of `encode_speech`, frame numbers (T,) int64 in a row -> log-mel (B, M, T)
        float32, silent outside an utterance. A part equals that of the whole if it has `receptive_field` frames around
        it."""
        hidden_BTC, _, mask_BT1 = self.expand(states_BNC, ends_BN, time_T)
        mel_BTM = self.decoder(hidden_BTC, mask_BT1, time_T)
        mel_BTM = (mel_BTM.float() * self.mel_std + self.mel_mean) * mask_BT1 + SILENCE * (1.0 - mask_BT1)
        return mel_BTM.transpose(1, 2)

    @property
    def receptive_field(self) -> int:
        """Frames on either side that a frame of the mel depends on."""
        config = self.config
        passes = config.flow_steps if config.decoder == "flow" else 1
        return config.decoder_blocks * (config.decoder_kernel // 2) * passes

    def synthesize(
        self, tokens_BN3: Tensor, lengths_B: Tensor, speaker_B: Tensor, speed_B: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Both halves: arguments of `encode_speech` -> mel (B, M, T), silence past each end, and lengths (B,) int64."""
        states_BNC, ends_BN = self.encode_speech(tokens_BN3, lengths_B, speaker_B, speed_B)
        time_T = torch.arange(int(ends_BN[:, -1].max()), device=ends_BN.device)
        return self.decode(states_BNC, ends_BN, time_T), ends_BN[:, -1]


class DurationPredictor(nn.Module):
    """Log of each token's length in frames, from encoder states it does not train."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stack = ConvNeXtStack(width, expansion=1, kernel=3, blocks=2)
        self.out = nn.Linear(width, 1)

    def forward(self, states_BNC: Tensor, mask_BN1: Tensor) -> Tensor:
        """(B, N, C), mask (B, N, 1) -> (B, N) log frames."""
        return self.out(self.stack(states_BNC, mask_BN1))[..., 0] + 1.5
