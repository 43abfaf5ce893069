"""Write checked texts and samples of the worst."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonorant.audio.wav import write_wav
from sonorant.evaluation.recordings import RECORDINGS
from sonorant.files import write_jsonl

if TYPE_CHECKING:  # Import for types only: the report uses the names.
    from sonorant.evaluation.short_texts.judgement import Judged

FILE = "short_texts.jsonl"
WORST = 6
"""Samples per variant."""


def write_short_texts(folder: Path, judged: Sequence[Judged]) -> None:
    """Write `short_texts.jsonl` to an evaluation's folder: `by`, `kind`, `text`, `words`, `heard`, `faults` by type
    and, for the worst of each variant, `sample` (WAV file)."""
    write_jsonl(folder / FILE, (_row(each, name) for each, name in _named(folder, judged)))


def worst_first(judged: Sequence[Judged]) -> list[Judged]:
    """Texts with faults, most faults per word first."""
    faulty = [each for each in judged if each.faults]
    return sorted(faulty, key=lambda each: (-each.faults.count / len(each.words), each.kind, each.text))


def _named(folder: Path, judged: Sequence[Judged]) -> Iterator[tuple[Judged, str | None]]:
    """Write samples; yield each text with its file name, or None."""
    names = {}
    for by in sorted({each.by for each in judged} - {RECORDINGS}):
        for number, each in enumerate(worst_first([each for each in judged if each.by == by])[:WORST], 1):
            names[id(each)] = f"short_texts/{number}.{by}.wav"
            write_wav(folder / names[id(each)], each.sound.samples, each.sound.rate)
    for each in judged:
        yield each, names.get(id(each))


def _row(each: Judged, sample: str | None) -> dict[str, Any]:
    row = {key: getattr(each, key) for key in ("by", "kind", "text", "heard")}
    return row | {"words": len(each.words), "faults": dataclasses.asdict(each.faults), "sample": sample}
