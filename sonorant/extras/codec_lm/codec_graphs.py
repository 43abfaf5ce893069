"""Export of the codec as graphs: codes to samples, and recordings to codes for prompts."""

import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sonorant.audio.mel import FLOOR, MelConfig, mel_filterbank
from sonorant.audio.pitch import ROWS, SOURCE_ROWS
from sonorant.export.onnx_graph import ExportConfig, Traced, write_graph
from sonorant.extras.codec_lm.codec import Codec
from sonorant.extras.codec_lm.saved import AnyCodec
from sonorant.extras.codec_lm.source_codec import SourceCodec


class _Vocoding(Traced):
    def forward(self, codes: Tensor, lengths: Tensor) -> Tensor:
        return self.model.vocode(codes, lengths)


class _SourceVocoding(Traced):
    def forward(self, frames: Tensor, lengths: Tensor) -> Tensor:
        return self.model.vocode(frames, lengths)


class _Decoding(Traced):
    def forward(self, codes: Tensor, lengths: Tensor) -> Tensor:
        return self.model.frames(codes, lengths)


def export_sound(codec: AnyCodec, files: dict[str, Path], config: ExportConfig) -> None:
    """Write the graphs that convert codes to samples. Raises SonorantError if one is not valid ONNX.

    Without a source, the graph is `vocoder`: codes (batch, frames, codebooks) int64, lengths (batch,) int64 -> samples
    (batch, frames * samples per frame) float32. With a source, the graphs are `decoder`: codes, lengths -> frames
    (batch, rows, mel frames) float32, and `vocoder`: frames with source rows, lengths -> samples (batch, mel frames *
    hop).
    """
    lengths, of_rows = torch.tensor([9, 8]), {0: "batch"}
    codes = {"codes": torch.zeros(2, 9, codec.codebooks, dtype=torch.int64), "lengths": lengths}
    sizes = {"codes": {0: "batch", 1: "frames"}, "lengths": of_rows}
    if not isinstance(codec, SourceCodec):
        write_graph(_Vocoding(codec), codes, sizes, ("samples",), files["vocoder"], config)
        return
    write_graph(_Decoding(codec), codes, sizes, ("frames",), files["decoder"], config)
    frames = {"frames": torch.zeros(2, codec.mels + ROWS + SOURCE_ROWS, 9), "lengths": lengths}
    sizes = {"frames": {0: "batch", 2: "frames"}, "lengths": of_rows}
    write_graph(_SourceVocoding(codec), frames, sizes, ("samples",), files["vocoder"], config)


class _Listening(nn.Module):
    """Computes `log_mel`, then `Codec.encode`. The Fourier transform is a convolution, because inference engines lack
    an operator for it."""

    filters_MF: Tensor
    waves_W1S: Tensor

    def __init__(self, codec: Codec, audio: MelConfig) -> None:
        super().__init__()
        self.codec, self.audio = codec, audio
        time_S = torch.arange(audio.n_fft)
        # Reducing angles modulo one period keeps them small and exact.
        turns_FS = (torch.arange(audio.n_fft // 2 + 1)[:, None] * time_S % audio.n_fft).double() / audio.n_fft
        window_S = torch.hann_window(audio.n_fft, periodic=True, dtype=torch.float64)
        waves_WS = torch.cat([(2 * math.pi * turns_FS).cos(), (2 * math.pi * turns_FS).sin()]) * window_S
        self.register_buffer("waves_W1S", waves_WS[:, None].float())
        self.register_buffer("filters_MF", torch.from_numpy(mel_filterbank(audio)))

    def forward(self, samples: Tensor, pitch: Tensor | None = None) -> Tensor:
        around = (self.audio.n_fft - self.audio.hop) // 2
        mirrored_B1S = F.pad(samples.flatten(1)[:, None], (around, around), mode="reflect")
        cosine_BFT, sine_BFT = F.conv1d(mirrored_B1S, self.waves_W1S, stride=self.audio.hop).chunk(2, dim=1)
        magnitude_BFT = (cosine_BFT.square() + sine_BFT.square()).sqrt()
        frames_BDT = (self.filters_MF @ magnitude_BFT).clamp(min=FLOOR).log()
        if pitch is not None:
            frames_BDT = torch.cat([frames_BDT, pitch.flatten(1, 2).transpose(1, 2)], dim=1)
        return self.codec.encode(frames_BDT)


def export_prompt(codec: Codec, audio: MelConfig, path: Path, config: ExportConfig) -> None:
    """Write the graph that encodes recordings as codes (batch, frames, codebooks) int64, which equal those of
    `Codec.encode` unless rounding selects a neighbouring code. Inputs: samples (batch, frames, samples per code frame)
    float32, more than `n_fft` / 2 in total, and, with a source, pitch (batch, frames, mel frames per code frame, 2)
    float32 from `track_pitch`."""
    example, of_frames = {"samples": torch.zeros(2, 9, codec.samples_per_frame)}, {0: "batch", 1: "frames"}
    if isinstance(codec, SourceCodec):
        example["pitch"] = torch.zeros(2, 9, codec.stride, ROWS)
    inputs = {name: dict(of_frames) for name in example}
    write_graph(_Listening(codec, audio), example, inputs, ("codes",), path, config)
