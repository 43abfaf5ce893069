"""Listen to a mel without a vocoder. Knows nothing of models."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from sonorant.audio.mel import MelConfig, mel_filterbank


@torch.no_grad()
def griffin_lim(mel_MT: torch.Tensor, config: MelConfig, iterations: int = 30) -> torch.Tensor:
    """Natural-log mel (M, T) float32 -> samples (T * hop,) float32.

    Phase by Griffin and Lim 1984 with the momentum of Perraudin et al. 2013; magnitudes by the pseudo-inverse of the filterbank.
    """
    bank_MF = torch.from_numpy(mel_filterbank(config)).to(mel_MT)
    magnitude_FT = (torch.linalg.pinv(bank_MF) @ mel_MT.exp()).clamp(min=1e-7)
    window = torch.hann_window(config.n_fft)
    pad = (config.n_fft - config.hop) // 2
    generator = torch.Generator().manual_seed(0)
    spectrum = torch.polar(magnitude_FT, torch.rand(magnitude_FT.shape, generator=generator) * 6.2832)
    previous = torch.zeros_like(spectrum)
    samples = torch.zeros(mel_MT.shape[1] * config.hop)
    for _ in range(iterations):
        frames = torch.fft.irfft(spectrum, n=config.n_fft, dim=0) * window[:, None]
        total = config.n_fft + config.hop * (frames.shape[1] - 1)
        stride = (1, config.hop)
        signal = F.fold(frames[None], (1, total), (1, config.n_fft), stride=stride).flatten()
        envelope = F.fold(
            (window.square()[:, None].expand_as(frames))[None], (1, total), (1, config.n_fft), stride=stride
        ).flatten()
        signal = signal / envelope.clamp(min=1e-3)
        samples = signal[pad : total - pad]
        rebuilt = torch.stft(signal, config.n_fft, config.hop, window=window, center=False, return_complex=True)
        momentum = rebuilt + 0.99 * (rebuilt - previous)
        previous = rebuilt
        spectrum = magnitude_FT * momentum / momentum.abs().clamp(min=1e-8)
    return samples / max(1.0, float(samples.abs().max()))
