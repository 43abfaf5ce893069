"""Sections on training curves, corpus and lineage."""

import csv
import math
from collections.abc import Mapping
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.evaluation.report.document import Document
from sonorant.pages.blocks import Cell, Fold, Part, Section, Table
from sonorant.pages.charts import Chart, ChartLine, Charts, lines

CURVES = {"train/loss": "training", "validation/loss": "validation"}
PROCESSES = "train/loss_by_rank/rank"
"""Prefix of columns with the loss of each process."""
SHOWN = 8
SHARES = {"splits": "split", "speakers": "speaker", "languages": "language", "sample_rates": "sample rate, Hz"}
AGAIN = "run the stage that trains the model again"


def training(models: Mapping[str, Document]) -> Section:
    """Show loss curves of trained models and names of pretrained ones. `models` maps names to model.json."""
    charts, notes = [], []
    for name, model in models.items():
        taken = model.get("pretrained")
        if taken is None:
            charts += _loss(f"Loss of the {name}", model.file.parent / "curves.csv")
            continue
        revision = taken.get("revision")  # local models have no revision
        version = f" ({revision.text().removeprefix('sha256 ')[:12]})" if revision else ""
        notes.append(f"The {name} is the pretrained {taken['name'].text()}{version}, used unchanged.")
    return Section(anchor="training", title="Training", parts=[Charts(charts=charts), *notes])


def corpus(summary: Document, audit: Document) -> Section:
    shares: list[list[Cell]] = [
        [f"{name}: {value}", share.figure("utterances"), share.figure("hours", form=".3f")]
        for key, name in SHARES.items()
        for value, share in summary[key].items()
    ]
    shortest, longest, median = (summary["seconds"][key].number() for key in ("min", "max", "median"))
    rejected = summary["rejected"]
    reasons = ", ".join(f"{reason} {count.number():.0f}" for reason, count in rejected["reasons"].items())
    note = (
        f"{summary['utterances'].number():.0f} utterances, {summary['hours'].number():.2f} hours, {shortest:.1f} to "
        f"{longest:.1f} s long, median {median:.1f} s. Rejected: {rejected['utterances'].number():.0f}"
        f"{f' ({reasons})' if reasons else ''}."
    )
    if unplaced := summary.get("unplaced"):
        seconds, words = unplaced["seconds"].number(), unplaced["words"].number()
        note += f" Long recordings: {seconds:.0f} s of speech and {words:.0f} words of text could not be matched."
    sources: list[list[Cell]] = [[name, said.text()] for name, said in audit["sources"].items()]
    found: list[list[Cell]] = [["doubtful utterances", audit.figure("doubtful")]]
    found += [[f"likely fault: {fault}", f"{count.number():.0f}"] for fault, count in audit["faults"].items()]
    found += [["dropped as doubtful", audit.figure("dropped")]]
    ran = any(said == "ran" for _, said in sources)
    parts: list[Part] = [
        note,
        Table(caption="Utterances", head=["", "utterances", "hours"], rows=shares),
        Table(
            caption="Audit: does the sound match the text?",
            head=["", "utterances"],
            rows=sources + (found if ran else []),
        ),
    ]
    return Section(anchor="corpus", title="Corpus", parts=parts)


def lineage(models: Mapping[str, Document], hashes: Mapping[str, str], metrics: Document) -> Section:
    """Show the origin of models. `models` maps names to model.json, `hashes` paths to DVC hashes."""
    environment = metrics["environment"]
    machine = [[name, str(value.value)] for name, value in environment.items() if name != "packages"]
    packages = [[name, version.text()] for name, version in environment["packages"].items()]
    head = ["model", "git commit", "data (SHA-256)", "steps", "validation loss"]
    parts: list[Part] = [
        Table(caption="Trainings", head=head, rows=[_trained(*model) for model in models.items()]),
        Table(caption="Measured on", head=["", ""], rows=machine, prose=[""]),
        Fold(summary="versions", parts=[Table(caption="Versions", head=["package", "version"], rows=packages)]),
    ]
    if hashes:
        kept = Table(caption="Files, by DVC's hash", head=["path", "hash"], rows=[list(row) for row in hashes.items()])
        parts.append(Fold(summary="hashes", parts=[kept]))
    else:
        parts.append("No file hashes: this report was not made by dvc repro.")
    return Section(anchor="lineage", title="Lineage", parts=parts)


def _trained(name: str, description: Document) -> list[Cell]:
    trained = description["provenance"]
    commit = trained.get("git_commit")
    known = commit.text()[:12] if commit else "not recorded"
    loss = trained.figure("validation_loss", form=".4f")
    return [name, known, trained["data"].text()[:12], trained.figure("steps"), loss]


def _loss(title: str, file: Path) -> list[Chart]:
    rows = _rows(file)
    curves = [ChartLine(name=name, points=_points(file, rows, column)) for column, name in CURVES.items()]
    if not any(curve.points for curve in curves):
        raise SonorantError(f"{file} contains no loss; {AGAIN}")
    charts = [lines(title, "step", [curve for curve in curves if curve.points])]
    numbers = sorted(int(column.removeprefix(PROCESSES)) for column in rows[0] if column.startswith(PROCESSES))
    own = [ChartLine(name=f"{n}", points=_points(file, rows, f"{PROCESSES}{n}")) for n in numbers[:SHOWN]]
    if drawn := [curve for curve in own if curve.points]:
        which = "by process" if len(numbers) <= SHOWN else f"by process, the first {SHOWN} of {len(numbers)}"
        charts.append(lines(f"{title}, {which}", "step", drawn))
    return charts


def _rows(file: Path) -> list[dict[str, str]]:
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except FileNotFoundError:
        raise SonorantError(f"{file}: no such file; {AGAIN}") from None
    missing = [column for column in ("step", *CURVES) if not rows or column not in rows[0]]
    if missing:
        raise SonorantError(f"{file}: column '{missing[0]}' is missing; {AGAIN}")
    return rows


def _points(file: Path, rows: list[dict[str, str]], column: str) -> tuple[tuple[float, float], ...]:
    try:
        points = [(float(row["step"]), float(row[column])) for row in rows if row[column]]
    except ValueError as error:
        raise SonorantError(f"{file}: column '{column}': {error}; {AGAIN}") from None
    return tuple(point for point in points if math.isfinite(point[1]))
