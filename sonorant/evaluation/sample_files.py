"""What the file of a sentence's sound is called. Knows nothing of sound: the evaluation writes the files, the report
reads them."""

from __future__ import annotations

from pathlib import Path

SAMPLE_OF = {"recordings": "recording"}
"""How a file names a kind, where that differs from the reports' name."""


def sample_file(folder: Path, sentence: str, index: int, kind: str) -> Path:
    """`samples/<id>.<recording | vocoder | variant>.wav` below an evaluation's `folder`, for its sentence number
    `index` (from 0)."""
    # An id may hold slashes; its file must not leave the folder. The number keeps two ids apart that differ in such
    # characters only.
    plain = "".join(character if character.isalnum() or character in "-_" else "_" for character in sentence)
    stem = plain if plain == sentence else f"{plain}-{index}"
    return folder / "samples" / f"{stem}.{SAMPLE_OF.get(kind, kind)}.wav"
