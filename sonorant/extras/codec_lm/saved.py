"""Build the codec language model and its codec from `model.json`."""

from pathlib import Path
from typing import Any

from sonorant.audio.mel import MelConfig
from sonorant.extras.codec_lm.codec import Codec, CodecConfig
from sonorant.extras.codec_lm.language_model import LanguageModel, LanguageModelConfig
from sonorant.extras.codec_lm.pretrained_codec import PretrainedCodec, build_pretrained
from sonorant.extras.codec_lm.source_codec import SourceCodec
from sonorant.layers.model_folder import load_model
from sonorant.text.frontend import SymbolTable

CODECS: dict[str, type[Codec]] = {"source_filter": SourceCodec, "vocos": Codec}


AnyCodec = Codec | PretrainedCodec


def build_language_model(description: dict[str, Any]) -> LanguageModel:
    """Build an untrained language model for the codec described in `model.json`."""
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


def build_codec(description: dict[str, Any]) -> AnyCodec:
    """Build the codec described in `model.json`, without trained weights."""
    audio = description["audio"]
    if "pretrained" in description:
        return build_pretrained(description["pretrained"], MelConfig(**audio))
    config = CodecConfig(**description["config"])
    return CODECS[config.kind](
        config,
        mels=audio["n_mels"],
        n_fft=audio["n_fft"],
        hop=audio["hop"],
        rate=audio["sample_rate"],
        mel_mean=description["mel_mean"],
        mel_std=description["mel_std"],
    )


def load_codec(folder: Path) -> tuple[AnyCodec, dict[str, Any]]:
    model, description = load_model(folder, "codec")
    assert isinstance(model, AnyCodec)
    return model, description


def load_language_model(folder: Path) -> tuple[LanguageModel, dict[str, Any]]:
    model, description = load_model(folder, "language_model")
    assert isinstance(model, LanguageModel)
    return model, description
