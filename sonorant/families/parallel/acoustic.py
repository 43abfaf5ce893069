"""The parallel acoustic model: tokens in, frames of log-mel and pitch out, no recurrence. Two decoders can end it; both
have `forward(hidden, mask, time) -> frames` and `errors(hidden, mask, frames)`, on normalised frames of D rows: M mel
bins, then those of `sonorant.audio.pitch.ROWS` where the model tells pitch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sonorant.audio.pitch import ROWS
from sonorant.layers.convnext import ConvNeXtStack
from sonorant.layers.phoneme_encoder import PhonemeEncoder

NOISE_FRAMES = 1024
"""Length of the flow decoder's noise, which repeats: a constant, so that the exported graph equals torch."""
SIGMA_MIN = 1e-4
"""Noise left at the data end of the flow's path (Lipman et al. 2023)."""


class RegressionDecoder(nn.Module):
    """One pass; L1. Sharp enough where a voice says the same thing the same way."""

    def __init__(self, config: AcousticConfig, rows: int) -> None:
        super().__init__()
        self.stack = _stack(config)
        self.out = nn.Linear(config.channels, rows)

    def forward(self, hidden_BTC: Tensor, mask_BT1: Tensor, time_T: Tensor | None = None) -> Tensor:
        """(B, T, C), mask (B, T, 1) -> (B, T, D); the same at any time."""
        return self.out(self.stack(hidden_BTC, mask_BT1))

    def errors(self, hidden_BTC: Tensor, mask_BT1: Tensor, frames_BTD: Tensor) -> Tensor:
        """Absolute errors (B, T, D), zero where no frame is real."""
        return (self(hidden_BTC, mask_BT1).float() - frames_BTD).abs() * mask_BT1


class FlowDecoder(nn.Module):
    """Optimal-transport conditional flow matching (Lipman et al. 2023, 4.1; Mehta et al. 2024, "Matcha-TTS")."""

    noise_TD: Tensor
    frequency: Tensor

    def __init__(self, config: AcousticConfig, rows: int) -> None:
        super().__init__()
        self.steps = config.flow_steps
        self.enter = nn.Linear(rows + config.channels, config.channels)
        self.time = nn.Sequential(
            nn.Linear(64, config.channels), nn.SiLU(), nn.Linear(config.channels, config.channels)
        )
        self.stack = _stack(config)
        self.out = nn.Linear(config.channels, rows)
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("noise_TD", torch.randn(NOISE_FRAMES, rows, generator=generator))
        self.register_buffer(
            "frequency", torch.exp(torch.arange(32) * (-math.log(1000.0) / 31)) * 100.0, persistent=False
        )

    def velocity(self, x_BTD: Tensor, time_B: Tensor, hidden_BTC: Tensor, mask_BT1: Tensor) -> Tensor:
        """The field that carries noise at time 0 to frames at time 1: (B, T, D), time (B,) -> (B, T, D)."""
        angle_BF = time_B[:, None] * self.frequency
        time_BC = self.time(torch.cat([angle_BF.sin(), angle_BF.cos()], dim=1))
        x_BTC = self.enter(torch.cat([x_BTD, hidden_BTC], dim=2)) + time_BC[:, None]
        return self.out(self.stack(x_BTC, mask_BT1))

    def forward(self, hidden_BTC: Tensor, mask_BT1: Tensor, time_T: Tensor) -> Tensor:
        """(B, T, C), mask (B, T, 1), frame numbers (T,) int64 -> (B, T, D): `flow_steps` Euler steps from fixed
        noise."""
        x_BTD = self.noise_TD[time_T % NOISE_FRAMES][None].expand(hidden_BTC.shape[0], -1, -1)
        for step in range(self.steps):
            time_B = torch.full((hidden_BTC.shape[0],), step / self.steps, device=hidden_BTC.device)
            x_BTD = x_BTD + self.velocity(x_BTD, time_B, hidden_BTC, mask_BT1).float() / self.steps
        return x_BTD

    def errors(self, hidden_BTC: Tensor, mask_BT1: Tensor, frames_BTD: Tensor) -> Tensor:
        """Squared errors (B, T, D) of the velocity at a random time, zero where no frame is real."""
        time_B = torch.rand(frames_BTD.shape[0], device=frames_BTD.device)
        noise_BTD = torch.randn_like(frames_BTD)
        weight_B11 = time_B[:, None, None]
        x_BTD = (1 - (1 - SIGMA_MIN) * weight_B11) * noise_BTD + weight_B11 * frames_BTD
        target_BTD = frames_BTD - (1 - SIGMA_MIN) * noise_BTD
        predicted_BTD = self.velocity(x_BTD, time_B, hidden_BTC, mask_BT1).float()
        return (predicted_BTD - target_BTD).square() * mask_BT1


