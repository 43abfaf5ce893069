"""Evaluated sentences with samples, transcripts and marked errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import jiwer

from sonorant.errors import SonorantError
from sonorant.evaluation.recordings import RECORDINGS
from sonorant.evaluation.report.document import Document, ordered
from sonorant.evaluation.samples import sample_file

FILE = "sentences.jsonl"


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """Sentence with samples of each kind of sound: recording, copy and variants."""

    id: str
    reference: str
    words: int
    heard: dict[str, str]
    """Transcripts of the recording, copy and variants."""
    errors: dict[str, int | None]
    """Word errors per kind of sound; None if no recogniser ran, with the reason in `heard`."""
    samples: dict[str, Path]
    times: dict[str, list[Timed] | str] = field(default_factory=dict)
    """Word times per kind of sound, or why there are none."""

    def error_rate(self, kind: str) -> float:
        """Return the word error rate in percent; 0 if not transcribed."""
        return 100 * (self.errors[kind] or 0) / max(self.words, 1)


class Words(NamedTuple):
    """Adjacent words of a transcript with the same marking."""

    text: str
    tag: str = ""
    """`mark` for wrong and extra words, `del` for missing ones, or empty."""
    why: str = ""


class Timed(NamedTuple):
    text: str
    start: str
    """Start in seconds."""


def read_sentences(folder: Path, names: Mapping[str, str] | None = None) -> list[Sentence]:
    """Read sentences with samples. `names` selects and renames kinds of sound; None means all. Raises SonorantError
    naming file and row or key."""
    sentences = [
        _sentence(folder, row, index, names)
        for index, row in enumerate(Document.read_lines(folder / FILE))
        if sample_file(folder, row["id"].text(), index, RECORDINGS).exists()
    ]
    if not sentences:
        raise SonorantError(f"{folder}: no sentence of {FILE} has a sample; run the stage evaluate again")
    return sentences


def worst_first(sentences: list[Sentence], kind: str) -> list[Sentence]:
    missing = [sentence for sentence in sentences if kind not in sentence.errors]
    if missing:
        raise SonorantError(
            f"sentence '{missing[0].id}': the chosen variant '{kind}' was not judged; run evaluate and choose again"
        )
    return sorted(sentences, key=lambda sentence: (-sentence.error_rate(kind), sentence.id))


def marked(reference: str, transcript: str) -> list[Words]:
    """Align a normalised transcript with its reference and mark wrong, extra and missing words."""
    if not reference:
        return [Words(transcript, "mark")] if transcript else []
    output = jiwer.process_words(reference, transcript)
    said, heard = output.references[0], output.hypotheses[0]
    parts = []
    for chunk in output.alignments[0]:
        wanted = " ".join(said[chunk.ref_start_idx : chunk.ref_end_idx])
        words = " ".join(heard[chunk.hyp_start_idx : chunk.hyp_end_idx])
        if chunk.type == "equal":
            parts.append(Words(words))
        elif chunk.type == "delete":
            parts.append(Words(wanted, "del", "missing"))
        else:
            why = "extra" if chunk.type == "insert" else f"instead of: {wanted}"
            parts.append(Words(words, "mark", why))
    return parts


def _sentence(folder: Path, row: Document, index: int, names: Mapping[str, str] | None) -> Sentence:
    kinds = {kind: kind for kind in ordered(kind for kind, _ in row["transcripts"].items())}
    kinds = kinds if names is None else {kind: names[kind] for kind in kinds if kind in names}
    samples = {name: sample_file(folder, row["id"].text(), index, kind) for kind, name in kinds.items()}
    for file in samples.values():
        if not file.exists():
            raise SonorantError(f"{file}: no such file, but {FILE} lists it; run the stage evaluate again")
    return Sentence(
        id=row["id"].text(),
        reference=row["reference"].text(),
        words=int(row["words"].number()),
        heard={name: row["transcripts"][kind].text() for kind, name in kinds.items()},
        errors={name: _errors(row["word_errors"][kind]) for kind, name in kinds.items()},
        samples=samples,
        times={kinds[kind]: _times(told) for kind, told in row["timings"].items() if kind in kinds},
    )


def _times(told: Document) -> list[Timed] | str:
    if told.not_run:
        return told.not_run
    words = [word.rows() for word in told.rows()]
    return [Timed(text.text(), f"{start.number():.2f}") for text, start, _ in words]


def _errors(wrong: Document) -> int | None:
    return None if wrong.not_run else int(wrong.number())
