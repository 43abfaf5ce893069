"""Voices of random weights, of the sizes in params.yaml: as fast as trained ones. They say nothing a person would
understand."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import torch

from sonorant.audio.mel import MelConfig
from sonorant.families.codec_lm.codec import CodecConfig
from sonorant.families.codec_lm.language_model import LanguageModelConfig
from sonorant.families.parallel.acoustic import AcousticConfig
from sonorant.families.parallel.vocoder import VocoderConfig
from sonorant.files import sha256_file
from sonorant.models import build, save_model
from sonorant.runtime.bundle import Lengths
from sonorant.text import TextConfig, load_frontend
from tasks.params import load

LENGTHS = Lengths(tokens=(10, 40, 90, 130), frames=(60, 240, 500, 750))
"""As those of the demo's corpus, about."""


def random_models(folder: Path) -> tuple[Path, Path]:
    """Write trained folders of an acoustic model and of a vocoder into `folder`, always the same weights."""
    torch.manual_seed(0)
    acoustic = {**_common(), "kind": "acoustic", "config": dataclasses.asdict(load("acoustic", AcousticConfig))}
    vocoder = {**_common(), "kind": "vocoder", "config": dataclasses.asdict(load("vocoder", VocoderConfig))}
    return _save(folder, acoustic), _save(folder, vocoder)


def random_codec_lm(folder: Path) -> tuple[Path, Path]:
    """Write trained folders of a language model and of its codec into `folder`, always the same weights."""
    torch.manual_seed(0)
    settings = load("codec", CodecConfig)
    codec = _save(folder, {**_common(), "kind": "codec", "config": dataclasses.asdict(settings)})
    spoken = {
        "codebooks": settings.codebooks,
        "codes": math.prod(settings.levels),
        "stride": settings.stride,
        "sha256": sha256_file(codec / "weights.pt"),
    }
    language_model = {
        **_common(),
        "kind": "language_model",
        "config": dataclasses.asdict(load("language_model", LanguageModelConfig)),
        "codec": spoken,
        "pace": {"frames_per_phoneme": {"median": 2.5, "p99": 3.3}},
    }
    made = _save(folder, language_model)
    weights = torch.load(made / "weights.pt", weights_only=True)
    weights["advance.bias"][:2] = torch.tensor([4.0, 3.0])  # about three frames a phoneme, as if it spoke
    save_model(made, weights, language_model)
    return made, codec


def _save(folder: Path, description: dict[str, Any]) -> Path:
    made = folder / str(description["kind"])
    save_model(made, build(description).state_dict(), description)
    return made


def _common() -> dict[str, Any]:
    """What `model.json` says of all these models."""
    frontend = load_frontend(load("text", TextConfig).frontend, "en-us")
    return {
        "audio": dataclasses.asdict(load("audio", MelConfig)),
        "symbols": list(frontend.symbols),
        "speakers": ["speaker"],
        "frontend": {"name": frontend.name, "version": frontend.version, "language": frontend.language},
        "mel_mean": -5.0,
        "mel_std": 2.0,
        "provenance": {},
    }
