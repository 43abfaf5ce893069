"""A trained model on disk: `weights.pt` and `model.json`. Knows nothing of how it was trained."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from sonorant.audio.mel import MelConfig
from sonorant.errors import SonorantError
from sonorant.families.codec_lm.codec import Codec, CodecConfig
from sonorant.families.codec_lm.language_model import LanguageModel, LanguageModelConfig
from sonorant.families.codec_lm.pretrained_codec import PretrainedCodec, build_pretrained
from sonorant.families.parallel.acoustic import AcousticConfig, AcousticModel
from sonorant.families.parallel.vocoder import Vocoder, VocoderConfig
from sonorant.files import atomic_file, read_json, write_json
from sonorant.formerly import current_model
from sonorant.layers.quantized import quantize_layers
from sonorant.text.frontend import SymbolTable


def build_acoustic(description: dict[str, Any]) -> AcousticModel:
    """An untrained acoustic model of the sizes a `model.json` names."""
    return AcousticModel(
        AcousticConfig(**description["config"]),
        symbols=SymbolTable(description["symbols"]).size,
        speakers=len(description["speakers"]),
        mels=description["audio"]["n_mels"],
        mel_mean=description["mel_mean"],
        mel_std=description["mel_std"],
    )


def build_vocoder(description: dict[str, Any]) -> Vocoder:
    """An untrained vocoder of the sizes a `model.json` names."""
    audio = description["audio"]
    return Vocoder(VocoderConfig(**description["config"]), mels=audio["n_mels"], n_fft=audio["n_fft"], hop=audio["hop"])


def build_language_model(description: dict[str, Any]) -> LanguageModel:
    """An untrained language model of the sizes a `model.json` names, for the codec that it names."""
    return LanguageModel(
        LanguageModelConfig(**description["config"]),
        symbols=SymbolTable(description["symbols"]).size,
        speakers=len(description["speakers"]),
        mels=description["audio"]["n_mels"],
        codebooks=description["codec"]["codebooks"],
        codes=description["codec"]["codes"],
        mel_mean=description["mel_mean"],
        mel_std=description["mel_std"],
    )


def build_codec(description: dict[str, Any]) -> Codec | PretrainedCodec:
    """An untrained codec of the sizes a `model.json` names, or one of transformers if it names such."""
    audio = description["audio"]
    if "pretrained" in description:
        return build_pretrained(description["pretrained"], MelConfig(**audio))
    return Codec(
        CodecConfig(**description["config"]),
        mels=audio["n_mels"],
        n_fft=audio["n_fft"],
        hop=audio["hop"],
        mel_mean=description["mel_mean"],
        mel_std=description["mel_std"],
    )


BUILDERS = {
    "acoustic": build_acoustic,
    "vocoder": build_vocoder,
    "language_model": build_language_model,
    "codec": build_codec,
}


def build(description: dict[str, Any]) -> torch.nn.Module:
    """An untrained model of the kind and sizes a `model.json` names, its layers quantised that `quantization` lists."""
    model = BUILDERS[description["kind"]](description)
    if description.get("quantization"):
        quantize_layers(model, description["quantization"]["layers"])
    return model


def describe(
    kind: str, config: Any, header: dict[str, Any], quantization: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The content of `model.json`: all that is needed to rebuild and to use the model, from its config and the
    features' header.

    `quantization`: `layers`, names of those that compute in int8, and what else is to be known of them; None: all
    compute in float.
    `symbols` are the phonemes alone; `SymbolTable` adds padding and sentence ends and so knows the embedding's size.
    """
    kept = ("audio", "symbols", "speakers", "frontend", "mel_mean", "mel_std")
    described = {"kind": kind, "config": dataclasses.asdict(config), **{key: header[key] for key in kept}}
    return described | ({"quantization": quantization} if quantization else {})


def save_model(folder: Path, weights: dict[str, torch.Tensor], description: dict[str, Any]) -> None:
    """Write `weights.pt` and `model.json` into `folder`, each whole or not at all."""
    with atomic_file(folder / "weights.pt") as temporary:
        torch.save(weights, temporary)
    write_json(folder / "model.json", description)


def load_model(folder: Path, kind: str) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The model in evaluation mode on the CPU, and its description. Raises SonorantError if the folder holds something
    else."""
    description = current_model(read_json(folder / "model.json"), folder / "model.json")
    if description.get("kind") != kind:
        raise SonorantError(f"{folder}: holds a model of kind '{description.get('kind')}', not '{kind}'")
    model = build(description)
    try:
        weights = torch.load(folder / "weights.pt", map_location="cpu", weights_only=True)
        model.load_state_dict(weights)
    except (OSError, RuntimeError) as error:
        raise SonorantError(
            f"{folder / 'weights.pt'}: cannot be loaded ({str(error).splitlines()[0]}); train again"
        ) from None
    return model.eval(), description


def load_acoustic(folder: Path) -> tuple[AcousticModel, dict[str, Any]]:
    """An acoustic model saved by `save_model`."""
    model, description = load_model(folder, "acoustic")
    assert isinstance(model, AcousticModel)
    return model, description


def load_vocoder(folder: Path) -> tuple[Vocoder, dict[str, Any]]:
    """A vocoder saved by `save_model`."""
    model, description = load_model(folder, "vocoder")
    assert isinstance(model, Vocoder)
    return model, description


def load_codec(folder: Path) -> tuple[Codec | PretrainedCodec, dict[str, Any]]:
    """A codec saved by `save_model`; both kinds are a `SoundCodec`."""
    model, description = load_model(folder, "codec")
    assert isinstance(model, Codec | PretrainedCodec)
    return model, description


def load_language_model(folder: Path) -> tuple[LanguageModel, dict[str, Any]]:
    """A codec language model saved by `save_model`."""
    model, description = load_model(folder, "language_model")
    assert isinstance(model, LanguageModel)
    return model, description
