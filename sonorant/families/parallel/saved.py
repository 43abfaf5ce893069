"""Build and load the models of the `parallel` family."""

from pathlib import Path
from typing import Any

from sonorant.families.parallel.acoustic import AcousticConfig, AcousticModel
from sonorant.families.parallel.vocoder import VOCODERS, Vocoder, VocoderConfig
from sonorant.layers.model_folder import load_model
from sonorant.text.frontend import SymbolTable


def build_acoustic(description: dict[str, Any]) -> AcousticModel:
    return AcousticModel(
        AcousticConfig(**description["config"]),
        symbols=SymbolTable(description["symbols"]).size,
        speakers=len(description["speakers"]),
        mels=description["audio"]["n_mels"],
        mel_mean=description["mel_mean"],
        mel_std=description["mel_std"],
    )


def build_vocoder(description: dict[str, Any]) -> Vocoder:
    audio, config = description["audio"], VocoderConfig(**description["config"])
    sizes = {"mels": audio["n_mels"], "n_fft": audio["n_fft"], "hop": audio["hop"], "rate": audio["sample_rate"]}
    return VOCODERS[config.kind](config, **sizes)


def load_acoustic(folder: Path) -> tuple[AcousticModel, dict[str, Any]]:
    model, description = load_model(folder, "acoustic")
    assert isinstance(model, AcousticModel)
    return model, description


def load_vocoder(folder: Path) -> tuple[Vocoder, dict[str, Any]]:
    model, description = load_model(folder, "vocoder")
    assert isinstance(model, Vocoder)
    return model, description
