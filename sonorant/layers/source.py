"""Excitation of a source-filter vocoder: pulses at the pitch and noise, as short-time spectra.

Based on DDSP (Engel et al. 2020, section 3). Shapes: B items, T frames of H samples, N samples per transform, F = N / 2
+ 1 bins.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sonorant.audio.pitch import REFERENCE
from sonorant.layers.fourier import FourierTables

_LEVELS = 32.0  # number of 8-bit levels per standard deviation of noise
_NEAR = 1e-4  # sine of the angle to a pulse's centre below which the quotient's limit is used


def pulses(pitch_BT: Tensor, next_BT: Tensor, phase_BT: Tensor, hop: int, rate: int) -> Tensor:
    """Return band-limited pulses of power 1 (B, T * hop): all harmonics up to half the rate in cosine phase, the
    highest one faded. Their sum is the Dirichlet kernel.

    Arguments are (B, T) float32: pitch at the start and end of each frame (octaves from `REFERENCE`; frequency is
    linear in between), and phase in cycles at the frame's start.
    """
    hertz_BT, next_BT = REFERENCE * torch.exp2(pitch_BT), REFERENCE * torch.exp2(next_BT)
    part_H = torch.arange(hop, device=pitch_BT.device, dtype=torch.float32) / hop
    hertz_BTH = hertz_BT[..., None] + (next_BT - hertz_BT)[..., None] * part_H
    passed_BTH = (hertz_BT[..., None] + (next_BT - hertz_BT)[..., None] * (part_H / 2)) * part_H * (hop / rate)
    cycles_BTH = phase_BT[..., None] + passed_BTH
    turn_BTH = (cycles_BTH - torch.floor(cycles_BTH + 0.5)) * math.pi
    sine_BTH = torch.sin(turn_BTH)
    near_BTH = sine_BTH.abs() < _NEAR
    divisor_BTH = torch.where(near_BTH, torch.ones_like(sine_BTH), sine_BTH)
    most_BTH = (rate / 2) / hertz_BTH - 0.5
    whole_BTH = torch.floor(most_BTH)
    odd_BTH = 2 * whole_BTH + 1

    def harmonics(odd_BTH: Tensor) -> Tensor:
        return torch.where(near_BTH, odd_BTH, torch.sin(odd_BTH * turn_BTH) / divisor_BTH) - 1

    faded_BTH = most_BTH - whole_BTH
    sum_BTH = (1 - faded_BTH) * harmonics(odd_BTH) + faded_BTH * harmonics(odd_BTH + 2)
    return (sum_BTH / torch.sqrt(2 * most_BTH)).flatten(1)


class Spectra(nn.Module):
    """STFT with a Hann window as matrix products of folded frames (`FourierTables`); frame t is centred on its hop,
    with zero padding."""

    window_N: Tensor

    def __init__(self, n_fft: int, hop: int) -> None:
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.tables = FourierTables(n_fft, hop)
        self.register_buffer("window_N", torch.hann_window(n_fft, dtype=torch.float64).float(), persistent=False)

    def forward(self, signal_BS: Tensor) -> tuple[Tensor, Tensor]:
        """Transform (B, T * H) float32 to real and imaginary parts (B, T, F)."""
        margin = (self.n_fft - self.hop) // 2
        overlap = self.n_fft // self.hop
        padded_BPH = F.pad(signal_BS, (margin, margin)).unflatten(1, (-1, self.hop // 2))
        frames = signal_BS.shape[1] // self.hop
        # A frame is 2 * overlap half hops long and starts at every second half hop.
        pieces = [padded_BPH[:, shift : shift + 2 * frames - 1 : 2] for shift in range(2 * overlap)]
        frame_BTN = torch.cat(pieces, dim=2) * self.window_N
        return self._transform(frame_BTN)

    def _transform(self, frame_BTN: Tensor) -> tuple[Tensor, Tensor]:
        half, quarter = self.n_fft // 2, self.n_fft // 4
        mirrored = torch.cat([frame_BTN[..., :1] * 0, frame_BTN[..., half + 1 :].flip(2)], dim=2)  # samples N - n
        ahead = frame_BTN[..., :half]
        even, odd = ahead + mirrored, ahead - mirrored  # folded about the middle; the middle itself follows
        middle = frame_BTN[..., half : half + 1]
        # Folded about the quarter: n and N / 2 - n.
        even_far = torch.cat([middle, even[..., quarter + 1 :].flip(2)], dim=2)
        odd_far = torch.cat([middle * 0, odd[..., quarter + 1 :].flip(2)], dim=2)
        zero = torch.zeros_like(middle)
        even_near, odd_near = even[..., :quarter], odd[..., :quarter]
        at_quarter_even, at_quarter_odd = even[..., quarter : quarter + 1], odd[..., quarter : quarter + 1]
        real_even = torch.cat([even_near + even_far, at_quarter_even], dim=2) @ self.tables.cosine_even_QQ
        real_odd = torch.cat([even_near - even_far, zero], dim=2) @ self.tables.cosine_odd_QO
        imaginary_even = torch.cat([odd_far - odd_near, zero], dim=2) @ self.tables.sine_even_QQ  # -sin
        imaginary_odd = -torch.cat([odd_near + odd_far, at_quarter_odd], dim=2) @ self.tables.sine_odd_QO
        return _interleave(real_even, real_odd), _interleave(imaginary_even, imaginary_odd)


def _interleave(even: Tensor, odd: Tensor) -> Tensor:
    paired = torch.stack([even[..., :-1], odd], dim=3).flatten(2)
    return torch.cat([paired, even[..., -1:]], dim=2)


class NoiseSpectra(nn.Module):
    """Spectra of white noise of power 1 under a Hann window, from a constant 8-bit table, so that exported graphs and
    chunks get the same noise as torch and whole utterances."""

    table_KP: Tensor

    def __init__(self, n_fft: int, count: int) -> None:
        """`count`: period of the noise in spectra."""
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        drawn_KP = torch.randn(count, n_fft + 2, generator=generator)
        levels_KP = (drawn_KP * _LEVELS + 128).round().clamp(0, 255).to(torch.uint8)
        self.register_buffer("table_KP", levels_KP, persistent=False)
        # The window's energy is 3 / 8 of its length, half for each part.
        self.scale = math.sqrt(n_fft * 3 / 16) / _LEVELS

    def forward(self, number_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Return real and imaginary parts (B, T, F) float32 for frame numbers (B, T) float32."""
        table_KP = (self.table_KP.float() - 128.0) * self.scale
        real_BTF, imaginary_BTF = F.embedding(number_BT.long(), table_KP).chunk(2, dim=2)
        return real_BTF, imaginary_BTF
