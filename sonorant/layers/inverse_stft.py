"""The inverse short-time Fourier transform that ends a vocoder, as matrix products and shifted additions, which every
exporter and engine supports."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class InverseSTFT(nn.Module):
    """Inverse short-time Fourier transform with a Hann window as matrix products; the output is T * hop samples long.

    The cosine part of a real signal's frame is even about its middle, the sine part odd; even and odd frequencies are
    even or odd about its quarter. So a quarter of the frame is computed and mirrored. The windows of overlapping frames
    add up to one except in the first and last `n_fft - hop` samples.
    """

    cosine_even_FQ: Tensor
    cosine_odd_FQ: Tensor
    sine_even_FQ: Tensor
    sine_odd_FQ: Tensor
    window_N: Tensor

    def __init__(self, n_fft: int, hop: int) -> None:
        super().__init__()
        if n_fft % hop or n_fft % 4:
            raise ValueError(f"n_fft ({n_fft}) must be a multiple of hop ({hop}) and of 4")
        self.hop = hop
        self.overlap = n_fft // hop
        frequency = torch.arange(n_fft // 2 + 1, dtype=torch.float64)
        quarter = torch.arange(n_fft // 4 + 1, dtype=torch.float64)
        angle_FQ = 2 * math.pi * frequency[:, None] * quarter / n_fft
        weight_F1 = torch.full((n_fft // 2 + 1, 1), 2.0 / n_fft, dtype=torch.float64)
        weight_F1[0] = weight_F1[-1] = 1.0 / n_fft
        for name, synthesis_FQ in (("cosine", weight_F1 * angle_FQ.cos()), ("sine", -weight_F1 * angle_FQ.sin())):
            self.register_buffer(f"{name}_even_FQ", synthesis_FQ[0::2].float().contiguous(), persistent=False)
            self.register_buffer(f"{name}_odd_FQ", synthesis_FQ[1::2].float().contiguous(), persistent=False)
        window_N = torch.hann_window(n_fft, dtype=torch.float64) / (self.overlap * 0.5)
        self.register_buffer("window_N", window_N.float(), persistent=False)

    def forward(self, real_BTF: Tensor, imaginary_BTF: Tensor) -> Tensor:
        """(B, T, n_fft / 2 + 1) real and imaginary parts -> (B, T * hop) samples."""
        with torch.autocast(real_BTF.device.type, enabled=False):
            a_BTQ, b_BTQ = real_BTF[..., 0::2] @ self.cosine_even_FQ, real_BTF[..., 1::2] @ self.cosine_odd_FQ
            c_BTQ, d_BTQ = imaginary_BTF[..., 0::2] @ self.sine_even_FQ, imaginary_BTF[..., 1::2] @ self.sine_odd_FQ
            p_BTQ, q_BTQ, r_BTQ, s_BTQ = a_BTQ + d_BTQ, b_BTQ + c_BTQ, a_BTQ - d_BTQ, b_BTQ - c_BTQ
        first_BTQ, second_BTQ, third_BTQ, fourth_BTQ = p_BTQ + q_BTQ, p_BTQ - q_BTQ, r_BTQ - s_BTQ, r_BTQ + s_BTQ
        mirrored = [first_BTQ, second_BTQ[..., :-1].flip(2), third_BTQ[..., 1:], fourth_BTQ[..., 1:-1].flip(2)]
        frame_BTN = torch.cat(mirrored, dim=2) * self.window_N
        pieces = frame_BTN.split(self.hop, dim=2)
        total_BTH = pieces[0].new_zeros(())
        for shift, piece in enumerate(pieces):
            total_BTH = total_BTH + F.pad(piece, (0, 0, shift, self.overlap - 1 - shift))
        cut = (self.overlap - 1) * self.hop // 2
        samples = total_BTH.flatten(1)
        return samples[:, cut : samples.shape[1] - cut]
