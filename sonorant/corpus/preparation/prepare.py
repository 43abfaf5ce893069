"""Prepare a corpus: examine every utterance, split the accepted ones, and report the others."""

import dataclasses
import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import sonorant.audio
import sonorant.corpus.preparation
import sonorant.text
from sonorant.audio import dnsmos
from sonorant.audio.channels import channel_finding, mix
from sonorant.audio.conditioning import ConditionConfig, Conditioning, plan
from sonorant.audio.measures import Measures, measure
from sonorant.audio.voice_activity import locate_speech, speech_probability
from sonorant.corpus.cache import code_of, compute_missing, key_of
from sonorant.corpus.decisions import Decided, decide
from sonorant.corpus.manifest import Defect, Utterance, corpus_files, may_be_read, read_manifest, write_manifest
from sonorant.corpus.preparation.checks import (
    LIMITS,
    PrepareConfig,
    Unsound,
    check_channels,
    check_level,
    check_limits,
    check_samples,
    decode_utterance,
    level_of,
)
from sonorant.corpus.preparation.outcomes import (
    Outcome,
    reject_lost_speakers,
    reject_repeated_sounds,
    reject_scarce_speakers,
    return_surplus_to_training,
    sound,
)
from sonorant.corpus.preparation.summary import summarize, summarize_unplaced, summary_page
from sonorant.corpus.preparation.transcripts import without_decoded_twice, without_marks
from sonorant.corpus.splits import empty_splits, few_texts, split_key, split_of
from sonorant.errors import SonorantError, install
from sonorant.files import atomic_folder, parse_checked, sha256_file, write_json, write_jsonl, write_text
from sonorant.text import Frontend, load_with_lexicon
from sonorant.text.frontend import named

_NOT_OF_A_RECORDING = (
    "max_rejected", "validation", "test", "most_held_out", "split_by", "min_speaker_seconds", "decisions", "marks",
    *LIMITS,
)  # fmt: skip
"""Settings that do not affect the result for a single recording."""


def prepare(
    corpus: Path,
    out: Path,
    config: PrepareConfig,
    frontend: str,
    *,
    condition: ConditionConfig,
    lexicon: str | None = None,
    cache: Path | None = None,
    processes: int | None = None,
) -> None:
    """Examine the utterances in the folder `corpus`; write the manifest, rejected utterances and a summary to `out`.

    `lexicon` is the user's pronunciation file, `cache` the folder of cached results. Raises SonorantError if more than
    `config.max_rejected` are rejected; `out` is then unchanged, and the report is in <out>.rejected.jsonl.
    """
    utterances = read_manifest(corpus / "manifest.jsonl")
    if not utterances:
        raise SonorantError(
            f"{corpus / 'manifest.jsonl'}: contains no utterances; run the stage corpus on another corpus"
        )
    _load_frontends(utterances, frontend, lexicon)
    if config.rate_dnsmos and not dnsmos.installed():
        raise SonorantError(f"prepare.rate_dnsmos: speechmos is not installed; run: {install('mos')}")
    files = _hashes(utterances, corpus)
    decided, marks = without_marks(decide(utterances, files, corpus, config.decisions), config.marks)
    decided = without_decoded_twice(decided)
    rows = list(without_repeated_ids(decided.utterances))
    found = compute_missing(
        partial(examine, corpus=corpus, config=config, condition=condition, frontend=frontend, lexicon=lexicon),
        rows,
        _keys(rows, files, config, condition, frontend, lexicon),
        cache,
        label="examining",
        unit="utterance",
        processes=processes,
        reads=corpus_files(corpus, utterances),
        parse=partial(parse_checked, kind=Examination, file=Path("the cache of prepare")),
    )
    outcomes = [_outcome(*of_row, config) for of_row in zip(rows, files, decided.notes, found, strict=True)]
    outcomes = reject_scarce_speakers(reject_repeated_sounds(outcomes), config.min_speaker_seconds)
    outcomes = return_surplus_to_training(outcomes, config.split_by, config.most_held_out)
    outcomes = reject_lost_speakers(outcomes, config.split_by)
    accepted = [outcome for outcome in outcomes if outcome.reason is None]
    rejected = [outcome for outcome in outcomes if outcome.reason is not None]
    refused_report = out.with_name(f"{out.name}.rejected.jsonl")
    refused_report.unlink(missing_ok=True)
    defective = [outcome for outcome in rejected if outcome.reason is not Defect.DROPPED]
    examined_ones = len(accepted) + len(defective)
    if len(defective) > config.max_rejected * examined_ones or not accepted:
        write_jsonl(refused_report, [outcome.row for outcome in rejected])
        raise SonorantError(_too_many(defective, examined_ones, config, refused_report))
    if lacking := empty_splits(sound(accepted), config.split_by, config.validation, config.test):
        raise SonorantError(f"{corpus / 'manifest.jsonl'}: {lacking}")
    _write(out, accepted, rejected, decided, marks, summarize_unplaced(corpus), config, condition)


