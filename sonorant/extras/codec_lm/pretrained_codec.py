"""Pretrained codecs from transformers (extra `codecs`): DAC, EnCodec and Mimi as a `SoundCodec`.

Reads only `config.json` and safetensors; runs no code from a hub. All three quantise residually, so their first
codebooks alone are a codec too. Kumar et al. 2023, "High-Fidelity Audio Compression with Improved RVQGAN" (DAC);
Défossez et al. 2022, "High Fidelity Neural Audio Compression" (EnCodec); Défossez et al. 2024, "Moshi", section 3.3
(Mimi)."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sonorant.audio.arrays import Floats, Ints
from sonorant.audio.mel import MelConfig
from sonorant.errors import SonorantError
from sonorant.extras.codec_lm.codec import LARGEST_CODE
from sonorant.files import sha256_file

HEARD = 1e-5
"""Inaudible change of a sample, as a fraction of the loudest one (-100 dB)."""
FARTHEST = 256
"""Code frames at which measuring the receptive field ends: recurrent decoders have no limit."""


@dataclass(frozen=True)
class Kind:
    """How to call one of transformers' codecs."""

    model: str
    """Class in transformers."""
    codebooks: Callable[[Any], int]
    """Most codebooks, from its config."""
    samples_per_frame: Callable[[Any], int]
    encode: Callable[[Any, Tensor, int], Tensor]
    """Model, samples (1, 1, S), codebooks -> codes (1, at least as many codebooks, F)."""
    decode: Callable[[Any, Tensor], Tensor] | None
    """Model, codes (B, codebooks, F) of full rows -> samples (B, S) or (B, 1, S)."""
    decode_rows: Callable[[Any, Tensor, Tensor], Tensor] | None = None
    """The same with code frames of each row (B,), independent of the other rows, in operators that can be exported.
    None: rows are decoded one by one, and no graph can be written."""


def _encode_encodec(model: Any, samples_B1S: Tensor, codebooks: int) -> Tensor:
    quantizers = model.quantizer.get_num_quantizers_for_bandwidth
    bandwidth = next(each for each in sorted(model.config.target_bandwidths) if quantizers(each) >= codebooks)
    return model.encode(samples_B1S, bandwidth=bandwidth, return_dict=True).audio_codes[0]


def _decode_dac(model: Any, codes_BGF: Tensor, lengths_B: Tensor) -> Tensor:
    """`DacModel.decode`, zeroing positions past a row's end before each layer with a kernel above 1."""
    decoder = model.decoder
    x_BCT = decoder.conv1(_silenced(model.quantizer.from_codes(codes_BGF)[0], lengths_B))
    for block in decoder.block:
        x_BCT = block.conv_t1(_silenced(block.snake1(x_BCT), lengths_B))
        [stride], [padding], [kernel] = block.conv_t1.stride, block.conv_t1.padding, block.conv_t1.kernel_size
        lengths_B = (lengths_B - 1) * stride - 2 * padding + kernel
        for unit in (block.res_unit1, block.res_unit2, block.res_unit3):
            x_BCT = unit(_silenced(x_BCT, lengths_B))
    return _silenced(decoder.tanh(decoder.conv2(_silenced(decoder.snake1(x_BCT), lengths_B))), lengths_B)


def _silenced(x_BCT: Tensor, lengths_B: Tensor) -> Tensor:
    return x_BCT * (torch.arange(x_BCT.shape[2], device=x_BCT.device) < lengths_B[:, None]).to(x_BCT.dtype)[:, None]


KINDS = {
    "dac": Kind(
        "DacModel",
        lambda config: config.n_codebooks,
        lambda config: config.hop_length,
        lambda model, samples_B1S, codebooks: (
            model.encode(samples_B1S, n_quantizers=codebooks, return_dict=True).audio_codes
        ),
        None,
        _decode_dac,
    ),
    "encodec": Kind(
        "EncodecModel",
        lambda config: config.num_quantizers,
        lambda config: config.hop_length,
        _encode_encodec,
        lambda model, codes_BGF: model.decode(codes_BGF[None], [None], return_dict=True).audio_values,
    ),
    "mimi": Kind(
        "MimiModel",
        lambda config: config.num_quantizers,
        lambda config: config.frame_size,
        lambda model, samples_B1S, codebooks: (
            model.encode(samples_B1S, num_quantizers=codebooks, return_dict=True).audio_codes
        ),
        lambda model, codes_BGF: model.decode(codes_BGF, return_dict=True).audio_values,
    ),
}
"""By the `model_type` of config.json."""


