"""Shared by parts of `gpu_check`: running each alone, and voices with random weights, which need no text frontend."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import command, finish, options
from sonorant.layers.model_folder import build, save_model
from sonorant.speech.bundle import (
    SCHEMA_VERSION,
    AudioSettings,
    Bundle,
    FrontendSettings,
    Lengths,
    ReceptiveField,
    VoiceDescription,
)

ENGINES = "engines on the GPU compute what the CPU computes, and CUDA graphs answer sooner than single operators"
"""Defined here because `gpu_engines` needs the packages of the export."""
SHORT_FORM = {"dry_run": True}
AUDIO: dict[str, Any] = {"sample_rate": 22050, "n_fft": 1024, "hop": 256, "n_mels": 80, "f_min": 0.0, "f_max": 8000.0}
FRONTEND: dict[str, Any] = {"name": "none", "version": "none", "language": "none"}
SYMBOLS = [f"p{number}" for number in range(60)]

Answer = tuple[dict[str, Any], bool]
"""Figures of a check, and whether its claim holds."""
Size = dict[str, dict[str, Any]]
Check = Callable[[Path, Path, torch.device], Answer]
"""Takes the corpora's folder, its own folder and the device."""


def _size(channels: int, expansion: int, blocks: tuple[int, int], vocoder: tuple[int, int]) -> Size:
    acoustic: dict[str, Any] = {"decoder": "regression", "channels": channels, "expansion": expansion}
    acoustic |= {"dropout": 0.05, "flow_steps": 4}
    acoustic |= {"encoder_blocks": blocks[0], "encoder_kernel": 5, "decoder_blocks": blocks[1], "decoder_kernel": 7}
    sizes = {"channels": vocoder[0], "expansion": 3, "blocks": vocoder[1], "kernel": 7}
    return {"acoustic": acoustic, "vocoder": sizes}


SIZES = {"demo": _size(192, 3, (4, 6), (192, 5)), "published": _size(384, 4, (6, 10), (512, 8))}
"""The demo's sizes, and about 24 M and 13 M parameters, as in FastPitch and Vocos."""
REHEARSAL = {"tiny": _size(16, 2, (1, 1), (16, 1))}


def device_of(name: str, arguments: Any) -> torch.device:
    """The GPU, or the CPU for a dry run. Exits with status 1 if there is no GPU."""
    if not (arguments.dry_run or torch.cuda.is_available()):
        finish(name, {"not run": "torch sees no GPU on this machine"}, {"torch sees a GPU": False}, arguments)
    return torch.device("cpu") if arguments.dry_run else torch.device("cuda", 0)


def run_alone(name: str, doc: str | None, claim: str, check: Check) -> None:
    parser = command(doc)
    parser.add_argument("--dry-run", action="store_true", help="go through the script on a CPU; results mean nothing")
    arguments = options(parser, SHORT_FORM)
    device = device_of(name, arguments)
    with tempfile.TemporaryDirectory() as folder:
        result, holds = check(Path(folder), Path(folder), device)
    finish(name, result, {} if arguments.dry_run else {claim: holds}, arguments)


def write_model(folder: Path, kind: str, config: dict[str, Any], **more: Any) -> torch.nn.Module:
    description: dict[str, Any] = {"kind": kind, "config": config, "audio": AUDIO, "frontend": FRONTEND, **more}
    description |= {"symbols": SYMBOLS, "speakers": ["speaker"], "mel_mean": -5.0, "mel_std": 2.0, "provenance": {}}
    model = build(description)
    if kind == "language_model":
        with torch.no_grad():  # stay for about 14 frames a phoneme
            model.get_parameter("advance.bias").copy_(torch.tensor([4.0, 0.0, 0.0, 0.0]))
            model.get_parameter("logits.weight").mul_(10.0)
    save_model(folder / kind, model.state_dict(), description)
    return model.eval()


def describe(folder: Path, family: str, receptive_field: ReceptiveField, lengths: Lengths, decoding: Any) -> Bundle:
    description = VoiceDescription(
        schema_version=SCHEMA_VERSION,
        family=family,
        audio=AudioSettings(**AUDIO),
        frontend=FrontendSettings(**FRONTEND),
        symbols=tuple(SYMBOLS),
        speakers=("speaker",),
        graphs={},
        receptive_field=receptive_field,
        lengths=lengths,
        decoding=decoding,
        choice={},
        provenance={},
    )
    return Bundle(folder / "voice", description)
