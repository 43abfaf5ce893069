"""Read files that an earlier Sonorant wrote: rename their old keys and log one line.

Settings, voice bundles of schema version 3, trained models and checkpoints from before 2026-11 call codebooks `streams`
and a receptive field `context`. Every function here returns current data unchanged.
"""

import logging
from pathlib import Path
from typing import Any

CODEBOOKS = {"streams": "codebooks", "stream_dropout": "codebook_dropout"}
"""The codec's settings, old name to new."""
SETTINGS: dict[str, dict[str, str]] = {"codec": CODEBOOKS}
"""Renamed keys by section of params.yaml."""

_log = logging.getLogger(__name__)


def current_settings(section: str, values: dict[str, Any], path: Path | str) -> dict[str, Any]:
    """One section of params.yaml under its current names; logs each key that should be renamed in the file."""
    names = SETTINGS.get(section, {})
    for old in names.keys() & values.keys():
        _log.warning("%s: key '%s.%s' is called '%s' now; rename it", path, section, old, names[old])
    return _renamed(values, names)


def current_model(description: dict[str, Any], source: Path | str) -> dict[str, Any]:
    """The content of a `model.json`, or of a checkpoint's description, under its current names."""
    parts = {key: _renamed(description[key], CODEBOOKS) for key in ("config", "codec") if key in description}
    if all(parts[key] == description[key] for key in parts):
        return description
    _log.warning("%s: written by an earlier Sonorant, which called codebooks streams; read as it is", source)
    return description | parts


def current_voice(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """The content of a `voice.json` of schema version 3 as one of version 4; any other version comes back unchanged."""
    if data.get("schema_version") != 3:
        return data
    _log.warning("%s: schema version 3, read as 4 (codebooks were streams, receptive_field was context)", path)
    renewed = _renamed(data, {"context": "receptive_field"}) | {"schema_version": 4}
    if isinstance(renewed.get("decoding"), dict):
        renewed["decoding"] = _renamed(renewed["decoding"], CODEBOOKS)
    return renewed


def _renamed(data: Any, names: dict[str, str]) -> Any:
    return {names.get(key, key): value for key, value in data.items()} if isinstance(data, dict) else data
