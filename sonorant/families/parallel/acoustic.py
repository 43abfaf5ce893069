"""The parallel acoustic model: tokens in, frames of log-mel and pitch out, no recurrence.

Frames have D rows: M mel bins, then those of `sonorant.audio.pitch.ROWS` where the model tells prosody. Shapes: B
items, N tokens, C channels, P = C channels and, with prosody, a token's pitch and energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sonorant.audio.pitch import PITCH_STD, ROWS
from sonorant.families.parallel.decoders import DECODERS, RegressionDecoder
from sonorant.families.parallel.prosody import (
    PROSODY,
    DurationPredictor,
    ProsodyFlow,
    ProsodyPredictor,
    nepers,
    token_means,
)
from sonorant.layers.flow import FlowMatching
from sonorant.layers.phoneme_encoder import PhonemeEncoder, check_prior_kernel

MOST_OCTAVES = 1.5
"""Pitch is kept within so many octaves of its reference: 71 to 566 Hz."""
VOICING_MEAN = VOICING_STD = 0.5
UNVOICED = 0.1
"""Weight of the pitch of an unvoiced frame, of a voiced one's: between voiced parts it is a line that nobody hears."""
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
    prior_kernel: int = 0
    """Tokens by which a token's place in the sound is found: 1: itself, 3: its neighbours too; odd. 0: the encoder's
    states, which know what stands around so well that a token may own its neighbour's sound: models of before."""
    decoder_blocks: int
    """ConvNeXt blocks over frames."""
    decoder_kernel: int
    """Their kernel, in frames; odd."""
    dropout: float
    """Dropout inside the blocks, 0 to below 1."""
    flow_steps: int
    """Euler steps of a flow at synthesis: of the decoder, of prosody."""
    prosody: bool = False
    """Whether pitch and energy of each token are predicted, and may be changed, and the decoder tells pitch and voicing
    of each frame, which a vocoder with a source needs. The default is for models of before."""
    prosody_dropout: float = 0.4
    """Dropout of what predicts length, pitch and energy, 0 to below 1. Much: an hour of speech has melodies enough to
    be learned by heart, and few to learn from."""
    prosody_kind: Literal["regression", "flow"] = "regression"
    """How length, pitch and energy of a token are predicted. `regression`: the mean of all ways to say it; `flow`: one
    of them, as uneven as the person."""
    prosody_temperature: float = 1.0
    """`flow` only: how far it strays from what is most typical, 0: not at all; 1: as the person does."""

    def __post_init__(self) -> None:
        if self.encoder_kernel % 2 == 0 or self.decoder_kernel % 2 == 0:
            raise ValueError("encoder_kernel and decoder_kernel must be odd")
        check_prior_kernel(self.prior_kernel)
        for name in ("dropout", "prosody_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}")
        if self.prosody_kind == "flow" and not self.prosody:
            raise ValueError("prosody_kind flow needs prosody true")
        if self.prosody_temperature < 0.0:
            raise ValueError(f"prosody_temperature must be at least 0, not {self.prosody_temperature}")
        if min(self.channels, self.expansion, self.encoder_blocks, self.decoder_blocks, self.flow_steps) < 1:
            raise ValueError("channels, expansion, encoder_blocks, decoder_blocks and flow_steps must be at least 1")


@dataclass(frozen=True)
class Encoded:
    """What the encoder knows of each token."""

    states_BNC: Tensor
    prior_BNM: Tensor
    """The mel frame each token stands for, normalised; what the alignment search compares with."""
    mask_BN: Tensor
    lengths_B: Tensor

    @property
    def heard(self) -> tuple[Tensor, Tensor, Tensor]:
        """What predicts prosody is given: states, which it does not train, mask (B, N, 1), lengths. It learns by heart
        long before the decoder is done, and would take the encoder along: words get lost then."""
        states_BNC, mask_BN1, lengths_B = self.heard_and_trained
        return states_BNC.detach(), mask_BN1, lengths_B

    @property
    def heard_and_trained(self) -> tuple[Tensor, Tensor, Tensor]:
        """The same with states that it trains, for steps in which the encoder is frozen and a new speaker's embedding
        learns alone: nothing else tells an embedding how high a person speaks, and how fast."""
        return self.states_BNC, self.mask_BN[..., None].to(self.states_BNC.dtype), self.lengths_B


