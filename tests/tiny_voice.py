"""A voice of real parts and random weights, small enough to export in seconds. Says nothing a person would understand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from sonorant.models.saved import build_acoustic, build_vocoder, save_model
from sonorant.runtime.bundle import Lengths
from sonorant.text import load_frontend

AUDIO = {"sample_rate": 16000, "n_fft": 1024, "hop": 256, "n_mels": 20, "f_min": 0.0, "f_max": 8000.0}
CORPUS = Lengths(tokens=(3, 20, 60, 120), frames=(8, 80, 240, 480))
"""As if of a corpus."""


def write_trained(folder: Path, decoder: str = "regression", audio: dict[str, Any] | None = None) -> tuple[Path, Path]:
    """Write trained folders of an acoustic model with two speakers and of a vocoder; always the same weights."""
    frontend = load_frontend("gruut", "en-us")
    common = {
        "audio": audio or AUDIO,
        "symbols": list(frontend.symbols),
        "speakers": ["anna", "ben"],
        "frontend": {"name": frontend.name, "version": frontend.version, "language": frontend.language},
        "mel_mean": -5.0,
        "mel_std": 2.0,
        "provenance": {"git_commit": "0" * 40, "data_hash": "1" * 64, "steps": 0},
    }
    acoustic = {
        **common,
        "kind": "acoustic",
        "config": {
            "decoder": decoder, "channels": 16, "expansion": 2, "encoder_blocks": 1, "encoder_kernel": 5,
            "decoder_blocks": 2, "decoder_kernel": 7, "dropout": 0.05, "flow_steps": 2,
        },
    }  # fmt: skip
    vocoder = {**common, "kind": "vocoder", "config": {"channels": 16, "expansion": 2, "blocks": 1, "kernel": 7}}
    torch.manual_seed(0)
    for build, description in ((build_acoustic, acoustic), (build_vocoder, vocoder)):
        save_model(folder / description["kind"], build(description).state_dict(), description)
    return folder / "acoustic", folder / "vocoder"
