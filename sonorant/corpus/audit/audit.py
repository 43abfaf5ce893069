"""Stage `audit`: score the probability that the audio of an utterance does not match its text.

An aligner trained on the corpus and speech recognisers compute measurements; a classifier trained on planted faults,
the judge, converts them to a score.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.recognizers import RECOGNIZERS
from sonorant.checked import Count, Share
from sonorant.corpus.audit.alignment import clip_key, examine_clips, train_aligners
from sonorant.corpus.audit.fault_score import Exhibit, judge
from sonorant.corpus.audit.findings import Audited, AuditedWord, Fault, Span, write_audit
from sonorant.corpus.audit.hearing import compare_words, hear
from sonorant.corpus.audit.labels import Labels, Said
from sonorant.corpus.audit.planted import plant
from sonorant.corpus.audit.readings import Question, question_of, with_reading
from sonorant.corpus.manifest import Utterance, read_manifest, write_manifest
from sonorant.corpus.splits import words_of
from sonorant.errors import SonorantError
from sonorant.files import atomic_folder, write_json, write_jsonl, write_text
from sonorant.pages.blocks import Section, Table, render
from sonorant.pages.charts import Charts, columns

ALIGNER = "aligner"
LEAST_SECONDS, LEAST_CLIPS = 600, 100
"""Minimum seconds and clips for training an aligner and a judge."""
_GAIN = 10.0  # minimum gain in nats of a stretch reported as speech without text


@dataclass(frozen=True, kw_only=True)
class AuditConfig:
    """Section `audit` of params.yaml."""

    sources: tuple[str, ...] = ("aligner",)
    """`aligner`, and recognisers from section `recognizer`; an empty list disables the audit."""
    steps: Count = 2500
    """Number of training steps of an aligner."""
    doubt: Share = 0.9
    """Minimum score, from 0 to 1, of a doubtful utterance."""
    drop_above: Share | None = None
    """Score above which an utterance is dropped without review; None disables dropping."""

    def __post_init__(self) -> None:
        for source in self.sources:
            if source != ALIGNER and source.partition(":")[0] not in RECOGNIZERS:
                known = ", ".join((ALIGNER, *RECOGNIZERS))
                raise ValueError(f"sources: unknown source '{source}'; use {known} (with :<model> if required)")


def audit(
    corpus: Path,
    prepared: Path,
    out: Path,
    config: AuditConfig,
    frontend: str,
    *,
    cache: Path,
    skip: str | None = None,
    lexicon: str | None = None,
) -> None:
    """Audit the utterances in the folder `prepared`, whose audio is in `corpus`, and write the results to `out`.

    `cache` is the folder of cached results, `skip` a reason to skip the audit, and `lexicon` the user's pronunciation
    file. Raises SonorantError if all utterances would be dropped.
    """
    utterances = read_manifest(prepared / "manifest.jsonl")
    ran = dict.fromkeys(config.sources, "ran")
    texts: list[tuple[Said, ...]] = [()] * len(utterances)
    questions: list[Question | None] = [None] * len(utterances)
    found: list[dict[str, Any]] = []
    heard: dict[str, list[str]] = {}
    if reason := skip or why_not(utterances):
        ran = dict.fromkeys(config.sources, f"not run: {reason}")
    elif config.sources:
        labels = Labels(utterances, frontend, lexicon)
        texts = [labels.of_text(u.text, u.spoken or "", u.language) for u in utterances]
        questions = [question_of(u, text, labels) for u, text in zip(utterances, texts, strict=True)]
        if ALIGNER in config.sources:
            blank_and_phones = 1 + len(labels.symbols)
            aligners = train_aligners(corpus, utterances, texts, blank_and_phones, config.steps, cache)
            readings = [question.others if question else () for question in questions]
            found = examine_clips(corpus, utterances, texts, readings, aligners, cache)
        for source in dict.fromkeys(config.sources):
            if source == ALIGNER:
                continue
            understood = hear(corpus, utterances, [clip_key(u) for u in utterances], source, cache)
            if isinstance(understood, str):
                ran[source] = understood
            else:
                heard[source] = understood
    scores, faults = _judge(texts, found, heard)
    audited = _audited(utterances, texts, found, heard, scores, faults, config)
    for place, question in enumerate(questions):
        if question is not None:
            answer = found[place]["reading"] if found else None
            audited[place] = with_reading(audited[place], question, answer, config.doubt)
    _write(out, utterances, audited, ran, config)


def why_not(utterances: Sequence[Utterance]) -> str | None:
    """Return why a corpus is too small to train an aligner, or None if it is large enough."""
    seconds = sum(utterance.seconds or 0.0 for utterance in utterances)
    if len(utterances) >= LEAST_CLIPS and seconds >= LEAST_SECONDS:
        return None
    least = f"at least {LEAST_CLIPS} utterances and {LEAST_SECONDS / 60:.0f} minutes are required"
    return f"{len(utterances)} utterances and {seconds / 60:.1f} minutes are too few for training; {least}"


def _judge(
    texts: list[tuple[Said, ...]], found: list[dict[str, Any]], heard: dict[str, list[str]]
) -> tuple[list[float], list[Fault | None]]:
    if not found and not heard:
        return [0.0] * len(texts), [None] * len(texts)
    understood = {name: [words_of(text) for text in said] for name, said in heard.items()}

    def exhibit(place: int, fault: Fault | None, words: Sequence[str], own: dict[str, float]) -> Exhibit:
        figures = dict(own)
        for name, said in understood.items():
            figures |= {f"{name}: {key}": value for key, value in compare_words(words, said[place]).items()}
        return Exhibit(clip=place, fault=fault, figures=figures)

    exhibits = [
        exhibit(place, None, [word for word, _ in text], found[place]["figures"] if found else {})
        for place, text in enumerate(texts)
    ]
    for place, row in enumerate(found):
        exhibits += [exhibit(place, Fault(fault), words, own) for fault, words, own in row["planted"]]
    if not found:  # recognisers detect wrong texts, but not cut sound
        pool = sorted({word for text in texts for word in text})
        for place, text in enumerate(texts):
            for planted in plant(text, (0.0, 0.0), texts[place - 1], pool, str(place)):
                if not planted.start and not planted.end:
                    exhibits.append(exhibit(place, planted.fault, [word for word, _ in planted.words], {}))
    scores, faults = judge(exhibits, len(texts))
    return scores.tolist(), list(faults)


def _audited(
    utterances: Sequence[Utterance],
    texts: list[tuple[Said, ...]],
    found: list[dict[str, Any]],
    heard: dict[str, list[str]],
    scores: list[float],
    faults: list[Fault | None],
    config: AuditConfig,
) -> list[Audited]:
    lacking = [word[2] for row in found for word in row["words"]]
    usual, most = np.percentile(lacking, [90, 99]) if lacking else (0.0, 1.0)
    rows = []
    for place, utterance in enumerate(utterances):
        row = found[place] if found else {"words": [], "gaps": [], "figures": {}}
        figures = {key: round(value, 3) for key, value in row["figures"].items()}
        if utterance.confidence is not None:  # of the recogniser that transcribed the text
            figures["confidence in the text"] = round(utterance.confidence, 3)
        rows.append(
            Audited(
                id=utterance.id,
                clip=utterance.clip or str(utterance.sha256)[:12],
                score=round(scores[place], 4),
                fault=faults[place] if scores[place] >= config.doubt else None,
                words=tuple(
                    AuditedWord(
                        text=word,
                        start=round(start, 2),
                        end=round(end, 2),
                        doubt=round(float(np.clip((lacks - usual) / max(most - usual, 1e-6), 0, 1)), 3),
                    )
                    for (word, _), (start, end, lacks) in zip(texts[place], row["words"], strict=False)
                ),
                unexplained=tuple(
                    Span(start=round(start, 2), end=round(end, 2)) for start, end, gain in row["gaps"] if gain > _GAIN
                ),
                heard={name: said[place] for name, said in heard.items()},
                figures=figures,
            )
        )
    return rows


def _write(
    out: Path, utterances: Sequence[Utterance], audited: list[Audited], ran: dict[str, str], config: AuditConfig
) -> None:
    above = config.drop_above if config.drop_above is not None else np.inf
    dropped = {row.id for row in audited if row.score > above}
    kept = [utterance for utterance in utterances if utterance.id not in dropped]
    if not kept:
        raise SonorantError(f"audit.drop_above: {config.drop_above} drops all {len(utterances)} utterances; raise it")
    doubtful = [row for row in audited if row.fault is not None]
    summary = {
        "utterances": len(utterances),
        "sources": ran,
        "doubtful": len(doubtful),
        "faults": {fault: count for fault in Fault if (count := sum(row.fault == fault for row in doubtful))},
        "dropped": len(dropped),
    }
    with atomic_folder(out) as folder:
        write_manifest(folder / "manifest.jsonl", kept)
        write_audit(folder / "audit.jsonl", audited)
        gone = [row for row in audited if row.id in dropped]
        write_jsonl(folder / "dropped.jsonl", ({"id": row.id, "score": row.score, "fault": row.fault} for row in gone))
        write_json(folder / "summary.json", summary)
        write_text(folder / "audit.html", audit_page(summary, audited))


SHOWN = 200
BINS = 40


def audit_page(summary: dict[str, Any], audited: list[Audited]) -> str:
    sources = [[name, said] for name, said in summary["sources"].items()]
    kinds = [[fault, str(count)] for fault, count in summary["faults"].items()]
    parts: list[Any] = [Table(caption="Sources of the audit", head=["source", "state"], rows=sources, prose=["state"])]
    if not sources:
        parts = ["Not audited: audit.sources is empty."]
    if kinds:
        parts.append(Table(caption="Likely faults", head=["fault", "utterances"], rows=kinds))
    ran = any(said == "ran" for said in summary["sources"].values())
    if ran:
        parts.append(Charts(charts=[_scores([row.score for row in audited])]))
    sections = [Section(anchor="judged", title="Results", parts=parts)]
    if ran:
        worst = sorted(audited, key=lambda row: (-row.score, row.id))[:SHOWN]
        head = ["id", "score", "likely fault", "text; doubtful words in brackets", "transcripts"]
        rows = [[row.id, f"{row.score:.3f}", _fault(row), _marked(row), "; ".join(row.heard.values())] for row in worst]
        table = Table(caption="Highest scores first", head=head, rows=rows, prose=head[2:])
        hint = "To listen and decide, run sonorant review. audit.jsonl lists all utterances."
        sections.append(Section(anchor="worst", title="Most doubtful", parts=[hint, table]))
    title = f"Audit: {summary['doubtful']} of {summary['utterances']} utterances are doubtful"
    return render(__package__, "audit.html", title=title, sections=sections)


def _fault(row: Audited) -> str | None:
    return f"{row.fault}: {row.reading}" if row.reading else row.fault


def _marked(row: Audited) -> str:
    return " ".join(f"[{word.text}]" if word.doubtful else word.text for word in row.words)


def _scores(scores: list[float]) -> Any:
    counts, edges = np.histogram(scores, bins=BINS, range=(0, 1))
    labels = [(float(place), f"{edges[place]:.2g}") for place in range(0, BINS + 1, BINS // 4)]
    unit = "probability that text and sound do not match"
    return columns("Score: utterances", unit, counts.tolist(), labels, logarithmic=True)
