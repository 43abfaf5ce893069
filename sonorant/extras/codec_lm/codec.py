"""Neural codec: log-mel -> a few codes per frame -> samples, with ConvNeXt stacks and finite scalar quantisation.

Shapes: F code frames of `stride` mel frames each, G codebooks, V values of all codebooks, D rows of a stored frame (M
log-mel rows, then `sonorant.audio.pitch.ROWS`).
"""

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal, cast

import torch
from torch import Tensor, nn

from sonorant.audio.arrays import Floats, Ints
from sonorant.checked import Interval, MinLen, Partial, Size, Text
from sonorant.families.parallel.vocoder import ENTER_KERNEL, VocoderConfig, Vocos, mask_of
from sonorant.layers.convnext import ConvNeXtStack
from sonorant.layers.fsq import MOST_LEVELS, FiniteScalarQuantizer

SILENCE = -11.5129
"""Log-mel value of digital silence: log(1e-5)."""


@dataclass(frozen=True, kw_only=True)
class CodecConfig:
    kind: Literal["source_filter", "vocos"] = "vocos"
    """Type of codec: `vocos`, or `source_filter`, which also decodes pitch."""
    channels: Size = 192
    """Number of channels in the encoder and decoder."""
    expansion: Size = 3
    """Hidden width of a block's MLP as a multiple of `channels`."""
    kernel: Size = 7
    """Kernel size of the ConvNeXt blocks in mel frames; odd."""
    encoder_blocks: Size = 4
    """Number of ConvNeXt blocks that convert mel frames to codes."""
    decoder_blocks: Size = 6
    """Number of ConvNeXt blocks that convert codes to samples (`source_filter`: frames to samples)."""
    frame_blocks: Size = 2
    """Number of ConvNeXt blocks that convert codes to frames (`source_filter` only)."""
    stride: Size = 2
    """Mel frames per code frame; the code frame rate is sample_rate / hop / stride."""
    codebooks: Size = 2
    """Number of codes per code frame."""
    levels: Annotated[list[Annotated[int, Interval(ge=2, le=MOST_LEVELS)]], MinLen(1)] = field(
        default_factory=lambda: [8, 5, 5, 5]
    )
    """Number of quantisation levels of each value in a codebook's vector; their product is the number of codes per
    codebook."""
    codebook_dropout: Partial = 0.1
    """Fraction of training segments whose later codebooks are dropped, so that the first ones carry the most
    information."""
    pretrained: Text | None = None
    """Hub id or folder of a pretrained DAC codec to use instead of training one (requires the extra `codecs`). Only its
    first `codebooks` codebooks are used; all sizes are ignored."""

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0:
            raise ValueError("kernel must be odd")
        if math.prod(self.levels) > LARGEST_CODE + 1:
            raise ValueError(
                f"levels {list(self.levels)} give {math.prod(self.levels)} codes; their product must be at most "
                f"{LARGEST_CODE + 1}"
            )


LARGEST_CODE = 2**15 - 1
"""Largest code that fits in a token store (int16)."""


