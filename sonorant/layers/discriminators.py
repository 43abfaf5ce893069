"""Discriminators for adversarial training of a vocoder."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

Scores = list[tuple[Tensor, list[Tensor]]]
"""Scores (B, any) and layer feature maps of each discriminator."""
PERIODS = (2, 3, 5, 7, 11)
TRANSFORMS = (512, 1024)
LONGEST_TRANSFORM = max(TRANSFORMS)
"""Length in samples of the longest transform; a signal must be longer than half of it."""


class PeriodDiscriminator(nn.Module):
    """Discriminates every `period`-th sample (Kong et al. 2020, "HiFi-GAN", section 2.3)."""

    def __init__(self, period: int, width: int) -> None:
        super().__init__()
        self.period = period
        sizes = [1, width, width * 2, width * 4, width * 4]
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(before, after, (5, 1), (3, 1), padding=(2, 0))) for before, after in pairwise(sizes)
        )
        self.out = weight_norm(nn.Conv2d(sizes[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, samples_BS: Tensor) -> tuple[Tensor, list[Tensor]]:
        padded = F.pad(samples_BS[:, None], (0, -samples_BS.shape[1] % self.period), mode="reflect")
        return _score(padded.unflatten(2, (-1, self.period)), self.layers, self.out)


class ResolutionDiscriminator(nn.Module):
    """Discriminates magnitude spectrograms (Jang et al. 2021, "UnivNet", section 2.3)."""

    window: Tensor

    def __init__(self, n_fft: int, width: int) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)
        sizes = [1, width, width, width, width]
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(before, after, (3, 7), (1, 2), padding=(1, 3))) for before, after in pairwise(sizes)
        )
        self.out = weight_norm(nn.Conv2d(width, 1, 3, padding=1))

    def forward(self, samples_BS: Tensor) -> tuple[Tensor, list[Tensor]]:
        spectrum = torch.stft(samples_BS.float(), self.n_fft, self.n_fft // 4, window=self.window, return_complex=True)
        return _score(spectrum.abs()[:, None].transpose(2, 3), self.layers, self.out)


class Discriminators(nn.Module):
    def __init__(self, width: int) -> None:
        """`width`: channels of each discriminator's first layer."""
        super().__init__()
        self.each = nn.ModuleList(
            [
                *(PeriodDiscriminator(period, width) for period in PERIODS),
                *(ResolutionDiscriminator(n, width) for n in TRANSFORMS),
            ]
        )

    def forward(self, samples_BS: Tensor) -> Scores:
        return [discriminator(samples_BS) for discriminator in self.each]


def _score(x: Tensor, layers: nn.ModuleList, out: nn.Module) -> tuple[Tensor, list[Tensor]]:
    features = []
    for layer in layers:
        x = F.leaky_relu(layer(x), 0.1)
        features.append(x)
    return out(x).flatten(1), features