def _stack(config: AcousticConfig) -> ConvNeXtStack:
    return ConvNeXtStack(
        config.channels, config.expansion, config.decoder_kernel, config.decoder_blocks, config.dropout
    )


DECODERS: dict[str, type[RegressionDecoder] | type[FlowDecoder]] = {
    "regression": RegressionDecoder,
    "flow": FlowDecoder,
}
PITCH_STD = 0.25
"""Octaves: about how far a speaker's pitch goes up and down."""
MOST_OCTAVES = 1.5
"""Pitch is kept within so many octaves of its reference: 71 to 566 Hz."""
VOICING_MEAN = VOICING_STD = 0.5
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
    pitch: bool = False
    """Whether the decoder tells pitch and voicing of each frame too, which a vocoder with a source needs. The default is
    for models of before."""

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
        self.mels = mels
        self.decoder = DECODERS[config.decoder](config, mels + ROWS * config.pitch)

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
        """Synthesis on frames: output of `encode_speech`, frame numbers (T,) int64 in a row -> log-mel and, with
        `config.pitch`, pitch and voicing (B, D, T) float32, silent outside an utterance. A part equals that of the whole if it has `receptive_field` frames around
        it."""
        hidden_BTC, _, mask_BT1 = self.expand(states_BNC, ends_BN, time_T)
        frames_BTD = self.decoder(hidden_BTC, mask_BT1, time_T).float()
        mel_BTM = frames_BTD[..., : self.mels] * self.mel_std + self.mel_mean
        mel_BTM = mel_BTM * mask_BT1 + SILENCE * (1.0 - mask_BT1)
        if not self.config.pitch:
            return mel_BTM.transpose(1, 2)
        octaves_BT1 = (frames_BTD[..., self.mels : self.mels + 1] * PITCH_STD).clamp(-MOST_OCTAVES, MOST_OCTAVES)
        voicing_BT1 = (frames_BTD[..., self.mels + 1 :] * VOICING_STD + VOICING_MEAN).clamp(0.0, 1.0)
        return torch.cat([mel_BTM, octaves_BT1 * mask_BT1, voicing_BT1 * mask_BT1], dim=2).transpose(1, 2)

    def normalized_frames(self, mel_BTM: Tensor, pitch_BT2: Tensor) -> Tensor:
        """What the decoder is to say: log-mel and pitch as stored -> (B, T, D), each row of about unit spread."""
        normalized_BTM = self.normalize(mel_BTM)
        if not self.config.pitch:
            return normalized_BTM
        voicing_BT1 = (pitch_BT2[..., 1:] - VOICING_MEAN) / VOICING_STD
        return torch.cat([normalized_BTM, pitch_BT2[..., :1] / PITCH_STD, voicing_BT1], dim=2)

    @property
    def receptive_field(self) -> int:
        """Frames on either side that a frame of the mel depends on."""
        config = self.config
        passes = config.flow_steps if config.decoder == "flow" else 1
        return config.decoder_blocks * (config.decoder_kernel // 2) * passes

    def synthesize(
        self, tokens_BN3: Tensor, lengths_B: Tensor, speaker_B: Tensor, speed_B: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Both halves: arguments of `encode_speech` -> frames (B, D, T), silence past each end, and lengths (B,) int64."""
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