class PretrainedCodec(nn.Module):
    """A transformers codec from samples to samples; implements `SoundCodec`."""

    float_parts = ("model",)
    """Never quantised."""

    def __init__(self, model: Any, *, hop: int, codebooks: int, receptive_field: int) -> None:
        """`model`: of a class in `KINDS`; `hop`: samples a mel frame; `codebooks`: number of codebooks, the first
        ones."""
        super().__init__()
        self.model = model.requires_grad_(False)
        self.kind = KINDS[model.config.model_type]
        self.codebooks, self.codes, self.receptive_field = codebooks, int(model.config.codebook_size), receptive_field
        self.samples_per_frame = int(self.kind.samples_per_frame(model.config))
        self.stride = self.samples_per_frame // hop

    def encode_utterance(self, known_DT: Floats, samples_S: Floats) -> Ints:
        """Samples (S,) of one utterance -> codes (ceil(S / samples_per_frame), G); mel and pitch are unused."""
        frames = -(-len(samples_S) // self.samples_per_frame)
        padded = np.pad(samples_S, (0, frames * self.samples_per_frame - len(samples_S)))
        samples_B1S = torch.from_numpy(padded)[None, None].to(next(self.model.parameters()).device)
        codes_BGF = self.kind.encode(self.model, samples_B1S, self.codebooks)
        return codes_BGF[0, : self.codebooks, :frames].T.contiguous().cpu().numpy()

    def decode(self, codes_BFG: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Codes (B, F, G) int64, frames of each row (B,) int64 (None: all) -> samples (B, F * samples_per_frame)
        float32. Rows do not depend on each other: networks without masks decode row by row, and causal ones still
        mirror a short row's start."""
        frames = codes_BFG.shape[1]
        if self.kind.decode_rows:
            every_B = torch.full_like(codes_BFG[:, 0, 0], frames) if lengths_B is None else lengths_B
            return self._filled(
                self.kind.decode_rows(self.model, codes_BFG.transpose(1, 2), every_B).flatten(1), frames
            )
        if lengths_B is None:
            return self._decoded(codes_BFG)
        rows = [
            self._decoded(row_FG[None, :length])[0]
            for row_FG, length in zip(codes_BFG, lengths_B.tolist(), strict=True)
        ]
        return torch.stack([self._filled(row_S[None], frames)[0] for row_S in rows])

    def vocode(self, frames: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Same as `decode`: this codec's frames are its codes."""
        return self.decode(frames, lengths_B)

    def _decoded(self, codes_BFG: Tensor) -> Tensor:
        if not codes_BFG.shape[1]:
            return codes_BFG.new_zeros((len(codes_BFG), 0), dtype=torch.float32)
        assert self.kind.decode
        return self._filled(self.kind.decode(self.model, codes_BFG.transpose(1, 2)).flatten(1), codes_BFG.shape[1])

    def _filled(self, samples_BS: Tensor, frames: int) -> Tensor:
        """Pad to (B, frames * samples_per_frame): odd strides give fewer samples."""
        return nn.functional.pad(samples_BS, (0, frames * self.samples_per_frame - samples_BS.shape[1]))

    @property
    def silence(self) -> Tensor:
        """Codes (G,) int64 of digital silence, far from its ends."""
        zeros_S = np.zeros(16 * self.samples_per_frame, dtype=np.float32)
        codes_FG = self.encode_utterance(np.zeros((0, 0), dtype=np.float32), zeros_S)
        return torch.from_numpy(codes_FG[8].copy())


def check_pretrained(named: str, audio: MelConfig, codebooks: int) -> Any:
    """Configuration of the codec `named` by hub id or folder, without weights. Raises SonorantError if transformers or
    the codec is missing, or it does not fit `audio` or `codebooks`."""
    transformers = _transformers()
    try:
        config = transformers.AutoConfig.from_pretrained(named)
    except (OSError, ValueError) as error:
        raise _not_loaded(named, error) from None
    if config.model_type not in KINDS:
        raise SonorantError(f"codec.pretrained: '{named}' is a {config.model_type}; allowed: {', '.join(KINDS)}")
    _refuse_misfits(named, config, audio, codebooks)
    return config


def refuse_without_graph(named: str, config: Any) -> None:
    """Raise SonorantError for a codec that cannot be exported, before a language model is trained on it."""
    if KINDS[config.model_type].decode_rows is None:
        exportable = ", ".join(kind for kind, calls in KINDS.items() if calls.decode_rows)
        raise SonorantError(
            f"codec.pretrained: '{named}' is of kind {config.model_type}, whose decoder cannot be written as a graph, "
            f"so no voice could be exported: take one of kind {exportable}, or null to train one (`take_pretrained` "
            "loads it for trainings of your own)"
        )


def take_pretrained(named: str, audio: MelConfig, codebooks: int) -> tuple[PretrainedCodec, dict[str, Any]]:
    """Load the codec `named` by hub id or folder, with `codebooks` of its codebooks, and its part of `model.json`.
    Raises SonorantError as `check_pretrained`, and if its weights are missing, damaged or not safetensors."""
    transformers = _transformers()
    config = check_pretrained(named, audio, codebooks)
    try:
        model = (
            getattr(transformers, KINDS[config.model_type].model)
            .from_pretrained(named, use_safetensors=True)
            .eval()
            .float()
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise _not_loaded(named, error) from None
    codec = PretrainedCodec(model, hop=audio.hop, codebooks=codebooks, receptive_field=0)
    codec.receptive_field = measured_receptive_field(codec)
    local = Path(named) / "model.safetensors"
    about = {
        "name": Path(named).name if local.exists() else named,
        "revision": f"sha256 {sha256_file(local)}" if local.exists() else getattr(config, "_commit_hash", None),
        "codebooks": codec.codebooks,
        "codes": codec.codes,
        "frames_per_second": audio.sample_rate / codec.samples_per_frame,
        "receptive_field": codec.receptive_field,
        "transformers": {"version": transformers.__version__, "config": config.to_dict()},
    }
    return codec, about


def build_pretrained(about: dict[str, Any], audio: MelConfig) -> PretrainedCodec:
    """The codec described by `take_pretrained`, without weights. Raises SonorantError without transformers."""
    transformers = _transformers()
    settings = about["transformers"]["config"]
    model = getattr(transformers, KINDS[settings["model_type"]].model)
    return PretrainedCodec(
        model(model.config_class.from_dict(settings)),
        hop=audio.hop,
        codebooks=about["codebooks"],
        receptive_field=about["receptive_field"],
    )


def measured_receptive_field(codec: PretrainedCodec) -> int:
    """Most code frames from a changed one to an audible change, up to `FARTHEST`."""
    generator = torch.Generator().manual_seed(0)
    for reach in (16, 64, FARTHEST):
        codes_BFG = torch.randint(codec.codes, (1, 2 * reach + 1, codec.codebooks), generator=generator)
        changed_BFG = codes_BFG.clone()
        changed_BFG[:, reach] = (changed_BFG[:, reach] + 1) % codec.codes
        samples_S, changed_S = codec.decode(codes_BFG)[0], codec.decode(changed_BFG)[0]
        difference_F = (samples_S - changed_S).abs().unflatten(0, (-1, codec.samples_per_frame)).amax(1)
        heard_F = difference_F > HEARD * samples_S.abs().max()
        distance = int((heard_F.nonzero()[:, 0] - reach).abs().max()) if heard_F.any() else 0
        if distance < reach:
            return distance
    return FARTHEST


def _not_loaded(named: str, error: Exception) -> SonorantError:
    return SonorantError(f"codec.pretrained: '{named}' cannot be loaded ({' '.join(str(error).split())[:200]})")


def _refuse_misfits(named: str, config: Any, audio: MelConfig, codebooks: int) -> None:
    kind = KINDS[config.model_type]
    per_frame = int(kind.samples_per_frame(config))
    if config.sampling_rate != audio.sample_rate:
        raise SonorantError(
            f"codec.pretrained: '{named}' speaks at {config.sampling_rate} Hz and the features are at "
            f"{audio.sample_rate}: set audio.sample_rate: {config.sampling_rate}"
        )
    if per_frame % audio.hop:
        raise SonorantError(
            f"codec.pretrained: a frame of '{named}' is {per_frame} samples, no multiple of a mel frame's {audio.hop}: "
            f"set audio.hop to a divisor of {per_frame}"
        )
    if config.codebook_size > LARGEST_CODE + 1:
        raise SonorantError(
            f"codec.pretrained: '{named}' has {config.codebook_size} codes a stream, and a token store holds "
            f"{LARGEST_CODE + 1}: take one of fewer"
        )
    if not 1 <= codebooks <= kind.codebooks(config):
        raise SonorantError(f"codec.codebooks is {codebooks}: '{named}' has 1 to {kind.codebooks(config)} codebooks")
    if getattr(config, "audio_channels", 1) != 1 or getattr(config, "normalize", False):
        raise SonorantError(f"codec.pretrained: '{named}' is a stereo codec or one that normalises; take a mono one")


def _transformers() -> Any:
    if importlib.util.find_spec("transformers") is None:
        raise SonorantError("codec.pretrained: transformers is not installed; run: pip install 'sonorant[codecs]'")
    import transformers

    return transformers
