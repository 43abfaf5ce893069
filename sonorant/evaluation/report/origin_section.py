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
"""Prefix of per-process loss columns."""
SHOWN = 8
"""Maximum processes per chart."""
SHARES = {"splits": "split", "speakers": "speaker", "languages": "language", "sample_rates": "sample rate, Hz"}
AGAIN = "run the stage that trains the model again"


def training(models: Mapping[str, Document]) -> Section:
    """Loss curves of models trained here, names of pretrained ones. `models`: name to model.json."""
    charts, notes = [], []
    for name, model in models.items():
        taken = model.get("pretrained")
        if taken is None:
            charts += _loss(f"Loss of the {name}", model.file.parent / "curves.csv")
            continue
        revision = taken.get("revision")  # local models have no revision
        version = f" ({revision.text().removeprefix('sha256 ')[:12]})" if revision else ""
        notes.append(f"The {name} is {taken['name'].text()}{version}, which others trained: it was taken as it is.")
    return Section(anchor="training", title="Training", parts=[Charts(charts=charts), *notes])


def corpus(summary: Document, audit: Document) -> Section:
    """Corpus size, rejected utterances and transcript audit."""
    rows = [
        [f"{name}: {value}", f"{share['utterances'].number():.0f}", f"{share['hours'].number():.3f}"]
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
    unplaced = summary.get("unplaced")
    if unplaced:
        seconds, words = unplaced["seconds"].number(), unplaced["words"].number()
        note += f" Of the long recordings {seconds:.0f} s of speech and {words:.0f} words of the texts had no place."
    table = Table(caption="Utterances", head=["", "utterances", "hours"], rows=rows)
    sources = [[name, said.text()] for name, said in audit["sources"].items()]
    faults = [[f"likely fault: {fault}", f"{count.number():.0f}"] for fault, count in audit["faults"].items()]
    doubtful, dropped = (f"{audit[key].number():.0f}" for key in ("doubtful", "dropped"))
    rows = [["doubtful utterances", doubtful], *faults, ["dropped for it", dropped]]
    ran = any(said == "ran" for _, said in sources)
    audited = Table(
        caption="Audit: does the sound say the text?", head=["", "utterances"], rows=sources + (rows if ran else [])
    )
    return Section(anchor="corpus", title="Corpus", parts=[note, table, audited])


def lineage(models: Mapping[str, Document], hashes: Mapping[str, str], metrics: Document) -> Section:
    """`models`: name to model.json. `hashes`: project path to DVC hash."""
    environment = metrics["environment"]
    machine = [[name, str(value.value)] for name, value in environment.items() if name != "packages"]
    packages = [[name, version.text()] for name, version in environment["packages"].items()]
    kept = [[path, value] for path, value in hashes.items()]
    head = ["model", "git commit", "data (SHA-256)", "steps", "validation loss"]
    parts: list[Part] = [
        Table(caption="Trainings", head=head, rows=[_trained(*model) for model in models.items()]),
        Table(caption="Measured on", head=["", ""], rows=machine, prose=[""]),
        Fold(summary="versions", parts=[Table(caption="Versions", head=["package", "version"], rows=packages)]),
        Fold(summary="hashes", parts=[Table(caption="Files, by DVC's hash", head=["path", "hash"], rows=kept)])
        if kept
        else "The files' hashes were not recorded: dvc repro did not make this report.",
    ]
    return Section(anchor="lineage", title="Lineage", parts=parts)


def _trained(name: str, description: Document) -> list[Cell]:
    trained = description["provenance"]
    commit = trained.get("git_commit")
    known = commit.text()[:12] if commit else "not recorded"
    steps = f"{trained['steps'].number():.0f}"
    return [name, known, trained["data"].text()[:12], steps, trained.figure("validation_loss", ".4f")]


def _loss(title: str, file: Path) -> list[Chart]:
    """Training and validation loss over steps, and the loss by process. Raises SonorantError naming the file if a
    column is missing."""
    rows = _rows(file)
    curves = [ChartLine(name=name, points=_points(file, rows, column)) for column, name in CURVES.items()]
    if not any(curve.points for curve in curves):
        raise SonorantError(f"{file}: holds no loss; {AGAIN}")
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
    points = []
    for number, row in enumerate(rows, 2):
        if not row[column]:
            continue  # not measured at this step
        try:
            point = float(row["step"]), float(row[column])
        except ValueError:
            raise SonorantError(f"{file}:{number}: '{column}' is not a number: {row[column]!r}; {AGAIN}") from None
        if math.isfinite(point[1]):
            points.append(point)
    return tuple(points)
