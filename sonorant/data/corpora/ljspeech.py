"""Corpora in the layout of LJSpeech: metadata.csv and wavs/. Knows nothing of what makes a recording good.

The layout is that of https://keithito.com/LJ-Speech-Dataset: a line is `id|text|text with numbers and abbreviations written out`,
without quoting; the recording is wavs/<id>.wav (here also .flac, .ogg, .mp3).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tqdm import tqdm

from sonorant.data.corpora import CorpusConfig
from sonorant.data.corpora.rows import Row, import_row, read_lines
from sonorant.data.manifest import Defect, file_exists, path_inside, write_manifest
from sonorant.errors import SonorantError

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")


def import_corpus(source: Path, out: Path, config: CorpusConfig) -> None:
    """Fill `out` from an LJSpeech-like folder. The text is the written-out column, or the plain one where that is empty.

    Files with two columns (id|text) are taken too. Raises SonorantError if there is no metadata.csv or it has no rows.
    """
    metadata = source / "metadata.csv"
    if not metadata.is_file():
        raise SonorantError(
            f"{source}: holds no metadata.csv; kind ljspeech needs metadata.csv (id|text|normalised text) and wavs/"
        )
    lines = [line.split("|") for line in read_lines(metadata) if line.strip()]
    if not lines:
        raise SonorantError(f"{metadata}: empty; expected lines of id|text|normalised text")
    columns = _columns(lines)
    rows = (_row(line, columns, source) for line in lines)
    progress = tqdm(rows, total=len(lines), desc="importing", unit="utterance")
    write_manifest(out / "manifest.jsonl", [import_row(row, source, out, config) for row in progress])


def _columns(lines: list[list[str]]) -> int:
    """3, or 2 in a file most of whose rows have two: then it was never written out, and a row of three is the odd one."""
    counts = Counter(len(line) for line in lines)
    return 2 if counts[2] > counts[3] else 3


def _row(line: list[str], columns: int, source: Path) -> Row:
    if len(line) != columns:
        return Row(id=line[0], audio=f"wavs/{line[0]}.wav", text=" ".join(line[1:]), defect=Defect.WRONG_COLUMNS)
    return Row(id=line[0], audio=_recording(source, line[0]), text=line[-1] if line[-1].strip() else line[1])


def _recording(source: Path, id: str) -> str:
    """Path of the recording in the first format that exists, as .wav where none does: that is the file the report then misses."""
    files = [f"wavs/{id}{suffix}" for suffix in SUFFIXES]
    return next((file for file in files if (inside := path_inside(source, file)) and file_exists(source / inside)), files[0])
