"""The vocoder: frames of log-mel and pitch -> samples, in one pass. ConvNeXt blocks run at frame rate; an inverse
short-time Fourier transform upsamples (Siuzdak 2023, "Vocos").

Each frame has R rows: M of log-mel, then those of `sonorant.audio.pitch`: pitch, voicing, phase and frame number."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from sonorant.audio.pitch import NOISE_FRAMES, ROWS
from sonorant.checked import Size
from sonorant.layers.convnext import ConvNeXtStack
from sonorant.layers.inverse_stft import InverseSTFT
from sonorant.layers.source import NoiseSpectra, Spectra, pulses

ENTER_KERNEL = 7
"""Kernel size of the first convolution, in frames."""
FILTERS = 4
"""Number of filters per frame in `SourceFilter`, one per quarter of the hop, because a burst is shorter than the mel's
window."""
LOUDEST = 4.0
"""Natural log of a filter's maximum gain."""


@dataclass(frozen=True, kw_only=True)
class VocoderConfig:
    kind: Literal["source_filter", "vocos"] = "source_filter"
    """Kind of the vocoder: `source_filter` uses the pitch, `vocos` does not."""
    channels: Size = 192
    """Width of the network."""
    expansion: Size = 3
    """Hidden width of a block's MLP as a multiple of `channels`."""
    blocks: Size = 5
    """Number of ConvNeXt blocks."""
    kernel: Size = 7
    """Kernel size of the ConvNeXt blocks, in frames; odd."""

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, not {self.kernel}")