@dataclass(frozen=True)
class Expanded:
    """What the decoder is given of each frame."""

    hidden_BTC: Tensor
    mask_BT1: Tensor
    """0 before frame 0 and past a row's last end."""
    prosody_BT2: Tensor | None
    """That of the token the frame belongs to."""


class AcousticModel(PhonemeEncoder):
    """Tokens -> encoder -> durations, pitch, energy -> frames -> decoder -> log-mel and pitch."""

    decoder: RegressionDecoder | FlowMatching

    def __init__(self, config: AcousticConfig, *, mels: int, **of_corpus: Any) -> None:
        """`mels` and `of_corpus` as in `PhonemeEncoder`."""
        super().__init__(config, mels=mels, **of_corpus)
        self.config = config
        width = config.channels
        if config.prosody:
            self.prosody = _prosody(config)
            self.melody = nn.Linear(PROSODY, width)
        else:
            self.duration = DurationPredictor(width)
        self.position = nn.Linear(5, width)
        self.mels = mels
        self.decoder = DECODERS[config.decoder](config, mels + ROWS * config.prosody)

    def encode(self, tokens_BN3: Tensor, lengths_B: Tensor, speaker_B: Tensor) -> Encoded:
        """Tokens (B, N, 3) int64 (symbol, stress, word start), lengths (B,), speaker ids (B,) -> Encoded."""
        states_BNC, prior_BNM, mask_BN = self.encode_phonemes(tokens_BN3, lengths_B, speaker_B)
        return Encoded(states_BNC, prior_BNM, mask_BN, lengths_B)

    @property
    def predictor(self) -> DurationPredictor | ProsodyPredictor | ProsodyFlow:
        """What tells how long each token is and, with prosody, how high and how loud."""
        return self.prosody if self.config.prosody else self.duration

    def expand(self, states_BNP: Tensor, ends_BN: Tensor, time_T: Tensor) -> Expanded:
        """Repeat each token's state for its frames, and add where in the token each frame stands.

        States (B, N, P), ends (B, N) int64 as of `encode_speech`, frame numbers (T,) int64 in a row.
        """
        batch, tokens, width = states_BNP.shape
        starts_BN = torch.cat([torch.zeros_like(ends_BN[:, :1]), ends_BN[:, :-1]], dim=1)
        # How many tokens have begun, and from frame 0 one has: so 0 to N - 1 without a limit on integers, which
        # TensorRT does not know.
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
        hidden_BTC = hidden_BTP[..., : self.config.channels] + self.position(place_BT5.clamp(-4.0, 4.0))
        prosody_BT2 = hidden_BTP[..., self.config.channels :] if self.config.prosody else None
        if prosody_BT2 is not None:
            hidden_BTC = hidden_BTC + self.melody(prosody_BT2)
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
        """Synthesis on tokens: what each says, and when.

        Tokens (B, N, 3), lengths, speaker (B,) int64, speed (2.0 = twice as fast), pitch (semitones higher) and energy
        (dB louder), (B,) float32 -> states (B, N, P) float32, ends (B, N) int64: the frame after each token's last one,
        constant over padded tokens. A model without prosody leaves pitch and energy aside.
        """
        encoded = self.encode(tokens_BN3, lengths_B, speaker_B)
        told_BNR = self.predictor(*encoded.heard).float()
        duration_BN = told_BNR[..., 0].exp().clamp(max=LONGEST_TOKEN) / speed_B[:, None]
        duration_BN = duration_BN.clamp(min=1.0) * encoded.mask_BN
        ends_BN = (duration_BN.cumsum(1) + 0.5).floor().long()
        prosody_BN2 = told_BNR[..., 1:] if self.config.prosody else None
        if prosody_BN2 is not None and pitch_B is not None and energy_B is not None:
            shift_B2 = torch.stack([pitch_B / (12 * PITCH_STD), nepers(energy_B) / self.mel_std], dim=1)
            prosody_BN2 = prosody_BN2 + shift_B2[:, None]
        return self.states(encoded, speaker_B, prosody_BN2), ends_BN

    def states(self, encoded: Encoded, speaker_B: Tensor, prosody_BN2: Tensor | None) -> Tensor:
        """What `expand` and `decode` take of each token (B, N, P), with this prosody (B, N, 2)."""
        states_BNC = encoded.states_BNC + self.speaker(speaker_B)[:, None]
        return states_BNC if prosody_BN2 is None else torch.cat([states_BNC, prosody_BN2], dim=2)

    def decode(self, states_BNP: Tensor, ends_BN: Tensor, time_T: Tensor) -> Tensor:
        """Synthesis on frames: output of `encode_speech`, frame numbers (T,) int64 in a row -> log-mel and, with
        prosody, pitch and voicing (B, D, T) float32, silent outside an utterance. A part equals that of the whole if it
        has `receptive_field` frames around it."""
        expanded = self.expand(states_BNP, ends_BN, time_T)
        mask_BT1 = expanded.mask_BT1
        frames_BTD = self.decoder(expanded.hidden_BTC, mask_BT1, time_T).float()
        mel_BTM = frames_BTD[..., : self.mels] * self.mel_std + self.mel_mean
        mel_BTM = mel_BTM * mask_BT1 + SILENCE * (1.0 - mask_BT1)
        if expanded.prosody_BT2 is None:
            return mel_BTM.transpose(1, 2)
        pitch_BT1 = frames_BTD[..., self.mels : self.mels + 1] + expanded.prosody_BT2[..., :1]
        octaves_BT1 = (pitch_BT1 * PITCH_STD).clamp(-MOST_OCTAVES, MOST_OCTAVES)
        voicing_BT1 = (frames_BTD[..., self.mels + 1 :] * VOICING_STD + VOICING_MEAN).clamp(0.0, 1.0)
        return torch.cat([mel_BTM, octaves_BT1 * mask_BT1, voicing_BT1 * mask_BT1], dim=2).transpose(1, 2)

    def normalized_frames(self, mel_BTM: Tensor, pitch_BT2: Tensor, prosody_BT2: Tensor | None) -> Tensor:
        """What the decoder is to say: log-mel and pitch as stored, and that of each frame's token -> (B, T, D), each
        row of about unit spread; of pitch what goes beyond the token's."""
        normalized_BTM = self.normalize(mel_BTM)
        if prosody_BT2 is None:
            return normalized_BTM
        beyond_BT1 = pitch_BT2[..., :1] / PITCH_STD - prosody_BT2[..., :1]
        voicing_BT1 = (pitch_BT2[..., 1:] - VOICING_MEAN) / VOICING_STD
        return torch.cat([normalized_BTM, beyond_BT1, voicing_BT1], dim=2)

    def prosody_of(self, mel_BTM: Tensor, pitch_BT2: Tensor, durations_BN: Tensor) -> tuple[Tensor, Tensor]:
        """Pitch and energy of each token of a recording, normalised: (B, N, 2), and how much of its pitch is heard, 0.1
        to 1 (B, N). Log-mel and pitch as stored; durations (B, N) int64 frames."""
        heard_BT1 = UNVOICED + (1 - UNVOICED) * pitch_BT2[..., 1:]
        level_BT1 = (torch.logsumexp(2 * mel_BTM.float(), dim=2, keepdim=True) / 2 - self.mel_mean) / self.mel_std
        known_BT3 = torch.cat([pitch_BT2[..., :1] / PITCH_STD * heard_BT1, level_BT1, heard_BT1], dim=2)
        pitch_BN1, energy_BN1, heard_BN1 = token_means(known_BT3, durations_BN).split(1, dim=2)
        return torch.cat([pitch_BN1 / heard_BN1.clamp(min=UNVOICED), energy_BN1], dim=2), heard_BN1[..., 0]

    @property
    def receptive_field(self) -> int:
        """Frames on either side that a frame of the mel depends on."""
        config = self.config
        passes = config.flow_steps if config.decoder == "flow" else 1
        return config.decoder_blocks * (config.decoder_kernel // 2) * passes

    def synthesize(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Both halves: arguments of `encode_speech` -> frames (B, D, T), silence past each end, and lengths (B,)
        int64."""
        states_BNP, ends_BN = self.encode_speech(*inputs)
        time_T = torch.arange(int(ends_BN[:, -1].max()), device=ends_BN.device)
        return self.decode(states_BNP, ends_BN, time_T), ends_BN[:, -1]


def _prosody(config: AcousticConfig) -> ProsodyPredictor | ProsodyFlow:
    if config.prosody_kind == "regression":
        return ProsodyPredictor(config.channels, config.prosody_dropout)
    return ProsodyFlow(config.channels, config.prosody_dropout, config.flow_steps, config.prosody_temperature)