def _write(
    out: Path,
    accepted: list[Outcome],
    rejected: list[Outcome],
    decided: Decided,
    marks: Counter[str],
    unplaced: dict[str, float] | None,
    config: PrepareConfig,
    condition: ConditionConfig,
) -> None:
    utterances = sound(accepted)
    marked = f"marks in texts, removed or rejected (prepare.marks): {dict(marks.most_common(10))}" if marks else None
    warnings = [decided.warning, few_texts(utterances, config.split_by, config.test), marked]
    for warning in filter(None, warnings):
        print(f"warning: {warning}", file=sys.stderr, flush=True)
    lost = [outcome.row | {"speaker": outcome.utterance.speaker} for outcome in rejected]
    summary = summarize(utterances, lost, condition)
    summary |= {"warnings": [warning for warning in warnings if warning], "decisions": decided.counts, "marks": marks}
    if unplaced is not None:
        summary["unplaced"] = unplaced
    with atomic_folder(out) as folder:
        write_manifest(folder / "manifest.jsonl", utterances)
        write_jsonl(folder / "rejected.jsonl", [outcome.row for outcome in rejected])
        write_json(folder / "summary.json", summary)
        page = summary_page(
            summary,
            accepted=[(outcome.utterance, outcome.level_db) for outcome in accepted],
            rejected=[outcome.row for outcome in rejected],
            condition=condition,
        )
        write_text(folder / "summary.html", page)


def without_repeated_ids(utterances: Iterable[Utterance]) -> Iterator[Utterance]:
    """Mark utterances with an id used earlier as duplicates; ignore other defective rows."""
    seen: set[str] = set()
    for utterance in utterances:
        if utterance.defect is None and utterance.id in seen:
            yield replace(utterance, defect=Defect.DUPLICATE_ID)
            continue
        if utterance.defect is None:
            seen.add(utterance.id)
        yield utterance


def examine(
    utterance: Utterance,
    *,
    corpus: Path,
    config: PrepareConfig,
    condition: ConditionConfig,
    frontend: str,
    lexicon: str | None = None,
) -> dict[str, Any]:
    """Examine one utterance; return the fields of an `Examination`."""
    try:
        finding = _examined(utterance, corpus, config, condition, _frontend(frontend, lexicon, utterance.language))
    except Unsound as error:
        finding = Examination(reason=error.defect, detail=error.found)
    return dataclasses.asdict(finding)


@dataclass(frozen=True, kw_only=True, slots=True)
class Examination:
    """Cached result for one recording and its text, without the id."""

    reason: str | None = None
    """A `Defect`; if None, all other fields are set."""
    detail: str = ""
    spoken: str = ""
    seconds: float = 0.0
    sample_rate: int = 0
    channels: str = ""
    channel_correlation: float | None = None
    conditioning: Conditioning | None = None
    measures: Measures | None = None
    sound: str = ""
    level_db: float = 0.0


_KNOWN = ("spoken", "seconds", "sample_rate", "channels", "channel_correlation", "conditioning", "measures")
"""Fields of `Examination` to copy to the utterance."""


