"""Files that are either whole or absent: written under a temporary name, flushed, renamed. Knows nothing of what they
hold."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError


def flush_to_disk(path: Path) -> None:
    """fsync a file or a folder; a renamed file survives a power cut only if its folder was flushed too."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success flush and rename it to `path`, on error remove it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        flush_to_disk(temporary)
        temporary.replace(path)
        flush_to_disk(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder beside `path`; on success it takes the place of `path`, on error it is
    removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                flush_to_disk(file)
        if path.exists():
            shutil.rmtree(path)
        temporary.replace(path)
        flush_to_disk(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON atomically; NaN and infinity are refused because JSON has none."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Parse a JSON file. Raises SonorantError naming the file if it is absent or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SonorantError(f"{path}: no such file; run the stage that writes it (dvc repro)") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise SonorantError(f"{path}: not valid JSON ({error}); delete it and run its stage again") from None


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object a line, atomically."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows))


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Parse one JSON object a line. Raises SonorantError naming file and line."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise SonorantError(f"{path}: no such file; run the stage that writes it (dvc repro)") from None
    except UnicodeDecodeError as error:
        raise SonorantError(f"{path}: not UTF-8 (byte {error.start}); save it as UTF-8") from None
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise SonorantError(f"{path}:{number}: not valid JSON ({error})") from None
    return rows


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_tree(paths: Iterable[Path]) -> str:
    """Hex SHA-256 over the relative names and bytes of all files below `paths` (caches of Python left out)."""
    digest = hashlib.sha256()
    for root in sorted(paths):
        files = (
            [root]
            if root.is_file()
            else sorted(p for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
        )
        for file in files:
            digest.update(f"{file.relative_to(root.parent)}\0{sha256_file(file)}\n".encode())
    return digest.hexdigest()