class _FrameNetwork(nn.Module):
    def __init__(self, config: VocoderConfig, *, mels: int, hop: int, rows: int, outputs: int) -> None:
        super().__init__()
        self.config, self.mels, self.hop = config, mels, hop
        self.enter = nn.Conv1d(rows, config.channels, ENTER_KERNEL, padding=ENTER_KERNEL // 2)
        self.norm = nn.LayerNorm(config.channels)
        self.stack = ConvNeXtStack(config.channels, config.expansion, config.kernel, config.blocks)
        self.out = nn.Linear(config.channels, outputs)

    def outputs(self, frames_BDT: Tensor, mask_BT1: Tensor | None) -> Tensor:
        """Frames (B, D, T) -> (B, T, outputs) float32."""
        if mask_BT1 is not None:
            frames_BDT = frames_BDT * mask_BT1.transpose(1, 2)
        return self.out(self.stack(self.norm(self.enter(frames_BDT).transpose(1, 2)), mask_BT1)).float()

    @property
    def reach(self) -> int:
        return ENTER_KERNEL // 2 + self.config.blocks * (self.config.kernel // 2)


class Vocos(_FrameNetwork):
    """Log-mel -> magnitude and phase -> samples. Ignores pitch."""

    def __init__(self, config: VocoderConfig, *, mels: int, n_fft: int, hop: int, rate: int = 0) -> None:
        """`rate` is unused; other kinds need it."""
        super().__init__(config, mels=mels, hop=hop, rows=mels, outputs=n_fft + 2)
        self.inverse = InverseSTFT(n_fft, hop)

    def forward(self, frames_BRT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Frames (B, R or M, T) float32, number of frames of each row (B,) int64 (None means all) -> samples (B, T *
        hop) float32 in -1..1. A chunk computed with `receptive_field` extra frames on each side equals the same part of
        the full output."""
        mel_BMT = frames_BRT if frames_BRT.shape[1] == self.mels else frames_BRT[:, : self.mels]
        mask_BT1 = mask_of(mel_BMT, lengths_B)
        magnitude_BTF, phase_BTF = self.outputs(mel_BMT, mask_BT1).chunk(2, dim=2)
        magnitude_BTF = magnitude_BTF.clamp(max=6.0).exp()
        if mask_BT1 is not None:
            magnitude_BTF = magnitude_BTF * mask_BT1
        return self.inverse(magnitude_BTF * phase_BTF.cos(), magnitude_BTF * phase_BTF.sin())

    @property
    def receptive_field(self) -> int:
        """Number of frames on each side that the samples of a frame depend on."""
        return self.reach + self.inverse.overlap // 2


class SourceFilter(_FrameNetwork):
    """Filters pulses at the given pitch, and noise, with `FILTERS` predicted filters per frame. The phase, which a
    network learns slowest, follows from the pitch."""

    def __init__(self, config: VocoderConfig, *, mels: int, n_fft: int, hop: int, rate: int) -> None:
        """`rate`: sample rate in Hz. Raises ValueError unless `hop` and `n_fft` are multiples of 2 and 4 times
        `FILTERS`."""
        if hop % (2 * FILTERS) or n_fft % (4 * FILTERS):
            raise ValueError(f"source_filter: hop and n_fft must be multiples of {2 * FILTERS} and {4 * FILTERS}")
        length, shift = n_fft // FILTERS, hop // FILTERS
        outputs = FILTERS * 3 * (length // 2 + 1)
        super().__init__(config, mels=mels, hop=hop, rows=mels + ROWS, outputs=outputs)
        self.rate = rate
        with torch.no_grad():  # start with quiet, smooth filters, the noise quieter
            self.out.weight.mul_(0.3)
            for filter_ in self.out.bias.chunk(FILTERS):
                for part, start in zip(filter_.chunk(3), (-4.0, -5.0, 0.0), strict=True):
                    part.fill_(start)
        self.spectra = Spectra(length, shift)
        self.noise = NoiseSpectra(length, NOISE_FRAMES * FILTERS)
        self.inverse = InverseSTFT(length, shift, self.spectra.tables)

    def forward(self, frames_BRT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Shapes are as in `Vocos.forward`, with all R rows. P is the number of filters of all frames, T *
        `FILTERS`."""
        mask_BT1 = mask_of(frames_BRT, lengths_B)
        filters_BTG = self.outputs(frames_BRT[:, : self.mels + ROWS], mask_BT1)
        filters_BPG = filters_BTG.unflatten(2, (FILTERS, -1)).flatten(1, 2)
        harmonic_BPF, noise_BPF, phase_BPF = filters_BPG.chunk(3, dim=2)
        with torch.autocast(frames_BRT.device.type, enabled=False):
            pulse_real_BPF, pulse_imaginary_BPF = self.spectra(self._pulses(frames_BRT, mask_BT1))
            noise_real_BPF, noise_imaginary_BPF = self.noise(self._numbers(frames_BRT[:, -1]))
            harmonic_BPF, noise_BPF = harmonic_BPF.clamp(max=LOUDEST).exp(), noise_BPF.clamp(max=LOUDEST).exp()
            if mask_BT1 is not None:
                mask_BP1 = mask_BT1.expand(-1, -1, FILTERS).flatten(1)[..., None]
                harmonic_BPF, noise_BPF = harmonic_BPF * mask_BP1, noise_BPF * mask_BP1
            real_BPF, imaginary_BPF = harmonic_BPF * phase_BPF.cos(), harmonic_BPF * phase_BPF.sin()
            return self.inverse(
                pulse_real_BPF * real_BPF - pulse_imaginary_BPF * imaginary_BPF + noise_real_BPF * noise_BPF,
                pulse_real_BPF * imaginary_BPF + pulse_imaginary_BPF * real_BPF + noise_imaginary_BPF * noise_BPF,
            )

    def _numbers(self, number_BT: Tensor) -> Tensor:
        parts_K = torch.arange(FILTERS, device=number_BT.device, dtype=number_BT.dtype)
        return (number_BT[..., None] * FILTERS + parts_K).flatten(1)

    def _pulses(self, frames_BRT: Tensor, mask_BT1: Tensor | None) -> Tensor:
        pitch_BT, phase_BT = frames_BRT[:, self.mels].float(), frames_BRT[:, -2].float()
        next_BT = torch.cat([pitch_BT[:, 1:], pitch_BT[:, -1:]], dim=1)
        if mask_BT1 is None:
            return pulses(pitch_BT, next_BT, phase_BT, self.hop, self.rate)
        goes_on_BT = torch.cat([mask_BT1[:, 1:, 0], mask_BT1[:, :1, 0] * 0], dim=1) > 0
        next_BT = torch.where(goes_on_BT, next_BT, pitch_BT)
        samples_BTH = pulses(pitch_BT, next_BT, phase_BT, self.hop, self.rate).unflatten(1, (-1, self.hop))
        return (samples_BTH * mask_BT1).flatten(1)

    @property
    def receptive_field(self) -> int:
        reach = self.inverse.overlap // 2  # filters
        return max(-(-reach // FILTERS) + self.reach, -(-2 * reach // FILTERS) + 1)


def mask_of(frames_BRT: Tensor, lengths_B: Tensor | None) -> Tensor | None:
    """Return a mask (B, T, 1) of ones and zeros, or None if all frames are real."""
    if lengths_B is None:
        return None
    time_T = torch.arange(frames_BRT.shape[2], device=frames_BRT.device)
    return (time_T[None] < lengths_B[:, None])[..., None].to(frames_BRT.dtype)


VOCODERS: dict[str, type[Vocos] | type[SourceFilter]] = {"source_filter": SourceFilter, "vocos": Vocos}
Vocoder = Vocos | SourceFilter
