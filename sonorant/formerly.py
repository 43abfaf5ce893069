"""Read files that an earlier Sonorant wrote: rename their old keys and log one line.

Settings, voice bundles of schema version 3, trained models and checkpoints from before 2026-11 call codebooks `streams`
and a receptive field `context`. Every function that reads returns current data unchanged.

Feature stores of before version 4 are not read, but their hash names trainings: it is told of a store of today.
"""

import hashlib
import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CODEBOOKS = {"streams": "codebooks", "stream_dropout": "codebook_dropout"}
"""The codec's settings, old name to new."""
SETTINGS: dict[str, dict[str, str]] = {"codec": CODEBOOKS, "evaluate": {"hear_slower": "hear"}}
"""Renamed keys by section of params.yaml."""
VALUES: dict[str, dict[bool, str]] = {"hear_slower": {True: "all", False: "shippable"}}
"""What the values of an old key are called now, where they have other names too."""

_log = logging.getLogger(__name__)


def current_settings(section: str, values: dict[str, Any], path: Path | str) -> dict[str, Any]:
    """One section of params.yaml under its current names; logs each key that should be renamed in the file."""
    names = SETTINGS.get(section, {})
    for old in names.keys() & values.keys():
        new = values[old]
        if old in VALUES and isinstance(new, bool):
            new = VALUES[old][new]
        _log.warning("%s: key '%s.%s' is '%s: %s' now; rename it", path, section, old, names[old], new)
        values = {**values, old: new}
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


def store_hash_of_version_2(header: dict[str, Any], rows: Iterable[dict[str, Any]]) -> str:
    """The hash that a feature store had when its index was JSON, by which run directories of before are found.

    Args:
        header: of the store.
        rows: id, split, speaker, first_frame, frames, first_token and tokens of each utterance.
    """
    kept = ("audio", "frontend", "symbols", "speakers", "mel_mean", "mel_std", "content")
    described = _json({"version": 2, **{key: header[key] for key in kept}}) + "\n"
    index, before = hashlib.sha256(b"["), "\n"
    for row in rows:
        order = {"id": row["id"], "split": header["splits"][row["split"]], "speaker": row["speaker"]}
        order["language"] = header["frontend"]["language"]
        order |= {key: row[key] for key in ("first_frame", "frames", "first_token", "tokens")}
        index.update(f"{before}{_json([order])[2:-2]}".encode())
        before = ",\n"
    index.update(b"\n]\n")
    names = {"header.json": hashlib.sha256(described.encode()).hexdigest(), "index.json": index.hexdigest()}
    return hashlib.sha256("".join(f"{name}\0{digest}\n" for name, digest in names.items()).encode()).hexdigest()


def store_hash_of_version_3(header: dict[str, Any], index: str) -> str:
    """The same of a store of one file an array; `index`: hash of its columns as they were then."""
    kept = ("audio", "frontend", "symbols", "speakers", "splits", "mel_mean", "mel_std", "content")
    described = _json({"version": 3, **{key: header[key] for key in kept}, "index": index}) + "\n"
    return hashlib.sha256(f"header.json\0{hashlib.sha256(described.encode()).hexdigest()}\n".encode()).hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _renamed(data: Any, names: dict[str, str]) -> Any:
    return {names.get(key, key): value for key, value in data.items()} if isinstance(data, dict) else data
