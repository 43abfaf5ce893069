"""Inverse short-time Fourier transform as matrix products and shifted additions, which every engine supports."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sonorant.layers.fourier import FourierTables


class InverseSTFT(nn.Module):
    """Inverse STFT with a Hann window; a quarter of each frame is computed and mirrored (`FourierTables`)."""

    weight_F: Tensor
    window_N: Tensor

    def __init__(self, n_fft: int, hop: int, tables: FourierTables | None = None) -> None:
        """`tables`: tables shared with a forward transform; None means new tables."""
        super().__init__()
        self.hop = hop
        self.overlap = n_fft // hop
        self.tables = tables or FourierTables(n_fft, hop)
        weight_F = torch.full((n_fft // 2 + 1,), 2.0 / n_fft)
        weight_F[0] = weight_F[-1] = 1.0 / n_fft
        self.register_buffer("weight_F", weight_F, persistent=False)
        window_N = torch.hann_window(n_fft, dtype=torch.float64) / (self.overlap * 0.5)
        self.register_buffer("window_N", window_N.float(), persistent=False)

    def forward(self, real_BTF: Tensor, imaginary_BTF: Tensor) -> Tensor:
        """Convert real and imaginary parts (B, T, n_fft / 2 + 1) to samples (B, T * hop)."""
        with torch.autocast(real_BTF.device.type, enabled=False):
            of, real_BTF, imaginary_BTF = self.tables, real_BTF * self.weight_F, imaginary_BTF * self.weight_F
            a_BTQ, b_BTQ = real_BTF[..., 0::2] @ of.cosine_even_QQ, real_BTF[..., 1::2] @ of.cosine_odd_QO.T
            c_BTQ, d_BTQ = imaginary_BTF[..., 0::2] @ of.sine_even_QQ, imaginary_BTF[..., 1::2] @ of.sine_odd_QO.T
            p_BTQ, q_BTQ, r_BTQ, s_BTQ = a_BTQ - d_BTQ, b_BTQ - c_BTQ, a_BTQ + d_BTQ, b_BTQ + c_BTQ
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
