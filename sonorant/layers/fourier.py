"""Cosine and sine tables of a short-time Fourier transform and its inverse as matrix products."""

import math

import torch
from torch import Tensor, nn


class FourierTables(nn.Module):
    """Cosines and sines of 2 pi q f / N for even and odd frequencies f = 0 to N / 2 and the first Q = N / 4 + 1 of N
    samples; by symmetry a quarter of a real frame suffices."""

    cosine_even_QQ: Tensor
    """Cosines at even frequencies; symmetric, as is `sine_even_QQ`."""
    cosine_odd_QO: Tensor
    sine_even_QQ: Tensor
    sine_odd_QO: Tensor

    def __init__(self, n_fft: int, hop: int) -> None:
        super().__init__()
        if n_fft % hop or n_fft % 4:
            raise ValueError(f"n_fft ({n_fft}) must be a multiple of hop ({hop}) and of 4")
        frequency_F = torch.arange(n_fft // 2 + 1, dtype=torch.float64)
        quarter_Q = torch.arange(n_fft // 4 + 1, dtype=torch.float64)
        angle_QF = 2 * math.pi * quarter_Q[:, None] * frequency_F / n_fft
        for name, table_QF in (("cosine", angle_QF.cos()), ("sine", angle_QF.sin())):
            self.register_buffer(f"{name}_even_QQ", table_QF[:, 0::2].float().contiguous(), persistent=False)
            self.register_buffer(f"{name}_odd_QO", table_QF[:, 1::2].float().contiguous(), persistent=False)