class Codec(nn.Module):
    float_parts: tuple[str, ...] = ("encoder", "quantizer")
    """Modules that are never quantised, because the language model was trained on the codes they produce."""
    mel_mean: Tensor
    mel_std: Tensor

    def __init__(
        self,
        config: CodecConfig,
        *,
        mels: int,
        n_fft: int,
        hop: int,
        rate: int = 0,
        mel_mean: float = 0.0,
        mel_std: float = 1.0,
    ) -> None:
        """`rate`: sample rate in Hz, for a codec with a source; `mel_mean`, `mel_std`: statistics of the corpus, saved
        with the weights."""
        super().__init__()
        self.config = config
        self.codebooks, self.stride = config.codebooks, config.stride
        self.samples_per_frame = config.stride * hop
        self.mels, self.hop, self.rate = mels, hop, rate
        self.quantizer = FiniteScalarQuantizer(config.levels)
        self.codes = self.quantizer.codes
        self.encoder = CodecEncoder(config, self.heard_rows, self.quantizer.width)
        self.decoder = self._make_decoder(n_fft)
        self.register_buffer("mel_mean", torch.tensor(mel_mean))
        self.register_buffer("mel_std", torch.tensor(mel_std))

    @property
    def heard_rows(self) -> int:
        """Number of rows of a frame that are encoded."""
        return self.mels

    def _make_decoder(self, n_fft: int) -> nn.Module:
        return VocosDecoder(self.config, self.mels, self.quantizer.width, n_fft, self.hop)

    def normalized(self, frames_BDT: Tensor) -> Tensor:
        return (frames_BDT[:, : self.mels] - self.mel_mean) / self.mel_std

    def forward(self, frames_BRT: Tensor) -> Tensor:
        """Encode and decode vocoder frames (B, R, T) -> samples (B, T * hop); differentiable. Training drops later
        codebooks of some rows."""
        return self.decoder(self._said(frames_BRT))[:, : frames_BRT.shape[2] * self.hop]

    def encode(self, frames_BDT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Encode frames (B, at least `heard_rows`, T) -> codes (B, ceil(T / stride), G) int64, undefined past a row's
        length. `lengths_B`: frames of each row; None means all. Rows are independent."""
        return self.quantizer.to_codes(self._values(frames_BDT, lengths_B))

    def decode(self, codes_BFG: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Decode codes (B, F, G) int64 -> samples (B, F * samples_per_frame) in -1..1. `lengths_B`: frames of each row;
        None means all. Rows are independent. A chunk decoded with `receptive_field` extra frames on each side equals
        the same frames of the full output."""
        return cast(Tensor, self.decoder(self.quantizer.to_values(codes_BFG).flatten(2), lengths_B))

    def vocode(self, frames: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Decode as the graph `vocoder` does: completely, or only from frames to samples for a codec with a source."""
        return self.decode(frames, lengths_B)

    @torch.no_grad()
    def encode_utterance(self, known_DT: Floats, samples_S: Floats) -> Ints:
        """Encode the log-mel and pitch (D, T) of one utterance -> codes (ceil(T / stride), G); `samples_S` is
        unused."""
        return self.encode(torch.from_numpy(known_DT)[None].to(self.mel_mean.device))[0].cpu().numpy()

    @property
    def receptive_field(self) -> int:
        """Number of code frames on either side that affect the samples of a code frame."""
        return -(-cast(VocosDecoder, self.decoder).vocoder.receptive_field // self.stride)

    @property
    @torch.no_grad()
    def silence(self) -> Tensor:
        """Codes (G,) int64 of digital silence, far from its start and end."""
        reach = self.encoder.receptive_field
        silent_1DT = torch.zeros(1, self.heard_rows, 2 * reach + self.stride, device=self.mel_mean.device)
        silent_1DT[:, : self.mels] = SILENCE
        return self.encode(silent_1DT)[0, reach // self.stride]

    def _values(self, frames_BDT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        hidden_BFV = self.encoder(self.normalized(frames_BDT), mask_of(frames_BDT, lengths_B))
        return self.quantizer(hidden_BFV.unflatten(2, (self.codebooks, -1)))

    def _said(self, frames_BDT: Tensor) -> Tensor:
        """Return quantised values (B, F, V). Training drops later codebooks of some rows."""
        values_BFGD = self._values(frames_BDT)
        if self.training and self.config.codebook_dropout and self.codebooks > 1:
            values_BFGD = values_BFGD * self._kept(values_BFGD)
        return values_BFGD.flatten(2)

    def _kept(self, values_BFGD: Tensor) -> Tensor:
        rows, device = len(values_BFGD), values_BFGD.device
        heard_B = torch.randint(1, self.codebooks, (rows,), device=device)
        heard_B = torch.where(torch.rand(rows, device=device) < self.config.codebook_dropout, heard_B, self.codebooks)
        return (torch.arange(self.codebooks, device=device) < heard_B[:, None]).to(values_BFGD.dtype)[:, None, :, None]


class CodecEncoder(nn.Module):
    def __init__(self, config: CodecConfig, rows: int, width: int) -> None:
        super().__init__()
        self.config = config
        self.enter = nn.Conv1d(rows, config.channels, ENTER_KERNEL, padding=ENTER_KERNEL // 2)
        self.norm = nn.LayerNorm(config.channels)
        self.stack = ConvNeXtStack(config.channels, config.expansion, config.kernel, config.encoder_blocks)
        self.out = nn.Linear(config.channels * config.stride, config.codebooks * width)

    def forward(self, frames_BDT: Tensor, mask_BT1: Tensor | None = None) -> Tensor:
        """Encode frames (B, D, T), with a mask (B, T, 1) or None -> vectors (B, ceil(T / stride), codebooks *
        width)."""
        if mask_BT1 is not None:
            frames_BDT = frames_BDT * mask_BT1.transpose(1, 2)
        x_BTC = self.stack(self.norm(self.enter(frames_BDT).transpose(1, 2)), mask_BT1)
        if mask_BT1 is not None:
            x_BTC = x_BTC * mask_BT1
        missing = -x_BTC.shape[1] % self.config.stride
        return self.out(nn.functional.pad(x_BTC, (0, 0, 0, missing)).unflatten(1, (-1, self.config.stride)).flatten(2))

    @property
    def receptive_field(self) -> int:
        """Number of mel frames on either side that affect a code, rounded up to whole code frames."""
        frames = ENTER_KERNEL // 2 + self.config.encoder_blocks * (self.config.kernel // 2)
        return -(-frames // self.config.stride) * self.config.stride


class VocosDecoder(nn.Module):
    def __init__(self, config: CodecConfig, mels: int, width: int, n_fft: int, hop: int) -> None:
        super().__init__()
        self.stride = config.stride
        self.expand = nn.Linear(config.codebooks * width, config.stride * mels)
        sizes = VocoderConfig(
            kind="vocos",
            channels=config.channels,
            expansion=config.expansion,
            blocks=config.decoder_blocks,
            kernel=config.kernel,
        )
        self.vocoder = Vocos(sizes, mels=mels, n_fft=n_fft, hop=hop)

    def forward(self, values_BFV: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Decode vectors (B, F, V) float -> samples (B, F * stride * hop) float32. `lengths_B`: code frames of each
        row, int64; None means all."""
        learned_BTM = self.expand(values_BFV).unflatten(2, (self.stride, -1)).flatten(1, 2)
        return self.vocoder(learned_BTM.transpose(1, 2), None if lengths_B is None else lengths_B * self.stride)
