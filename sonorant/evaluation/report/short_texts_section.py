"""Section on skipped, repeated and babbled words."""

from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.evaluation.recordings import RECORDINGS
from sonorant.evaluation.report.document import Document
from sonorant.evaluation.report.players import Presentation
from sonorant.evaluation.report.sentences_section import Sentence
from sonorant.evaluation.samples import SHORT_TEXTS
from sonorant.evaluation.short_texts.texts import CUT_WORDS, HELD_OUT, SENTENCES, SHORT
from sonorant.pages.blocks import Cell, Part, Section, Table

TITLES = {
    SHORT: "all short texts",
    SENTENCES: "plain sentences",
    HELD_OUT: "evaluated sentences",
    CUT_WORDS: "words cut from recordings",
}
FAULTS = ("skipped", "repeated", "babbled", "extra")


def short_texts(metrics: Document, evaluation: Path, presentation: Presentation) -> Section:
    """Show the shipped variant's faults for each kind of text, with players of the worst."""
    found = metrics["short_texts"]
    ours, parts = found[presentation.shipped], list[Part]()
    if ours.not_run:
        parts.append(f"Short texts were not judged: {ours.not_run}.")
    else:
        head = ["kind", "texts", "with a fault, %", *FAULTS, "recordings with a fault, %"]
        rows = [[TITLES.get(kind, kind.replace("_", " ")), *_row(kind, own, found)] for kind, own in ours.items()]
        note = (
            f"Checked by {found['listener'].text()} against the expected words: skipped, repeated, replaced by other "
            "speech (babbled) or followed by it (extra). In brackets: Wilson's 95 % interval. The last column shows "
            "the checker's own errors, on recordings of a person. Below: the texts with the most faults."
        )
        parts += [note, Table(caption="Short texts and sentences", head=head, rows=rows)]
        parts += [presentation.article(sentence) for sentence in _worst(evaluation, presentation.shipped)]
    return Section(anchor="short-texts", title="Short texts and rare faults", parts=parts)


def _row(kind: str, own: Document, found: Document) -> list[Cell]:
    if own.not_run:
        return [own.not_run]
    counts = [own.figure(fault) for fault in FAULTS]
    rate, person = own.estimate("faulty_rate", scale=100), found.estimate(RECORDINGS, kind, "faulty_rate", scale=100)
    return [own.figure("texts"), rate, *counts, person]


def _worst(folder: Path, variant: str) -> list[Sentence]:
    rows = [
        row for row in Document.read_lines(folder / SHORT_TEXTS) if row["by"].text() == variant and row.get("sample")
    ]
    return [_sentence(folder, row, variant) for row in rows]


def _sentence(folder: Path, row: Document, variant: str) -> Sentence:
    sample = folder / row["sample"].text()
    if not sample.exists():
        raise SonorantError(f"{sample}: no such file, but {SHORT_TEXTS} lists it; run the stage evaluate again")
    wrong = sum(len(found.rows()) if name != "extra" else found.number() for name, found in row["faults"].items())
    return Sentence(
        id=row["kind"].text().replace("_", " "),
        reference=row["text"].text(),
        words=int(row["words"].number()),
        heard={variant: row["heard"].text()},
        errors={variant: int(wrong)},
        samples={variant: sample},
    )
