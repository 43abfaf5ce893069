"""Assemble the report: one self-contained HTML file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sonorant.audio.mel import MelConfig
from sonorant.checked import Count
from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import Normalizer
from sonorant.evaluation.recordings import RECORDINGS, VOCODER
from sonorant.evaluation.report.candidates_section import candidates, headline, parity, shipped
from sonorant.evaluation.report.document import Document
from sonorant.evaluation.report.families_section import families
from sonorant.evaluation.report.judgement_section import decoding, distances, intelligibility
from sonorant.evaluation.report.naturalness_section import beside_recordings
from sonorant.evaluation.report.origin_section import corpus, lineage, training
from sonorant.evaluation.report.players import Presentation
from sonorant.evaluation.report.quantization_section import quantization
from sonorant.evaluation.report.sentences_section import read_sentences, worst_first
from sonorant.evaluation.report.short_texts_section import short_texts
from sonorant.evaluation.report.speakers_section import by_speaker
from sonorant.evaluation.report.speed_section import latency, size_and_memory
from sonorant.files import write_text
from sonorant.pages.blocks import Fold, Part, Section, render
from sonorant.plugins import model_kind

OPEN = 3


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    sentences: Count = 6
    """Maximum number of sentences with audio players, starting with the worst."""


@dataclass(frozen=True, kw_only=True)
class ReportInputs:
    metrics: Path
    evaluation: Path
    choice: Path
    parity: Path
    quantization: Path
    summary: Path
    audit: Path
    predictor: Path
    waveform: Path
    quantized: Path
    families: Path
    hashes: Mapping[str, str] = field(default_factory=dict)


def write_report(out: Path, inputs: ReportInputs, config: ReportConfig) -> None:
    """Write the page, deterministically. Raises SonorantError naming file and key if an input is missing or
    malformed."""
    metrics, choice = Document.read(inputs.metrics), Document.read(inputs.choice)
    predictor, waveform = (Document.read(folder / "model.json") for folder in (inputs.predictor, inputs.waveform))
    named = {_name(model): model for model in (predictor, waveform)}
    roles = dict(zip(("predictor", "waveform"), named, strict=True))
    int8 = {f"{name}, int8": Document.read(inputs.quantized / role / "model.json") for role, name in roles.items()}
    quantized, ships = Document.read(inputs.quantization), choice["variant"].text()
    normalized = Normalizer(predictor["frontend"]["language"].text())
    presentation = Presentation(audio=_mel_config(predictor["audio"]), normalized=normalized, shipped=ships)
    sections = [
        _listen(inputs.evaluation, config, presentation),
        intelligibility(metrics, ships),
        *by_speaker(metrics, ships),
        short_texts(metrics, inputs.evaluation, presentation),
        candidates(choice),
        families(inputs.families, metrics["family"].text(), presentation),
        *beside_recordings(metrics, ships),
        distances(metrics),
        *decoding(metrics),
        latency(metrics, shipped(choice)),
        size_and_memory(metrics),
        parity(Document.read(inputs.parity)),
        quantization([(name, quantized[role]) for role, name in roles.items()]),
        training(named),
        corpus(Document.read(inputs.summary), Document.read(inputs.audit)),
        lineage(named | int8, inputs.hashes, metrics),
    ]
    title, first = f"{shipped(choice)} · report of a voice", headline(choice, metrics)
    write_text(out, render("sonorant.evaluation.report", "report.html", title=title, headline=first, sections=sections))


def _listen(evaluation: Path, config: ReportConfig, presentation: Presentation) -> Section:
    sentences = worst_first(read_sentences(evaluation), presentation.shipped)[: config.sentences]
    articles = [presentation.article(sentence, (RECORDINGS, VOCODER, presentation.shipped)) for sentence in sentences]
    note = (
        "The worst sentences first. Below each player: the recognised words with errors marked and, for the voice, the "
        "start of each word in seconds. All spectrograms share one colour scale."
    )
    parts: list[Part] = [note, *articles[:OPEN]]
    if len(articles) > OPEN:
        parts.append(Fold(summary=f"{len(articles) - OPEN} more sentences", parts=articles[OPEN:]))
    return Section(anchor="listen", title="Listen", parts=parts)


def _mel_config(audio: Document) -> MelConfig:
    try:
        return MelConfig(**{key: value.value for key, value in audio.items()})
    except (TypeError, ValueError) as error:
        raise SonorantError(
            f"{audio.file}: key '{audio.key}' is not a mel configuration ({error}); train again"
        ) from None


def _name(model: Document) -> str:
    return model_kind(model["kind"].text()).title
