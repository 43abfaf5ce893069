"""A voice of random weights, of the sizes in params.yaml: as fast as a trained one. Says nothing a person would understand."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch

from sonorant.audio.mel import MelConfig
from sonorant.models.acoustic import AcousticConfig
from sonorant.models.saved import build_acoustic, build_vocoder, save_model
from sonorant.models.vocoder import VocoderConfig
from sonorant.runtime.bundle import Lengths
from sonorant.text import TextConfig, load_frontend
from tasks.params import load

LENGTHS = Lengths(tokens=(10, 40, 90, 130), frames=(60, 240, 500, 750))
"""As those of the demo's corpus, about."""


def random_models(folder: Path) -> tuple[Path, Path]:
    """Write trained folders of an acoustic model and of a vocoder into `folder`, always the same weights."""
    frontend = load_frontend(load("text", TextConfig).frontend, "en-us")
    common = {
        "audio": dataclasses.asdict(load("audio", MelConfig)),
        "symbols": list(frontend.symbols),
        "speakers": ["speaker"],
        "frontend": {"name": frontend.name, "version": frontend.version, "language": frontend.language},
        "mel_mean": -5.0,
        "mel_std": 2.0,
        "provenance": {},
    }
    torch.manual_seed(0)
    acoustic = {**common, "kind": "acoustic", "config": dataclasses.asdict(load("acoustic", AcousticConfig))}
    vocoder = {**common, "kind": "vocoder", "config": dataclasses.asdict(load("vocoder", VocoderConfig))}
    save_model(folder / "acoustic", build_acoustic(acoustic).state_dict(), acoustic)
    save_model(folder / "vocoder", build_vocoder(vocoder).state_dict(), vocoder)
    return folder / "acoustic", folder / "vocoder"
