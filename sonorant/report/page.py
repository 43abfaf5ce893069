"""The report: one HTML file that needs nothing beside it. Puts the sections together; knows nothing of how a figure was
made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sonorant.audio.mel import MelConfig
from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import Normalizer
from sonorant.files import write_text
from sonorant.report.corpus import corpus
from sonorant.report.curves import loss_chart
from sonorant.report.decoding import decoding
from sonorant.report.document import Document
from sonorant.report.families import families
from sonorant.report.judgement import distances, evaluator, intelligibility
from sonorant.report.kinds import MODELS
from sonorant.report.ladder import ladder
from sonorant.report.lineage import lineage
from sonorant.report.markup import Html, element, join, note, section
from sonorant.report.players import listening
from sonorant.report.quantization import quantization
from sonorant.report.sentences import read_sentences, worst_first
from sonorant.report.speed import latency, size_and_memory
from sonorant.report.style import STYLE
from sonorant.report.verdict import candidates, headline, shipped

POLICY = (
    "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
"""The browser itself sees to it that the page asks for nothing: no script, no address but what the file holds."""
PARTS = {
    "choice": "Choice", "listen": "Listen", "families": "Families", "intelligibility": "Understood", "distances": "Distances",
    "decoding": "Decoding", "latency": "Latency", "size": "Size", "ladder": "Ladder", "quantization": "Quantisation",
    "training": "Training", "corpus": "Corpus", "lineage": "Lineage",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """How long the page is: section `report` of the settings."""

    sentences: int
    """Sentences to listen to at most, the worst first."""

    def __post_init__(self) -> None:
        if self.sentences < 1:
            raise ValueError(f"sentences must be at least 1, not {self.sentences}")


@dataclass(frozen=True, kw_only=True)
class ReportInputs:
    """Where what the page shows lies."""

    metrics: Path
    """What the stage evaluate measured."""
    evaluation: Path
    """Folder of its sentences and samples."""
    choice: Path
    """What the stage choose decided."""
    parity: Path
    """What the stage verify found."""
    quantization: Path
    """What the stage quantize found."""
    summary: Path
    """The corpus in figures."""
    acoustic: Path
    """Trained folder of the model that speaks."""
    vocoder: Path
    """Trained folder of the vocoder or codec."""
    quantized: Path
    """Folder of both models in int8."""
    families: Path
    """Folder with a folder for each family that was judged, as the stage evaluate writes it."""
    hashes: Mapping[str, str] = field(default_factory=dict)
    """DVC's hashes of the project's files, by path."""


def write_report(out: Path, inputs: ReportInputs, config: ReportConfig) -> None:
    """Write the page. The same inputs give the same bytes.

    Raises SonorantError naming file and key where an input is missing or is not what its stage writes.
    """
    metrics, choice = Document.read(inputs.metrics), Document.read(inputs.choice)
    speech, sound = (Document.read(folder / "model.json") for folder in (inputs.acoustic, inputs.vocoder))
    named = {MODELS[model["kind"].text()]: model for model in (speech, sound)}
    models = named | {
        f"{name}, int8": Document.read(inputs.quantized / folder / "model.json")
        for name, folder in zip(named, ("predictor", "waveform"), strict=True)
    }
    ships = choice["variant"].text()
    audio, normalized = _mel_config(speech["audio"]), Normalizer(speech["frontend"]["language"].text())
    parts = [
        headline(choice, metrics),
        _contents(metrics),
        candidates(choice),
        _listen(inputs, config, audio, normalized, ships),
        families(inputs.families, metrics["family"].text(), audio, normalized),
        intelligibility(metrics, ships),
        evaluator(metrics),
        distances(metrics),
        *decoding(metrics),
        latency(metrics, shipped(choice)),
        size_and_memory(metrics),
        ladder(Document.read(inputs.parity)),
        quantization(Document.read(inputs.quantization), list(named)),
        _training(inputs, named),
        corpus(Document.read(inputs.summary)),
        lineage(models, inputs.hashes, metrics),
    ]
    write_text(out, _document(f"{shipped(choice)} · report of a voice", parts))


def _listen(inputs: ReportInputs, config: ReportConfig, audio: MelConfig, normalized: Normalizer, ships: str) -> Html:
    sentences = worst_first(read_sentences(inputs.evaluation), ships)[: config.sentences]
    articles = listening(sentences, audio, normalized, ships)
    marks = join(
        [
            "Under each player, what the recogniser heard: ",
            element("mark", "wrong"),
            ", ",
            element("del", "missing"),
            ". ",
        ]
    )
    order = "The sentences that what ships was understood worst in come first. "
    words = note(order, marks, "All spectrograms have one scale of colour, those of a sentence one of time.")
    return section("listen", "Listen", words, *articles)


def _mel_config(audio: Document) -> MelConfig:
    try:
        return MelConfig(**{key: value.value for key, value in audio.items()})
    except (TypeError, ValueError) as error:
        raise SonorantError(f"{audio.file}: key '{audio.key}' is no mel configuration ({error}); train again") from None


def _training(inputs: ReportInputs, models: Mapping[str, Document]) -> Html:
    """Curves of what was trained, and what was taken from others as it is."""
    folders = dict(zip(models, (inputs.acoustic, inputs.vocoder), strict=True))
    taken = {name: about for name, model in models.items() if (about := model.get("pretrained"))}
    charts = [loss_chart(f"Loss of the {name}", folders[name] / "curves.csv") for name in models if name not in taken]
    notes = [
        note(f"The {name} is {_name_of(about)}, which others trained: it was taken as it is.")
        for name, about in taken.items()
    ]
    return section("training", "Training", element("div", *charts, class_="charts"), *notes)


def _name_of(pretrained: Document) -> str:
    revision = pretrained.get("revision")  # none of a hub's copy that was kept without one
    return pretrained["name"].text() + (f" ({revision.text().removeprefix('sha256 ')[:12]})" if revision else "")


def _contents(metrics: Document) -> Html:
    parts = {anchor: title for anchor, title in PARTS.items() if anchor != "decoding" or metrics.get("decoding")}
    links = [element("li", element("a", title, href=f"#{anchor}")) for anchor, title in parts.items()]
    return element("nav", element("ul", *links), aria_label="Contents")


def _document(title: str, parts: list[Html]) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Html(STYLE)),
    )
    return f'<!doctype html>\n<html lang="en">{head}<body>{element("main", *parts)}</body></html>\n'
