"""A pretrained DAC from transformers (extra `codecs`) with the interface of `Codec`.

Reads only `config.json` and safetensors, and runs no code from a hub. DAC uses residual quantisation, so its first few
codebooks alone also form a codec (Kumar et al. 2023, "High-Fidelity Audio Compression with Improved RVQGAN").
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sonorant.audio.arrays import Floats, Ints
from sonorant.audio.mel import MelConfig
from sonorant.errors import SonorantError, needing
from sonorant.extras.codec_lm.codec import LARGEST_CODE
from sonorant.files import sha256_file

HEARD = 1e-5
"""Largest inaudible change of a sample, as a fraction of the loudest one (-100 dB)."""
FARTHEST = 256
"""Maximum receptive field that is measured, in code frames."""


class PretrainedCodec(nn.Module):
    float_parts = ("model",)

    def __init__(self, model: Any, *, hop: int, codebooks: int, receptive_field: int) -> None:
        """`model`: a `DacModel`; `hop`: samples per mel frame; `codebooks`: number of codebooks to use."""
        super().__init__()
        self.model = model.requires_grad_(False)
        self.codebooks, self.codes, self.receptive_field = codebooks, int(model.config.codebook_size), receptive_field
        self.samples_per_frame = int(model.config.hop_length)
        self.stride = self.samples_per_frame // hop

    def encode_utterance(self, known_DT: Floats, samples_S: Floats) -> Ints:
        """Encode the samples (S,) of one utterance -> codes (ceil(S / samples_per_frame), G); `known_DT` is unused."""
        frames = -(-len(samples_S) // self.samples_per_frame)
        padded = np.pad(samples_S, (0, frames * self.samples_per_frame - len(samples_S)))
        samples_B1S = torch.from_numpy(padded)[None, None].to(next(self.model.parameters()).device)
        codes_BGF = self.model.encode(samples_B1S, n_quantizers=self.codebooks, return_dict=True).audio_codes
        return codes_BGF[0, : self.codebooks, :frames].T.contiguous().cpu().numpy()

    def decode(self, codes_BFG: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Decode as `Codec.decode` does; positions past a row's end are zeroed before each layer."""
        decoder, frames = self.model.decoder, codes_BFG.shape[1]
        lengths_B = torch.full_like(codes_BFG[:, 0, 0], frames) if lengths_B is None else lengths_B
        x_BCT = decoder.conv1(_silenced(self.model.quantizer.from_codes(codes_BFG.transpose(1, 2))[0], lengths_B))
        for block in decoder.block:
            x_BCT = block.conv_t1(_silenced(block.snake1(x_BCT), lengths_B))
            [stride], [padding], [kernel] = block.conv_t1.stride, block.conv_t1.padding, block.conv_t1.kernel_size
            lengths_B = (lengths_B - 1) * stride - 2 * padding + kernel
            for unit in (block.res_unit1, block.res_unit2, block.res_unit3):
                x_BCT = unit(_silenced(x_BCT, lengths_B))
        x_BCT = decoder.tanh(decoder.conv2(_silenced(decoder.snake1(x_BCT), lengths_B)))
        samples_BS = _silenced(x_BCT, lengths_B).flatten(1)
        # With odd strides, the decoder returns fewer samples.
        return nn.functional.pad(samples_BS, (0, frames * self.samples_per_frame - samples_BS.shape[1]))

    def vocode(self, frames: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        return self.decode(frames, lengths_B)

    @property
    def silence(self) -> Tensor:
        zeros_S = np.zeros(16 * self.samples_per_frame, dtype=np.float32)
        return torch.from_numpy(self.encode_utterance(zeros_S, zeros_S)[8].copy())


def _silenced(x_BCT: Tensor, lengths_B: Tensor) -> Tensor:
    return x_BCT * (torch.arange(x_BCT.shape[2], device=x_BCT.device) < lengths_B[:, None]).to(x_BCT.dtype)[:, None]


def check_pretrained(named: str, audio: MelConfig, codebooks: int) -> Any:
    """Return the configuration of the codec `named`, a hub id or folder. Raises SonorantError if it or transformers is
    missing, or if it does not fit `audio` and `codebooks`."""
    try:
        config = _transformers().AutoConfig.from_pretrained(named)
    except (OSError, ValueError) as error:
        raise _not_loaded(named, error) from None
    if config.model_type != "dac":
        raise SonorantError(
            f"codec.pretrained: '{named}' is a {config.model_type} model; use a DAC model, or set "
            "codec.pretrained to null to train a codec"
        )
    if config.sampling_rate != audio.sample_rate:
        raise SonorantError(
            f"codec.pretrained: '{named}' is for {config.sampling_rate} Hz, but the features have "
            f"{audio.sample_rate} Hz; set audio.sample_rate to {config.sampling_rate}"
        )
    if config.hop_length % audio.hop:
        raise SonorantError(
            f"codec.pretrained: a frame of '{named}' has {config.hop_length} samples, which is not a multiple of "
            f"audio.hop {audio.hop}; set audio.hop to a divisor of {config.hop_length}"
        )
    if config.codebook_size > LARGEST_CODE + 1:
        raise SonorantError(
            f"codec.pretrained: '{named}' has {config.codebook_size} codes per codebook, but a token store "
            f"holds at most {LARGEST_CODE + 1}; choose a codec with fewer codes"
        )
    if not 1 <= codebooks <= config.n_codebooks:
        raise SonorantError(f"codec.codebooks must be 1 to {config.n_codebooks} for '{named}', not {codebooks}")
    return config


def take_pretrained(named: str, audio: MelConfig, codebooks: int) -> tuple[PretrainedCodec, dict[str, Any]]:
    """Load the codec `named`, a hub id or folder, and describe it for `model.json`. Raises SonorantError as
    `check_pretrained` does, and if the weights are missing, damaged or not safetensors."""
    config, transformers = check_pretrained(named, audio, codebooks), _transformers()
    try:
        model = transformers.DacModel.from_pretrained(named, use_safetensors=True).eval().float()
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
    """Build the codec that `take_pretrained` returns, without weights. Raises SonorantError if transformers is not
    installed."""
    transformers = _transformers()
    return PretrainedCodec(
        transformers.DacModel(transformers.DacConfig.from_dict(about["transformers"]["config"])),
        hop=audio.hop,
        codebooks=about["codebooks"],
        receptive_field=about["receptive_field"],
    )


def measured_receptive_field(codec: PretrainedCodec) -> int:
    """Return the maximum distance in code frames at which a changed code is audible, up to `FARTHEST`."""
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
    return SonorantError(
        f"codec.pretrained: '{named}' cannot be loaded ({' '.join(str(error).split())[:200]}); check its name"
    )


def _transformers() -> Any:
    with needing("codecs", "codec.pretrained"):
        import transformers

    return transformers
