"""Voices of random weights for machines without a text frontend. Knows nothing of what is measured with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sonorant.families.parallel.saved import build_acoustic, build_vocoder, load_acoustic, load_vocoder
from sonorant.models import save_model
from sonorant.runtime.bundle import (
    SCHEMA_VERSION,
    AudioSettings,
    Bundle,
    FrontendSettings,
    Lengths,
    ReceptiveField,
    VoiceDescription,
    read_bundle,
)

AUDIO = {"sample_rate": 22050, "n_fft": 1024, "hop": 256, "n_mels": 80, "f_min": 0.0, "f_max": 8000.0}
LENGTHS = Lengths(tokens=(64, 64, 128, 128), frames=(256, 256, 1024, 1024))
"""Two sizes a graph: compiling takes half a minute for each."""


def _size(
    channels: int, expansion: int, blocks: tuple[int, int], vocoder: tuple[int, int]
) -> dict[str, dict[str, Any]]:
    return {
        "acoustic": {
            "decoder": "regression",
            "channels": channels,
            "expansion": expansion,
            "encoder_blocks": blocks[0],
            "encoder_kernel": 5,
            "decoder_blocks": blocks[1],
            "decoder_kernel": 7,
            "dropout": 0.05,
            "flow_steps": 4,
        },
        "vocoder": {"channels": vocoder[0], "expansion": 3, "blocks": vocoder[1], "kernel": 7},
    }


SIZES = {"demo": _size(192, 3, (4, 6), (192, 5)), "published": _size(384, 4, (6, 10), (512, 8))}
"""The demo's, and about 24 M and 13 M parameters, as FastPitch and Vocos have."""
REHEARSAL = {"tiny": _size(16, 2, (1, 1), (16, 1))}


def write_voice(folder: Path, size: dict[str, dict[str, Any]]) -> tuple[Bundle, tuple[Path, Path]]:
    """Write trained folders of that size. Returns them and a bundle that describes them, still without graphs."""
    symbols = [f"p{number}" for number in range(60)]
    common: dict[str, Any] = {
        "audio": AUDIO,
        "symbols": symbols,
        "speakers": ["speaker"],
        "mel_mean": -5.0,
        "mel_std": 2.0,
        "frontend": {"name": "none", "version": "none", "language": "none"},
        "provenance": {},
    }
    torch.manual_seed(0)
    for kind, build in (("acoustic", build_acoustic), ("vocoder", build_vocoder)):
        model = {**common, "kind": kind, "config": size[kind]}
        save_model(folder / kind, build(model).state_dict(), model)
    trained = (folder / "acoustic", folder / "vocoder")
    description = VoiceDescription(
        schema_version=SCHEMA_VERSION,
        family="parallel",
        audio=AudioSettings(**AUDIO),  # type: ignore[arg-type]
        frontend=FrontendSettings(**common["frontend"]),
        symbols=tuple(symbols),
        speakers=("speaker",),
        graphs={},
        receptive_field=ReceptiveField(
            decoder=load_acoustic(trained[0])[0].receptive_field, vocoder=load_vocoder(trained[1])[0].receptive_field
        ),
        lengths=LENGTHS,
        decoding=None,
        choice={},
        provenance={},
    )
    return Bundle(folder / "voice", description), trained


def export(bundle: Bundle, trained: tuple[Path, Path], utterances: list[NDArray[np.integer]]) -> Bundle:
    """The bundle with its graphs in float, where the packages for that are installed; else as it was.

    `utterances`: token ids (N, 3) that the ranges of the 16-bit graphs are measured on.
    """
    try:
        from sonorant.export.onnx import ExportConfig
        from sonorant.export.voice import Sources, export_variants
    except ModuleNotFoundError:
        return bundle
    export_variants(Sources(*trained, utterances=utterances), bundle.folder, LENGTHS, ExportConfig(opset=20))
    return read_bundle(bundle.folder)
