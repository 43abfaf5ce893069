"""Section on skipped, repeated and babbled words."""

from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.evaluation.report.document import RECORDINGS, Document
from sonorant.evaluation.report.players import Presentation
from sonorant.evaluation.report.sentences_section import Sentence
from sonorant.evaluation.short_texts.short_samples import FILE
from sonorant.evaluation.short_texts.texts import CUT_WORDS, HELD_OUT, SENTENCES, SHORT
from sonorant.pages.blocks import Cell, Part, Section, Table

TITLES = {
    SHORT: "all short texts",
    SENTENCES: "plain sentences",
    HELD_OUT: "judged sentences",
    CUT_WORDS: "words cut out of recordings",
}
FAULTS = ("skipped", "repeated", "babbled", "extra")


def short_texts(metrics: Document, evaluation: Path, presentation: Presentation) -> list[Section]:
    """Faults of the shipped variant by kind, with players of the worst. `evaluation`: folder of samples."""
    found = metrics.get("short_texts")
    if found is None:
        return []
    ours, parts = found[presentation.shipped], list[Part]()
    if ours.not_run:
        parts.append(f"Short texts were not judged: {ours.not_run}.")
    else:
        theirs = found[RECORDINGS]
        head = ["kind", "texts", "with a fault, %", *FAULTS, "recordings with a fault, %"]
        rows = [_row(kind, own, theirs.get(kind)) for kind, own in ours.items()]
        parts += [_how(found["listener"].text()), Table(caption="Short texts and sentences", head=head, rows=rows)]
        parts += [presentation.article(sentence) for sentence in _worst(evaluation, presentation.shipped)]
    return [Section(anchor="short-texts", title="Short texts and rare faults", parts=parts)]


def _how(listener: str) -> str:
    return (
        f"Heard by {listener}, which knows what is to be said and tells which words are skipped, said again, replaced "
        "by other speech (babbled) or followed by some (extra). In brackets: Wilson's 95 % interval. It errs too: the "
        "last column is its figure for the person. Below: the texts with the most faults."
    )


def _row(kind: str, own: Document, theirs: Document | None) -> list[Cell]:
    name = TITLES.get(kind, kind.replace("_", " "))
    if own.not_run:
        return [name, own.not_run]
    person = None if theirs is None else theirs.not_run or theirs.estimate("faulty_rate", scale=100)
    counts = [own.figure(fault, ".0f") for fault in FAULTS]
    return [name, own.figure("texts", ".0f"), own.estimate("faulty_rate", scale=100), *counts, person]


def _worst(folder: Path, variant: str) -> list[Sentence]:
    rows = [row for row in Document.read_lines(folder / FILE) if row["by"].text() == variant and row.get("sample")]
    return [_sentence(folder, row, variant) for row in rows]


def _sentence(folder: Path, row: Document, variant: str) -> Sentence:
    sample = folder / row["sample"].text()
    if not sample.exists():
        raise SonorantError(f"{sample}: no such file, though {FILE} names it; run the stage evaluate again")
    wrong = sum(len(found.rows()) if name != "extra" else found.number() for name, found in row["faults"].items())
    return Sentence(
        id=row["kind"].text().replace("_", " "),
        reference=row["text"].text(),
        words=int(row["words"].number()),
        heard={variant: row["heard"].text()},
        errors={variant: int(wrong)},
        samples={variant: sample},
    )