def _examined(
    utterance: Utterance, corpus: Path, config: PrepareConfig, condition: ConditionConfig, frontend: Frontend
) -> Examination:
    if utterance.defect is not None:
        duplicate = utterance.defect == Defect.DUPLICATE_ID
        found = "an earlier row has this id and is kept" if duplicate else "see the corpus's own metadata"
        raise Unsound(utterance.defect, found)
    channels_SC, rate = decode_utterance(corpus, utterance, config.max_seconds)
    samples = mix(channels_SC)
    check_samples(samples, rate, config)
    channels = channel_finding(channels_SC, rate)
    check_channels(channels_SC, rate, channels, config.min_channel_correlation)
    level_db = level_of(samples, rate)
    check_level(level_db, samples, config)
    spoken = frontend.speak(utterance.text)
    if spoken.unknown:
        raise Unsound(Defect.UNSPEAKABLE, named(spoken.unknown))
    if not spoken.phonemes:
        raise Unsound(Defect.EMPTY_TEXT, f"{utterance.text!r} contains nothing to speak")
    probability = speech_probability(samples, rate)
    conditioning = plan(samples, rate, locate_speech(samples, rate, probability), condition)
    speed = len(spoken.text) / conditioning.after.seconds
    slowest, fastest = config.min_characters_per_second, config.max_characters_per_second
    if not slowest <= speed <= fastest:
        expected = f"{speed:.1f} characters per second, {slowest:g} to {fastest:g} expected"
        raise Unsound(Defect.SPEAKING_RATE, expected)
    measures = measure(samples, rate, probability)
    if config.rate_dnsmos:
        measures = replace(measures, dnsmos=round(dnsmos.rate_clip((samples, rate))[0], 3))
    return Examination(
        spoken=spoken.text,
        seconds=conditioning.after.seconds,
        sample_rate=rate,
        channels=channels.kind,
        channel_correlation=None if channels.correlation is None else round(channels.correlation, 4),
        conditioning=conditioning,
        measures=measures,
        sound=hashlib.sha256(samples.tobytes()).hexdigest(),
        level_db=level_db,
    )


def _outcome(row: Utterance, file: str | None, note: str, found: Examination, config: PrepareConfig) -> Outcome:
    if found.reason is not None or found.measures is None:
        return Outcome(utterance=row, reason=Defect(str(found.reason)), detail=note or found.detail)
    try:
        check_limits(found.measures, config)
    except Unsound as error:
        return Outcome(utterance=row, reason=error.defect, detail=error.found)
    known = replace(row, sha256=file, **{field: getattr(found, field) for field in _KNOWN})
    split = split_of(split_key(known, config.split_by), validation=config.validation, test=config.test)
    utterance = replace(known, split=split)
    return Outcome(utterance=utterance, reason=None, detail="", sound=found.sound, level_db=found.level_db)


def _hashes(rows: list[Utterance], corpus: Path) -> list[str | None]:
    """Return the hash of each row's file, None if unreadable. Hashes from an importer are checked by `recording_of`."""

    def of_file(row: Utterance) -> str | None:
        if row.sha256 or not may_be_read(corpus, row):
            return row.sha256
        try:
            return sha256_file(corpus / str(row.audio))
        except OSError:
            return None

    files = {row.audio: row for row in reversed(rows)}
    with ThreadPoolExecutor() as pool:
        hashes = dict(zip(files, pool.map(of_file, files.values()), strict=True))
    return [row.sha256 or hashes[row.audio] for row in rows]


def _keys(
    rows: list[Utterance],
    files: list[str | None],
    config: PrepareConfig,
    condition: ConditionConfig,
    frontend: str,
    lexicon: str | None,
) -> list[str]:
    code = code_of(sonorant.audio, sonorant.corpus.preparation, sonorant.text)
    settings = {key: value for key, value in dataclasses.asdict(config).items() if key not in _NOT_OF_A_RECORDING}
    settings |= dataclasses.asdict(condition)
    versions = {language: _frontend(frontend, lexicon, language).version for language in {row.language for row in rows}}
    sources = [file or f"not a file: {row.audio}" for row, file in zip(rows, files, strict=True)]
    return [
        key_of(code, settings, source, row.text, row.language, versions[row.language], row.start, row.end, row.defect)
        for row, source in zip(rows, sources, strict=True)
    ]


@lru_cache
def _frontend(name: str, lexicon: str | None, language: str) -> Frontend:
    return load_with_lexicon(name, language, lexicon)


def _load_frontends(utterances: list[Utterance], frontend: str, lexicon: str | None) -> None:
    first = {utterance.language: utterance.id for utterance in reversed(utterances)}
    for language, id in sorted(first.items()):
        try:
            _frontend(frontend, lexicon, language)
        except SonorantError as error:
            raise SonorantError(f"utterance {id}: {error}") from None


def _too_many(rejected: list[Outcome], total: int, config: PrepareConfig, report: Path) -> str:
    reasons = ", ".join(
        f"{count} {reason}" for reason, count in Counter(str(outcome.reason) for outcome in rejected).most_common()
    )
    return (
        f"{report}: {len(rejected)} of {total} utterances rejected ({len(rejected) / total:.1%}, "
        f"at most {config.max_rejected:.1%}): {reasons}; repair these or increase prepare.max_rejected"
    )
