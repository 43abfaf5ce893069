"""The voice of a benchmark: the pipeline's, or one with random weights and the sizes in params.yaml, which is as
fast as a trained one, but says nothing intelligible."""

import dataclasses
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from sonorant.audio.mel import MelConfig
from sonorant.export.bundling import export_voice
from sonorant.export.onnx_graph import ExportConfig
from sonorant.extras.codec_lm.codec import CodecConfig
from sonorant.extras.codec_lm.language_model import LanguageModelConfig
from sonorant.families.parallel.acoustic import AcousticConfig
from sonorant.families.parallel.vocoder import VocoderConfig
from sonorant.files import sha256_file
from sonorant.layers.model_folder import build, save_model
from sonorant.speech.bundle import DESCRIPTION, Lengths, read_bundle
from sonorant.speech.decoding import DecodingConfig
from sonorant.text import TextConfig, frontend_description, load_frontend
from tasks.params import load

VOICES = (Path("artifacts/variants"), Path("artifacts/voice"))
"""Bundles of the pipeline: the one with all variants, and the one that ships."""
LENGTHS = Lengths(tokens=(10, 40, 90, 130), frames=(60, 240, 500, 750))
"""About those of the demo's corpus."""
Folders = tuple[Path, Path]


def shipped(family: str | None = None) -> Path | None:
    """The pipeline's bundle here, of `family` if given."""
    made = (folder for folder in VOICES if (folder / DESCRIPTION).is_file())
    return next((one for one in made if family in (None, read_bundle(one).description.family)), None)


@contextmanager
def voice_of(
    bundle: Path | None, family: str, trained: Folders | None = None, quantized: Path | None = None
) -> Iterator[tuple[dict[str, Any], str]]:
    """`bundle` with its trained folders, as fields of `VoiceJob`, and a description of its weights.

    Without a bundle the weights are random. `quantized`: folder of both models in int8.
    """
    if bundle is not None:
        int8 = (quantized / "predictor", quantized / "waveform") if quantized else None
        yield {"bundle": str(bundle), "trained": {"float": _present(trained), "quantized": _present(int8)}}, "trained"
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        made = random_models(folder, family)
        decoding = load("decoding", DecodingConfig) if family == "codec_lm" else None
        export_voice(*made, folder / "voice", LENGTHS, load("export", ExportConfig), decoding)
        job = {"bundle": str(folder / "voice"), "trained": {"float": _present(made), "quantized": None}}
        yield job, "random, of the sizes in params.yaml (no trained voice found)"


def _present(folders: Folders | None) -> list[str] | None:
    """Folders of trained models, None where one is absent."""
    there = folders is not None and all((folder / "model.json").is_file() for folder in folders)
    return [str(folder) for folder in folders] if folders and there else None


def random_models(folder: Path, family: str) -> Folders:
    """Write trained folders of both models of a family to `folder`, always with the same weights."""
    torch.manual_seed(0)
    if family == "parallel":
        acoustic = _save(folder, "acoustic", load("acoustic", AcousticConfig))
        return acoustic, _save(folder, "vocoder", load("vocoder", VocoderConfig))
    settings = load("codec", CodecConfig)
    codec = _save(folder, "codec", settings)
    spoken = {
        "codebooks": settings.codebooks,
        "codes": math.prod(settings.levels),
        "stride": settings.stride,
        "sha256": sha256_file(codec / "weights.pt"),
    }
    pace = {"frames_per_phoneme": {"median": 2.5, "p99": 3.3}}
    return _save(folder, "language_model", load("language_model", LanguageModelConfig), codec=spoken, pace=pace), codec


def _save(folder: Path, kind: str, config: Any, **more: Any) -> Path:
    frontend = load_frontend(load("text", TextConfig).frontend, "en-us")
    description = {
        "kind": kind,
        "config": dataclasses.asdict(config),
        "audio": dataclasses.asdict(load("audio", MelConfig)),
        "symbols": list(frontend.symbols),
        "speakers": ["speaker"],
        "frontend": frontend_description(frontend),
        "mel_mean": -5.0,
        "mel_std": 2.0,
        "provenance": {},
        **more,
    }
    weights = build(description).state_dict()
    if kind == "language_model":
        weights["advance.bias"][:2] = torch.tensor([4.0, 3.0])  # about three frames per phoneme, as in speech
    save_model(folder / kind, weights, description)
    return folder / kind
