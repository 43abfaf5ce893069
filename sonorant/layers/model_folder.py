"""Folder of a trained model: `weights.pt` and `model.json`, whose `kind` names the class to build."""

import dataclasses
import io
from pathlib import Path
from typing import Any

import torch

from sonorant.errors import SonorantError
from sonorant.files import atomic_file, read_json, write_json
from sonorant.layers.quantized import quantize_layers
from sonorant.plugins import model_kind


def build(description: dict[str, Any]) -> torch.nn.Module:
    """Build an untrained model of the kind and sizes in a `model.json`, with the layers in `quantization` quantised."""
    model = model_kind(description["kind"]).build(description)
    if description.get("quantization"):
        quantize_layers(model, description["quantization"]["layers"])
    return model


def describe(
    kind: str, config: Any, header: dict[str, Any], quantization: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the contents of `model.json`. `config`: dataclass of sizes; `header`: header of the feature store;
    `quantization`: `layers` (names of int8 layers) and details; None means all layers are float."""
    kept = ("audio", "symbols", "speakers", "frontend", "mel_mean", "mel_std")
    described = {"kind": kind, "config": dataclasses.asdict(config), **{key: header[key] for key in kept}}
    return described | ({"quantization": quantization} if quantization else {})


def save_model(folder: Path, weights: dict[str, torch.Tensor], description: dict[str, Any]) -> None:
    # Saved in memory first: with a path, torch stores its temporary name; with a file, it hides that the disk is full.
    buffer = io.BytesIO()
    torch.save(weights, buffer)
    with atomic_file(folder / "weights.pt") as temporary, temporary.open("wb") as file:
        file.write(buffer.getbuffer())
    write_json(folder / "model.json", description)


def load_model(folder: Path, kind: str) -> tuple[torch.nn.Module, dict[str, Any]]:
    """Load a model in evaluation mode on the CPU, and its description. Raises SonorantError if its kind is not
    `kind`."""
    description = read_json(folder / "model.json")
    if description.get("kind") != kind:
        found = description.get("kind")
        raise SonorantError(f"{folder}: holds a model of kind '{found}', not '{kind}'; give a trained {kind}")
    model, file = build(description), folder / "weights.pt"
    try:
        model.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    except (OSError, RuntimeError) as error:
        raise SonorantError(f"{file}: cannot be loaded ({str(error).splitlines()[0]}); train the model again") from None
    return model.eval(), description
