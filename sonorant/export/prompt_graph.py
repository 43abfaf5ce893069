"""The graph that makes codes of a reference recording, for voices that go on from one. Knows nothing of files but the graph's."""

from __future__ import annotations

import math
from pathlib import Path
from typing import cast

import torch
from torch import nn
from torch.nn import functional as F

from sonorant.audio.mel import FLOOR, MelConfig, mel_filterbank
from sonorant.export.onnx import ExportConfig, write_graph
from sonorant.models.codec import Codec


class _Listening(nn.Module):
    """`log_mel` and `Codec.encode` as one forward pass. The Fourier transform is a convolution, which every engine has."""

    filters_MF: torch.Tensor
    waves_W1S: torch.Tensor

    def __init__(self, codec: Codec, audio: MelConfig) -> None:
        super().__init__()
        self.codec, self.audio = codec, audio
        time_S = torch.arange(audio.n_fft)
        # The product modulo a period, so that no angle is too large to be exact.
        turns_FS = (torch.arange(audio.n_fft // 2 + 1)[:, None] * time_S % audio.n_fft).double() / audio.n_fft
        window_S = torch.hann_window(audio.n_fft, periodic=True, dtype=torch.float64)
        waves_WS = torch.cat([(2 * math.pi * turns_FS).cos(), (2 * math.pi * turns_FS).sin()]) * window_S
        self.register_buffer("waves_W1S", waves_WS[:, None].float())
        self.register_buffer("filters_MF", torch.from_numpy(mel_filterbank(audio)))

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        around = (self.audio.n_fft - self.audio.hop) // 2
        mirrored_B1S = F.pad(samples.flatten(1)[:, None], (around, around), mode="reflect")
        cosine_BFT, sine_BFT = F.conv1d(mirrored_B1S, self.waves_W1S, stride=self.audio.hop).chunk(2, dim=1)
        magnitude_BFT = (cosine_BFT.square() + sine_BFT.square()).sqrt()
        return cast(torch.Tensor, self.codec.encode((self.filters_MF @ magnitude_BFT).clamp(min=FLOOR).log()))


def export_prompt(codec: Codec, audio: MelConfig, path: Path, config: ExportConfig) -> None:
    """Write the graph samples (batch, frames, samples a code frame) float32 -> codes (batch, frames, streams) int64.

    Codes are those of `log_mel` and `Codec.encode`, but where rounding tips one to its neighbour. There must be more samples than half
    of `n_fft`: they are mirrored at both ends. Raises SonorantError if the result is not valid ONNX.
    """
    example = {"samples": torch.zeros(2, 9, codec.samples_per_frame)}
    write_graph(_Listening(codec, audio), example, {"samples": {0: "batch", 1: "frames"}}, ("codes",), path, config)
