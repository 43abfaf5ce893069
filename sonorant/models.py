"""A trained model on disk: `weights.pt` and `model.json`, whose `kind` says what can be built from it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from sonorant.errors import SonorantError
from sonorant.families import model_kind
from sonorant.files import atomic_file, read_json, write_json
from sonorant.formerly import current_model
from sonorant.layers.quantized import quantize_layers


def build(description: dict[str, Any]) -> torch.nn.Module:
    """An untrained model of the kind and sizes a `model.json` names, its layers quantised that `quantization` lists."""
    model = model_kind(description["kind"]).build(description)
    if description.get("quantization"):
        quantize_layers(model, description["quantization"]["layers"])
    return model


def describe(
    kind: str, config: Any, header: dict[str, Any], quantization: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The content of `model.json`: all that is needed to rebuild and to use the model.

    Args:
        kind: a name of `sonorant.families.all_kinds`.
        config: its sizes, a dataclass.
        header: of the feature store. Its `symbols` are the phonemes alone; `SymbolTable` adds padding and sentence
            ends and so knows the embedding's size.
        quantization: `layers`, the names of those that compute in int8, and what else is to be known of them;
            None: all compute in float.
    """
    kept = ("audio", "symbols", "speakers", "frontend", "mel_mean", "mel_std")
    described = {"kind": kind, "config": dataclasses.asdict(config), **{key: header[key] for key in kept}}
    return described | ({"quantization": quantization} if quantization else {})


def save_model(folder: Path, weights: dict[str, torch.Tensor], description: dict[str, Any]) -> None:
    """Write `weights.pt` and `model.json` into `folder`, each whole or not at all."""
    with atomic_file(folder / "weights.pt") as temporary, temporary.open("wb") as file:
        torch.save(weights, file)  # into a file, not to a path: that would be kept inside, with this process's number
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
