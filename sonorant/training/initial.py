"""Initial weights for fine-tuning, read from a trained model and matched by name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sonorant.errors import SonorantError
from sonorant.layers.model_folder import load_model
from sonorant.training import checkpoint

NAMED_ROWS = {"symbol.weight": "symbols", "speaker.weight": "speakers"}
"""Embeddings with named rows, and the key in `model.json` that lists the names."""
RESERVED_ROWS = {"symbols": ("padding", "^", "$"), "speakers": ()}
"""Reserved rows at the start of each embedding (see `SymbolTable`)."""


@dataclass(frozen=True, kw_only=True)
class Initial:
    """A trained model's EMA weights and `model.json`."""

    source: str
    """Origin of the weights."""
    weights: dict[str, torch.Tensor]
    description: dict[str, Any]

    def __post_init__(self) -> None:
        for name, weight in self.weights.items():
            if weight.is_floating_point() and not weight.isfinite().all():
                raise SonorantError(f"init_from: {self.source}: weight {name} is NaN or infinite; name another model")

    def content(self) -> str:
        """Return the hex SHA-256 of the weights, kind, symbols and speakers, independent of the file."""
        kept = {key: self.description[key] for key in ("kind", "symbols", "speakers")}
        digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode())
        for name, value in sorted(self.weights.items()):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def write(self, path: Path) -> None:
        checkpoint.save(path, {"source": self.source, "ema": self.weights, "description": self.description})

    @classmethod
    def parse(cls, payload: bytes) -> Initial:
        state = checkpoint.parse(payload)
        return cls(source=state["source"], weights=state["ema"], description=state["description"])


@dataclass(frozen=True, kw_only=True)
class Taken:
    """Result of copying a trained model's weights."""

    source: str
    fitting: tuple[str, ...]
    """Names of weights copied whole or row by row."""
    anew: tuple[str, ...]
    """Names of weights left random, because nothing matches in name and shape."""
    new_rows: dict[str, tuple[str, ...]]
    """New speakers and symbols, which start from the mean of the known rows."""
    lines: tuple[str, ...]
    """Log lines: the number of copied weights, then each mismatch."""

    def whole(self, *parts: str) -> bool:
        return not any(name.split(".")[0] in parts for name in self.anew)


def read_initial(path: Path, kind: str) -> Initial:
    """Read a model of `kind` from a checkpoint, a trained model's folder, or a run directory. Raises SonorantError if
    there is none."""
    if (path / "model.json").is_file():
        model, description = load_model(path, kind)
        return Initial(source=str(path), weights=model.state_dict(), description=description)
    if (path / "checkpoints").is_dir():
        newest = checkpoint.existing(path / "checkpoints")
        if not newest:
            raise SonorantError(f"init_from: {path} has no checkpoint yet; name a run directory with checkpoints")
        path = newest[0]
    if not path.is_file():
        found = "is not" if path.exists() else "does not exist; name"
        raise SonorantError(
            f"init_from: {path} {found} a checkpoint, a trained model folder, a run directory or a voice bundle"
        )
    try:
        state = checkpoint.load(path)
    except checkpoint.DamagedCheckpoint as error:
        raise SonorantError(f"init_from: {error}; name another checkpoint") from None
    description = state["description"]
    if description["kind"] != kind:
        raise SonorantError(
            f"init_from: {path} contains a model of kind '{description['kind']}', not '{kind}'; name another"
        )
    # The EMA is either the bare model, or wrapped together with the count of its updates.
    weights = {name.removeprefix("module."): value for name, value in state["ema"].items() if name != "n_averaged"}
    return Initial(source=str(path), weights=weights, description=description)


def take_over(model: nn.Module, description: dict[str, Any], initial: Initial) -> Taken:
    """Copy weights of `initial` that match in name and shape, and embedding rows by name. Raises SonorantError if no
    matrix matches."""
    own = model.state_dict()
    weights, new_rows = dict(initial.weights), {}
    for layer, key in NAMED_ROWS.items():
        if layer in weights and layer in own:
            old, new = initial.description[key], description[key]
            weights[layer], new_rows[key] = _rows_by_name(weights[layer], old, new, key)
    fitting = {name: value for name, value in weights.items() if name in own and value.shape == own[name].shape}
    if not any(value.ndim >= 2 for value in fitting.values()):
        remedy = f"compare its model.json with section '{description['kind']}'"
        raise SonorantError(f"init_from: no weights of {initial.source} match this model; {remedy}")
    model.load_state_dict(fitting, strict=False)
    anew = tuple(name for name in own if name not in fitting)
    lines = [f"fine-tuning from {initial.source}: {len(fitting)} of {len(own)} layers copied"]
    for name in anew:
        there = (
            f"{tuple(weights[name].shape)} there, {tuple(own[name].shape)} here" if name in weights else "missing there"
        )
        lines.append(f"  {name}: {there}; starts from random weights")
    lines += [f"  {name}: not in this model; ignored" for name in weights if name not in own]
    new = {key: " ".join(names) for key, names in new_rows.items() if names}
    lines += [f"  new {key}, initialised with the mean of the others: {names}" for key, names in new.items()]
    if gone := [name for name in initial.description["speakers"] if name not in description["speakers"]]:
        lines += [f"  speakers removed, because they have no recordings here: {' '.join(gone)}"] * (
            "speakers" in new_rows
        )
    heard = initial.description["audio"]
    changed = {key: value for key, value in description["audio"].items() if heard.get(key) != value}
    lines += [f"  audio.{key}: {heard.get(key)} there, {value} here" for key, value in changed.items()]
    return Taken(source=initial.source, fitting=tuple(fitting), anew=anew, new_rows=new_rows, lines=tuple(lines))


def _rows_by_name(rows: torch.Tensor, old: list[str], new: list[str], key: str) -> tuple[torch.Tensor, tuple[str, ...]]:
    reserved = len(RESERVED_ROWS[key])
    place = {name: reserved + number for number, name in enumerate(old)}
    mean = rows[reserved:].mean(0)
    named = [rows[place[name]] if name in place else mean for name in new]
    return torch.stack([*rows[:reserved], *named]), tuple(name for name in new if name not in place)
