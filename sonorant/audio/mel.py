"""Mel spectrogram for features, losses and evaluation, and Griffin-Lim. Shapes: S samples, T frames, F frequency bins
(n_fft / 2 + 1), M mel bins."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sonorant.checked import Amount, Count, Positive, Size

_BAND = 10  # number of filters computed together

FLOOR = 1e-5
"""Minimum magnitude before the natural logarithm; log-mels are at least -11.5."""


@dataclass(frozen=True, kw_only=True)
class MelConfig:
    """Section `audio` of params.yaml."""

    sample_rate: Count = 16000
    """Sample rate in Hz; recordings are resampled to it."""
    n_fft: Size = 1024
    """Length in samples of the Hann window and the Fourier transform."""
    hop: Size = 256
    """Number of samples from one frame to the next."""
    n_mels: Size = 80
    """Number of mel bins."""
    f_min: Amount = 0.0
    """Lower edge in Hz of the lowest mel bin."""
    f_max: Positive = 8000.0
    """Upper edge in Hz of the highest mel bin."""

    def __post_init__(self) -> None:
        if self.hop > self.n_fft or (self.n_fft - self.hop) % 2:
            raise ValueError(
                f"hop is {self.hop}; it must not exceed n_fft ({self.n_fft}) and differ from it by an even number"
            )
        if not 0 <= self.f_min < self.f_max <= self.sample_rate / 2:
            limits = f"0 <= f_min < f_max <= {self.sample_rate / 2:g} Hz"
            raise ValueError(f"f_min {self.f_min:g} and f_max {self.f_max:g} must satisfy {limits}")
        empty = np.flatnonzero(mel_filterbank(self).sum(axis=1) == 0)
        if len(empty):
            raise ValueError(
                f"n_mels {self.n_mels} is too many for n_fft {self.n_fft}: "
                f"bin {empty[0]} covers no frequency; lower n_mels"
            )


def hertz_to_mel(hertz: np.ndarray) -> np.ndarray:
    """Convert to Slaney's mel scale, linear below 1 kHz ("Auditory Toolbox", Technical Report 1998-010, Interval
    Research)."""
    return np.where(hertz < 1000, hertz * 3 / 200, 15 + 27 * np.log(np.maximum(hertz, 1000) / 1000) / np.log(6.4))


def mel_to_hertz(mel: np.ndarray) -> np.ndarray:
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp(np.log(6.4) * (mel - 15) / 27))


def mel_filterbank(config: MelConfig) -> np.ndarray:
    """Return triangular filters, float32 (M, F), equally spaced on the mel scale, each with unit area in Hz."""
    bins = np.linspace(0, config.sample_rate / 2, config.n_fft // 2 + 1)
    limits = hertz_to_mel(np.array([config.f_min, config.f_max]))
    edges = mel_to_hertz(np.linspace(limits[0], limits[1], config.n_mels + 2))
    lower, centre, upper = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (bins - lower) / (centre - lower), (upper - bins) / (upper - centre)
    triangles = np.maximum(0, np.minimum(rising, falling))
    return (triangles * 2 / (upper - lower)).astype(np.float32)


@lru_cache(maxsize=16)
def _constants(config: MelConfig, device: torch.device) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(False):  # a first call in inference mode would make them unusable in training
        window = torch.hann_window(config.n_fft, periodic=True, device=device, dtype=torch.float32)
        return window, torch.from_numpy(mel_filterbank(config)).to(device)


@lru_cache(maxsize=16)
def _bands(config: MelConfig, device: torch.device) -> tuple[tuple[slice, Tensor], ...]:
    """Return groups of neighbouring filters as (slice of frequencies, filters (m, f)), because nine tenths of the
    filterbank are zero."""
    bank = filters_of(config, device)
    groups = []
    with torch.inference_mode(False):
        for group in bank.split(_BAND):
            heard = group.any(0).nonzero().flatten()
            frequencies = slice(int(heard[0]), int(heard[-1]) + 1)
            groups.append((frequencies, group[:, frequencies].contiguous()))
    return tuple(groups)


def filters_of(config: MelConfig, device: torch.device) -> Tensor:
    """Return `mel_filterbank` as a tensor (M, F), which must not be changed."""
    return _constants(config, device)[1]


def frames_of(samples: int, config: MelConfig) -> int:
    return -(-samples // config.hop)


def spectrum(samples: Tensor, config: MelConfig) -> Tensor:
    """Return the short-time spectrum, complex64 (..., F, T), of samples (..., S), T = ceil(S / hop). Zeros pad the end
    to T * hop, then both ends are mirrored: frame t is centred on sample t * hop + hop / 2."""
    frames = frames_of(samples.shape[-1], config)
    if frames == 0:
        return torch.zeros(*samples.shape[:-1], config.n_fft // 2 + 1, 0, dtype=torch.complex64, device=samples.device)
    flat = samples.float().reshape(-1, samples.shape[-1])
    flat = torch.nn.functional.pad(flat, (0, frames * config.hop - flat.shape[-1]))
    flat = _mirror_ends(flat, (config.n_fft - config.hop) // 2)
    window, _ = _constants(config, samples.device)
    bins_FT = torch.stft(flat, config.n_fft, config.hop, window=window, center=False, return_complex=True)
    return bins_FT.reshape(*samples.shape[:-1], *bins_FT.shape[-2:])


def _mirror_ends(samples: Tensor, width: int) -> Tensor:
    """Mirror (B, S) at both ends to (B, S + 2 * width), repeatedly if S is less than width."""
    length = samples.shape[-1]
    if width < length:
        ends = samples[:, 1 : width + 1], samples[:, length - 1 - width : length - 1]
        return torch.cat([ends[0].flip(1), samples, ends[1].flip(1)], dim=1)
    period = max(2 * (length - 1), 1)
    position = torch.arange(-width, length + width, device=samples.device).remainder(period)
    return samples[:, torch.minimum(position, period - position).clamp(max=length - 1)]


def log_mel(samples: Tensor, config: MelConfig) -> Tensor:
    """Return the natural-log magnitude mel spectrogram, float32 (..., M, T), of samples (..., S) in -1..1, frames as in
    `spectrum`. Differentiable; float32 also under autocast."""
    with torch.autocast(samples.device.type, enabled=False):
        magnitude_FT = _magnitude(spectrum(samples, config))
        bands = [filters_mf @ magnitude_FT[..., heard, :] for heard, filters_mf in _bands(config, samples.device)]
        return torch.log(torch.clamp(torch.cat(bands, dim=-2), min=FLOOR))


def _magnitude(bins: Tensor) -> Tensor:
    """Return magnitudes, float32. `abs` is slower than the transform but has a finite gradient at zero."""
    if bins.requires_grad:
        return bins.abs()
    squares = torch.view_as_real(bins).square()
    return (squares[..., 0] + squares[..., 1]).sqrt_()


@torch.no_grad()
def griffin_lim(mel_MT: Tensor, config: MelConfig) -> Tensor:
    """Convert a natural-log mel (M, T) float32 to samples (T * hop,) float32, with 30 iterations of Griffin and Lim
    (1984), the momentum of Perraudin et al. (2013) and the filterbank's pseudo-inverse."""
    magnitude_FT = (torch.linalg.pinv(filters_of(config, mel_MT.device)) @ mel_MT.exp()).clamp(min=1e-7)
    window, _ = _constants(config, mel_MT.device)
    frames: dict[str, Any] = {"n_fft": config.n_fft, "hop_length": config.hop, "window": window}
    phase_FT = torch.rand(magnitude_FT.shape, generator=torch.Generator().manual_seed(0)) * 2 * torch.pi
    spectrum, previous = torch.polar(magnitude_FT, phase_FT), torch.zeros(())
    for _ in range(30):
        samples = torch.istft(spectrum, **frames)
        rebuilt = torch.stft(samples, **frames, pad_mode="constant", return_complex=True)
        momentum = rebuilt + 0.99 * (rebuilt - previous)
        previous = rebuilt
        spectrum = magnitude_FT * momentum / momentum.abs().clamp(min=1e-8)
    return torch.nn.functional.pad(samples, (config.hop // 2, (config.hop + 1) // 2)) / max(
        1.0, float(samples.abs().max())
    )
