"""The parallel acoustic model: tokens -> frames of log-mel and pitch, without recurrence.

Frames have D rows: M mel bins, then `sonorant.audio.pitch.ROWS`. Shapes: B items, N tokens, T frames, C channels, P: C
channels plus a token's pitch and energy."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sonorant.audio.pitch import PITCH_STD, ROWS
from sonorant.checked import Amount, Partial, Size, Whole
from sonorant.families.parallel.prosody import PROSODY, ProsodyFlow, ProsodyPredictor, nepers, token_means
from sonorant.layers.convnext import ConvNeXtStack
from sonorant.layers.flow import FlowMatching
from sonorant.layers.phoneme_encoder import PhonemeEncoder, check_prior_kernel

MOST_OCTAVES = 1.5
"""Maximum distance of the pitch from its reference in octaves, which allows 71 to 566 Hz."""
VOICING_MEAN = VOICING_STD = 0.5
UNVOICED = 0.1
"""Weight of an unvoiced frame's pitch, which is interpolated and inaudible."""
LONGEST_TOKEN = 300.0
"""Maximum number of frames per token in synthesis."""
SILENCE = -11.5129
"""Natural log of the mel's floor, 1e-5."""


@dataclass(frozen=True, kw_only=True)
class AcousticConfig:
    decoder: Literal["regression", "flow"] = "regression"
    """Type of decoder: `regression` has an L1 loss and suits very regular voices; `flow` is conditional flow matching,
    for real speech."""
    channels: Size = 192
    """Width of the encoder and the decoder."""
    expansion: Size = 3
    """Hidden width of a block's MLP as a multiple of `channels`."""
    encoder_blocks: Size = 4
    """Number of ConvNeXt blocks in the encoder."""
    encoder_kernel: Size = 5
    """Kernel size of the encoder's blocks, in tokens; odd."""
    prior_kernel: Whole = 3
    """Number of tokens that the alignment's prior depends on, odd; 1 is the token alone, 3 adds its neighbours. 0 uses
    the encoder's states; a token may then claim its neighbour's frames."""
    decoder_blocks: Size = 6
    """Number of ConvNeXt blocks in the decoder."""
    decoder_kernel: Size = 7
    """Kernel size of the decoder's blocks, in frames; odd."""
    dropout: Partial = 0.05
    """Dropout probability in the blocks, below 1."""
    flow_steps: Size = 4
    """Number of Euler steps in synthesis, for the flows of the decoder and the prosody."""
    prosody_dropout: Partial = 0.4
    """Dropout probability in the predictor of length, pitch and energy; high to prevent memorising."""
    prosody_kind: Literal["regression", "flow"] = "regression"
    """How length, pitch and energy are predicted: `regression` returns the mean, `flow` a sample with the speaker's
    variance."""
    prosody_temperature: Amount = 0.0
    """Spread of the prosody samples (`flow` only); 0 means none, 1 as in the recordings."""

    def __post_init__(self) -> None:
        if self.encoder_kernel % 2 == 0 or self.decoder_kernel % 2 == 0:
            raise ValueError("encoder_kernel and decoder_kernel must be odd")
        check_prior_kernel(self.prior_kernel)


@dataclass(frozen=True)
class Encoded:
    """Encoder output for each token."""

    states_BNC: Tensor
    prior_BNM: Tensor
    """Expected normalised mel frame of each token, for the alignment search."""
    mask_BN: Tensor
    lengths_B: Tensor

    @property
    def heard(self) -> tuple[Tensor, Tensor, Tensor]:
        """Input of the prosody predictor: detached states, mask (B, N, 1), lengths. The predictor overfits long before
        the decoder is trained; its gradients would make the encoder overfit too and lose words."""
        states_BNC, mask_BN1, lengths_B = self.heard_and_trained
        return states_BNC.detach(), mask_BN1, lengths_B

    @property
    def heard_and_trained(self) -> tuple[Tensor, Tensor, Tensor]:
        """Input of the prosody predictor with gradients, for steps with a frozen encoder in which a new speaker's
        embedding learns pitch and pace."""
        return self.states_BNC, self.mask_BN[..., None].to(self.states_BNC.dtype), self.lengths_B


@dataclass(frozen=True)
class Expanded:
    """Decoder input for each frame."""

    hidden_BTC: Tensor
    mask_BT1: Tensor
    """Frame mask: 0 before frame 0 and after the end of each row."""
    prosody_BT2: Tensor
    """Pitch and energy of each frame's token."""


