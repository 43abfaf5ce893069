"""Neural codec with a source: codes -> frames with pitch, and frames -> filtered pulses and noise (`SourceFilter`).
Between the two steps, `SourceRows` sums the phase of the pulses over all frames, which a graph that computes one part
cannot do. Shapes as in `codec.py`; the filter's frames have R = D + SOURCE_ROWS rows."""

import math

import torch
from torch import Tensor, nn

from sonorant.audio.pitch import HIGHEST, LOWEST, REFERENCE, ROWS, SourceRows
from sonorant.extras.codec_lm.codec import Codec, CodecConfig
from sonorant.families.parallel.acoustic import UNVOICED
from sonorant.families.parallel.vocoder import SourceFilter, VocoderConfig, mask_of
from sonorant.layers.convnext import ConvNeXtStack

LEAST_OCTAVES, MOST_OCTAVES = math.log2(LOWEST / REFERENCE), math.log2(HIGHEST / REFERENCE)
"""Range of the pitch tracker in octaves relative to `REFERENCE`."""


class SourceCodec(Codec):
    """Encodes log-mel and pitch as codes, and decodes codes to frames and then samples.

    Frames are M learned rows, pitch and voicing. In training, the pulses follow the recording's pitch, because a wrong
    pitch makes every spectrum wrong; in synthesis, they follow the decoded pitch.
    """

    float_parts = (*Codec.float_parts, "decoder.out")
    """Modules that stay float, including pitch, because its errors accumulate over a sentence."""
    decoder: "SourceDecoder"

    @property
    def heard_rows(self) -> int:
        return self.mels + ROWS

    def _make_decoder(self, n_fft: int) -> nn.Module:
        return SourceDecoder(self.config, self.mels, self.quantizer.width, n_fft, self.hop, self.rate)

    def normalized(self, frames_BDT: Tensor) -> Tensor:
        """Normalise frames and zero the pitch of unvoiced ones, which is inaudible and would waste codes."""
        pitch_B1T, voicing_B1T = frames_BDT[:, self.mels : self.mels + ROWS].split(1, dim=1)
        return torch.cat([super().normalized(frames_BDT), pitch_B1T * voicing_B1T, voicing_B1T], dim=1)

    def forward(self, frames_BRT: Tensor) -> Tensor:
        return self.copy(frames_BRT)[0]

    def copy(self, frames_BRT: Tensor) -> tuple[Tensor, Tensor]:
        """Reconstruct samples (B, T * hop) from a recording's frames (B, R, T), with its pitch and phase. Also returns
        the decoded frames (B, D, T). Differentiable."""
        said_BDT = self.decoder.frames(self._said(frames_BRT))[..., : frames_BRT.shape[2]]
        learned_BMT, _, voicing_B1T = said_BDT.split([self.mels, 1, 1], dim=1)
        pitch_B1T, source_B2T = frames_BRT[:, self.mels : self.mels + 1], frames_BRT[:, self.mels + ROWS :]
        return self.decoder.vocoder(torch.cat([learned_BMT, pitch_B1T, voicing_B1T, source_B2T], dim=1)), said_BDT

    def frames(self, codes_BFG: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Decode codes (B, F, G) int64 -> frames (B, D, F * stride) float32, zero past each row's end. `lengths_B`:
        code frames of each row; None means all. A chunk decoded with `frames_receptive_field` extra code frames on each
        side equals the same part of the full output."""
        said_BDT = self.decoder.frames(self.quantizer.to_values(codes_BFG).flatten(2), lengths_B)
        learned_BMT, pitch_B1T, voicing_B1T = said_BDT.split([self.mels, 1, 1], dim=1)
        return torch.cat([learned_BMT, pitch_B1T.clamp(LEAST_OCTAVES, MOST_OCTAVES), voicing_B1T], dim=1)

    def vocode(self, frames: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Convert frames including `SOURCE_ROWS` (B, R, T) to samples (B, T * hop) in -1..1. `lengths_B`: frames of
        each row; None means all."""
        return self.decoder.vocoder(frames, lengths_B)

    def with_source(self, frames_BDT: Tensor) -> Tensor:
        """Append `SOURCE_ROWS` to frames of complete utterances -> (B, R, T)."""
        rows = SourceRows(self.rate, self.hop).append(frames_BDT.float().cpu().numpy())
        return torch.from_numpy(rows).to(frames_BDT.device)

    @torch.no_grad()
    def decode(self, codes_BFG: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        mel_lengths_B = None if lengths_B is None else lengths_B * self.stride
        return self.vocode(self.with_source(self.frames(codes_BFG, lengths_B)), mel_lengths_B)

    @property
    def receptive_field(self) -> int:
        """Number of mel frames on either side, source included, that affect a frame's samples."""
        return self.decoder.vocoder.receptive_field

    @property
    def frames_receptive_field(self) -> int:
        """Number of code frames on either side that affect a decoded frame."""
        return -(-self.config.frame_blocks * (self.config.kernel // 2) // self.stride)


class SourceDecoder(nn.Module):
    def __init__(self, config: CodecConfig, mels: int, width: int, n_fft: int, hop: int, rate: int) -> None:
        super().__init__()
        self.stride = config.stride
        self.expand = nn.Linear(config.codebooks * width, config.stride * config.channels)
        self.stack = ConvNeXtStack(config.channels, config.expansion, config.kernel, config.frame_blocks)
        self.out = nn.Linear(config.channels, mels + ROWS)
        sizes = VocoderConfig(
            kind="source_filter",
            channels=config.channels,
            expansion=config.expansion,
            blocks=config.decoder_blocks,
            kernel=config.kernel,
        )
        self.vocoder = SourceFilter(sizes, mels=mels, n_fft=n_fft, hop=hop, rate=rate)

    def frames(self, values_BFV: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Decode vectors (B, F, V) -> learned rows, pitch and voicing (B, M + 2, F * stride) float32. `lengths_B`: code
        frames of each row, int64; None means all."""
        hidden_BTC = self.expand(values_BFV).unflatten(2, (self.stride, -1)).flatten(1, 2)
        mask_BT1 = mask_of(hidden_BTC.transpose(1, 2), None if lengths_B is None else lengths_B * self.stride)
        said_BTD = self.out(self.stack(hidden_BTC, mask_BT1)).float()
        return (said_BTD if mask_BT1 is None else said_BTD * mask_BT1).transpose(1, 2)


def pitch_distance(said_BDT: Tensor, frames_BRT: Tensor, mels: int) -> Tensor:
    """Return the error of the decoded pitch (octaves, weighted by voicing) plus that of voicing, averaged over frames
    and summed over rows. Both inputs are (B, at least M + 2, T)."""
    pitch_BT, voicing_BT = frames_BRT[:, mels], frames_BRT[:, mels + 1]
    off_BT, wrong_BT = (said_BDT[:, mels] - pitch_BT).abs(), (said_BDT[:, mels + 1] - voicing_BT).abs()
    heard_BT = UNVOICED + (1 - UNVOICED) * voicing_BT
    return (off_BT * heard_BT + wrong_BT).mean(1).sum()
