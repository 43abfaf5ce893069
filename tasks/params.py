"""params.yaml, read as typed settings. The file is closed: an unknown key, a wrong type or a contradiction is one clear
line."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from pathlib import Path
from typing import Any, TypeVar

import pydantic
import yaml

from sonorant.errors import SonorantError

PARAMS = Path("params.yaml")
SECTIONS = (
    "voice", "corpus", "text", "prepare", "audio", "vocoder", "train_vocoder", "acoustic", "train_acoustic",
    "codec", "train_codec", "language_model", "train_language_model", "decoding", "data", "machine",
    "quantize", "export", "verify", "recognizer", "evaluate", "choose", "engine", "report", "register", "promote",
)  # fmt: skip

Config = TypeVar("Config")


def load(section: str, config: type[Config], path: Path = PARAMS) -> Config:
    """Return one section of params.yaml as the frozen dataclass `config` that owns it.

    Raises SonorantError naming file, key and allowed values for an unknown key, a wrong type or a contradiction
    (a ValueError of the dataclass's own `__post_init__`).
    """
    values = read(path).get(section)
    if not isinstance(values, dict):
        raise SonorantError(f"{path}: section '{section}' is missing or not a mapping")
    try:
        checked = _closed_model(config).model_validate(values)
    except pydantic.ValidationError as error:
        names = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
        raise SonorantError(f"{path}: {_one_line(section, error, names)}") from None
    try:
        return config(**dict(checked))
    except ValueError as error:
        raise SonorantError(f"{path}: {section}: {error}") from None


def _closed_model(config: type) -> type[pydantic.BaseModel]:
    hints = typing.get_type_hints(config)
    fields: dict[str, Any] = {
        field.name: (hints[field.name], ... if field.default is dataclasses.MISSING else field.default)
        for field in dataclasses.fields(config)
    }
    return pydantic.create_model(config.__name__, __config__=pydantic.ConfigDict(extra="forbid", strict=True), **fields)


def read(path: Path = PARAMS) -> dict[str, Any]:
    """Return params.yaml as plain data, its section names checked."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SonorantError(f"{path}: no such file; run from the folder that holds params.yaml") from None
    except yaml.YAMLError as error:
        raise SonorantError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise SonorantError(f"{path}: must hold sections: {', '.join(SECTIONS)}")
    for section in data:
        if section not in SECTIONS:
            raise SonorantError(f"{path}: unknown section '{section}'{_did_you_mean(str(section), list(SECTIONS))}")
    return data


def _one_line(section: str, error: pydantic.ValidationError, fields: list[str]) -> str:
    lines = []
    for problem in error.errors():
        key = ".".join([section, *(str(part) for part in problem["loc"])])
        if problem["type"] == "extra_forbidden":
            lines.append(f"unknown key '{key}'{_did_you_mean(key.rsplit('.', 1)[1], fields)}")
        elif problem["type"] == "missing":
            lines.append(f"key '{key}' is missing")
        else:
            lines.append(f"key '{key}': {problem['msg'][0].lower()}{problem['msg'][1:]}, not {problem['input']!r}")
    return "; ".join(lines)


def _did_you_mean(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else f"; allowed: {', '.join(known)}"