class RegressionDecoder(nn.Module):
    """Computes normalised frames of D rows from hidden states in one pass; trained with an L1 loss."""

    def __init__(self, config: AcousticConfig, rows: int) -> None:
        super().__init__()
        self.stack = _stack(config)
        self.out = nn.Linear(config.channels, rows)

    def forward(self, hidden_BTC: Tensor, mask_BT1: Tensor, time_T: Tensor | None = None) -> Tensor:
        """Hidden states (B, T, C), mask (B, T, 1) -> frames (B, T, D); only `FlowMatching` uses `time_T`."""
        return self.out(self.stack(hidden_BTC, mask_BT1))

    def errors(self, hidden_BTC: Tensor, mask_BT1: Tensor, frames_BTD: Tensor) -> Tensor:
        """Return absolute errors (B, T, D), zero at padding."""
        return (self(hidden_BTC, mask_BT1).float() - frames_BTD).abs() * mask_BT1


class AcousticModel(PhonemeEncoder):
    """Tokens -> encoder -> durations, pitch, energy -> frames -> decoder -> log-mel and pitch."""

    decoder: RegressionDecoder | FlowMatching

    def __init__(self, config: AcousticConfig, *, mels: int, **of_corpus: Any) -> None:
        """`mels` and `of_corpus` are as in `PhonemeEncoder`."""
        super().__init__(config, mels=mels, **of_corpus)
        self.config = config
        self.prosody = _prosody(config)
        self.melody = nn.Linear(PROSODY, config.channels)
        self.position = nn.Linear(5, config.channels)
        self.mels = mels
        self.decoder = _decoder(config, mels + ROWS)

    def encode(self, tokens_BN3: Tensor, lengths_B: Tensor, speaker_B: Tensor) -> Encoded:
        """Encode tokens (B, N, 3) int64 (symbol, stress, word start), lengths (B,), speaker ids (B,)."""
        states_BNC, prior_BNM, mask_BN = self.encode_phonemes(tokens_BN3, lengths_B, speaker_B)
        return Encoded(states_BNC, prior_BNM, mask_BN, lengths_B)

    def expand(self, states_BNP: Tensor, ends_BN: Tensor, time_T: Tensor) -> Expanded:
        """Repeat each token's state for its frames, and add each frame's position in its token.

        Arguments: states (B, N, P) and ends (B, N) int64 from `encode_speech`, and consecutive frame numbers (T,)
        int64.
        """
        batch, tokens, width = states_BNP.shape
        starts_BN = torch.cat([torch.zeros_like(ends_BN[:, :1]), ends_BN[:, :-1]], dim=1)
        # Tokens started so far, minus one from frame 0 on: 0 to N - 1 without clamping integers, which TensorRT lacks.
        owner_BT = (time_T[None, :, None] >= starts_BN[:, None, :]).sum(2) - (time_T >= 0).long()
        row_BT = owner_BT + torch.arange(batch, device=states_BNP.device)[:, None] * tokens
        end_BT = F.embedding(row_BT, ends_BN.reshape(-1, 1))[..., 0]
        start_BT = F.embedding(row_BT, starts_BN.reshape(-1, 1))[..., 0]
        since_BT = (time_T - start_BT).to(states_BNP.dtype) + 0.5
        until_BT = (end_BT - time_T).to(states_BNP.dtype) - 0.5
        length_BT = (since_BT + until_BT).clamp(min=1.0)
        place_BT5 = torch.stack(
            [since_BT / length_BT, until_BT / length_BT, length_BT.log(), since_BT / 16, until_BT / 16], dim=2
        )
        mask_BT1 = ((time_T[None] >= 0) & (time_T[None] < ends_BN[:, -1:]))[..., None].to(states_BNP.dtype)
        hidden_BTP = F.embedding(row_BT, states_BNP.reshape(-1, width))
        hidden_BTC, prosody_BT2 = hidden_BTP.split([self.config.channels, PROSODY], dim=2)
        hidden_BTC = hidden_BTC + self.position(place_BT5.clamp(-4.0, 4.0)) + self.melody(prosody_BT2)
        return Expanded(hidden_BTC * mask_BT1, mask_BT1, prosody_BT2)

    def encode_speech(
        self,
        tokens_BN3: Tensor,
        lengths_B: Tensor,
        speaker_B: Tensor,
        speed_B: Tensor,
        pitch_B: Tensor | None = None,
        energy_B: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Tokens (B, N, 3), lengths, speaker (B,) int64, speed (2.0 = twice as fast), pitch (semitones higher) and
        energy (dB louder), (B,) float32 -> states (B, N, P) float32, and exclusive end frames of the tokens (B, N)
        int64, constant over padded tokens."""
        encoded = self.encode(tokens_BN3, lengths_B, speaker_B)
        told_BNR = self.prosody(*encoded.heard).float()
        duration_BN = told_BNR[..., 0].exp().clamp(max=LONGEST_TOKEN) / speed_B[:, None]
        duration_BN = duration_BN.clamp(min=1.0) * encoded.mask_BN
        ends_BN = (duration_BN.cumsum(1) + 0.5).floor().long()
        prosody_BN2 = told_BNR[..., 1:]
        if pitch_B is not None and energy_B is not None:
            shift_B2 = torch.stack([pitch_B / (12 * PITCH_STD), nepers(energy_B) / self.mel_std], dim=1)
            prosody_BN2 = prosody_BN2 + shift_B2[:, None]
        return self.states(encoded, speaker_B, prosody_BN2), ends_BN

    def states(self, encoded: Encoded, speaker_B: Tensor, prosody_BN2: Tensor) -> Tensor:
        """Combine encoder states, speaker and prosody (B, N, 2) into the input (B, N, P) of `expand` and `decode`."""
        return torch.cat([encoded.states_BNC + self.speaker(speaker_B)[:, None], prosody_BN2], dim=2)

    def decode(self, states_BNP: Tensor, ends_BN: Tensor, time_T: Tensor) -> Tensor:
        """Output of `encode_speech`, consecutive frame numbers (T,) int64 -> log-mel, pitch and voicing (B, D, T)
        float32, silent outside an utterance. A chunk decoded with `receptive_field` extra frames on each side equals
        the same frames of the full output."""
        expanded = self.expand(states_BNP, ends_BN, time_T)
        mask_BT1 = expanded.mask_BT1
        frames_BTD = self.decoder(expanded.hidden_BTC, mask_BT1, time_T).float()
        mel_BTM = frames_BTD[..., : self.mels] * self.mel_std + self.mel_mean
        mel_BTM = mel_BTM * mask_BT1 + SILENCE * (1.0 - mask_BT1)
        pitch_BT1 = frames_BTD[..., self.mels : self.mels + 1] + expanded.prosody_BT2[..., :1]
        octaves_BT1 = (pitch_BT1 * PITCH_STD).clamp(-MOST_OCTAVES, MOST_OCTAVES)
        voicing_BT1 = (frames_BTD[..., self.mels + 1 :] * VOICING_STD + VOICING_MEAN).clamp(0.0, 1.0)
        return torch.cat([mel_BTM, octaves_BT1 * mask_BT1, voicing_BT1 * mask_BT1], dim=2).transpose(1, 2)

    def normalized_frames(self, mel_BTM: Tensor, pitch_BT2: Tensor, prosody_BT2: Tensor) -> Tensor:
        """Return the decoder's target (B, T, D): normalised log-mel, pitch relative to the token's pitch, and
        voicing."""
        beyond_BT1 = pitch_BT2[..., :1] / PITCH_STD - prosody_BT2[..., :1]
        voicing_BT1 = (pitch_BT2[..., 1:] - VOICING_MEAN) / VOICING_STD
        return torch.cat([self.normalize(mel_BTM), beyond_BT1, voicing_BT1], dim=2)

    def prosody_of(self, mel_BTM: Tensor, pitch_BT2: Tensor, durations_BN: Tensor) -> tuple[Tensor, Tensor]:
        """Stored log-mel and pitch, durations (B, N) int64 -> normalised pitch and energy of each token (B, N, 2), and
        the weight of its pitch (B, N), 0.1 to 1."""
        heard_BT1 = UNVOICED + (1 - UNVOICED) * pitch_BT2[..., 1:]
        level_BT1 = (torch.logsumexp(2 * mel_BTM.float(), dim=2, keepdim=True) / 2 - self.mel_mean) / self.mel_std
        known_BT3 = torch.cat([pitch_BT2[..., :1] / PITCH_STD * heard_BT1, level_BT1, heard_BT1], dim=2)
        pitch_BN1, energy_BN1, heard_BN1 = token_means(known_BT3, durations_BN).split(1, dim=2)
        return torch.cat([pitch_BN1 / heard_BN1.clamp(min=UNVOICED), energy_BN1], dim=2), heard_BN1[..., 0]

    @property
    def receptive_field(self) -> int:
        """Number of frames on each side that a mel frame depends on."""
        config = self.config
        passes = config.flow_steps if config.decoder == "flow" else 1
        return config.decoder_blocks * (config.decoder_kernel // 2) * passes

    def synthesize(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Arguments of `encode_speech` -> frames (B, D, T), silent after each end, and lengths (B,) int64."""
        states_BNP, ends_BN = self.encode_speech(*inputs)
        time_T = torch.arange(int(ends_BN[:, -1].max()), device=ends_BN.device)
        return self.decode(states_BNP, ends_BN, time_T), ends_BN[:, -1]


def _prosody(config: AcousticConfig) -> ProsodyPredictor | ProsodyFlow:
    if config.prosody_kind == "regression":
        return ProsodyPredictor(config.channels, config.prosody_dropout)
    return ProsodyFlow(config.channels, config.prosody_dropout, config.flow_steps, config.prosody_temperature)


def _stack(config: AcousticConfig) -> ConvNeXtStack:
    return ConvNeXtStack(
        config.channels, config.expansion, config.decoder_kernel, config.decoder_blocks, config.dropout
    )


def _decoder(config: AcousticConfig, rows: int) -> RegressionDecoder | FlowMatching:
    if config.decoder == "regression":
        return RegressionDecoder(config, rows)
    return FlowMatching(partial(_stack, config), config.channels, rows, config.flow_steps)
