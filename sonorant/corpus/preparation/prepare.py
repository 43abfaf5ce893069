"""Prepare a corpus: examine every utterance, keep and split the sound ones, report the others."""

import dataclasses
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import sonorant.audio
import sonorant.corpus.preparation
import sonorant.text
from sonorant.audio import dnsmos
from sonorant.audio.conditioning import ConditionConfig, Conditioning
from sonorant.audio.measures import Measures
from sonorant.cache import code_of, compute_missing, key_of
from sonorant.corpus.decisions import Decided, decide
from sonorant.corpus.manifest import Defect, Utterance, corpus_files, may_be_read, read_manifest, write_manifest
from sonorant.corpus.preparation.checks import LIMITS, ExaminedRecording, PrepareConfig, beyond_limit, first_defect
from sonorant.corpus.preparation.outcomes import (
    Outcome,
    RecordingFinding,
    without_lost_speakers,
    without_repeated_sounds,
    without_scarce_speakers,
    without_surplus_held_out,
)
from sonorant.corpus.preparation.summary import (
    read_unplaced,
    summarize,
    summarize_speakers,
    summarize_unplaced,
    summary_page,
)
from sonorant.corpus.splits import few_texts, split_key, split_of
from sonorant.errors import SonorantError
from sonorant.files import atomic_folder, parse_checked, sha256_file, write_json, write_jsonl, write_text
from sonorant.text import Frontend, load_with_lexicon

_NOT_OF_A_RECORDING = (
    "max_rejected", "validation", "test", "most_held_out", "split_by", "min_speaker_seconds", "decisions", *LIMITS
)  # fmt: skip
"""Settings that do not change the result for a recording."""


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
    r"""Examine the utterances of the folder `corpus`; write manifest.jsonl, rejected.jsonl, summary.json and
    summary.html to `out`.

    `frontend`: its name; `lexicon`: file of the user's words; `condition`: planned for each recording, which stays as
    it is; `cache`: folder of earlier results, None = none; `processes` as in `spread`. Raises SonorantError if more
    than `config.max_rejected` are rejected; then `out` is unchanged, and the report is beside it with the ending
    .rejected.jsonl.
    """
    utterances = read_manifest(corpus / "manifest.jsonl")
    if not utterances:
        raise SonorantError(
            f"{corpus / 'manifest.jsonl'}: holds no utterances; run the stage corpus on a corpus that does"
        )
    _load_frontends(utterances, frontend, lexicon)
    if config.rate_dnsmos and not dnsmos.installed():
        raise SonorantError("prepare.rate_dnsmos: speechmos is not installed; pip install 'sonorant[mos]'")
    files = _hashes(utterances, corpus)
    decided = decide(utterances, files, corpus, config.decisions)
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
        parse=_finding,
    )
    examined = [_outcome(*of_row, config) for of_row in zip(rows, files, decided.notes, found, strict=True)]
    heard = list(without_scarce_speakers(list(without_repeated_sounds(examined)), config.min_speaker_seconds))
    divided = list(without_surplus_held_out(heard, config.split_by, config.most_held_out))
    outcomes = list(without_lost_speakers(divided, config.split_by))
    accepted = [outcome for outcome in outcomes if outcome.reason is None]
    rejected = [outcome for outcome in outcomes if outcome.reason is not None]
    refused_report = out.with_name(f"{out.name}.rejected.jsonl")
    refused_report.unlink(missing_ok=True)
    defective = [outcome for outcome in rejected if outcome.reason is not Defect.DROPPED]
    examined_ones = len(accepted) + len(defective)
    if len(defective) > config.max_rejected * examined_ones or not accepted:
        write_jsonl(refused_report, [outcome.row for outcome in rejected])
        raise SonorantError(_too_many(defective, examined_ones, config, refused_report))
    _write(out, accepted, rejected, decided, read_unplaced(corpus), config, condition)


def _write(
    out: Path,
    accepted: list[Outcome],
    rejected: list[Outcome],
    decided: Decided,
    unplaced: list[dict[str, Any]] | None,
    config: PrepareConfig,
    condition: ConditionConfig,
) -> None:
    sound = [outcome.utterance for outcome in accepted]
    warnings = [decided.warning, few_texts(sound, config.split_by, config.validation, config.test)]
    for warning in filter(None, warnings):
        print(f"warning: {warning}", file=sys.stderr, flush=True)
    summary = summarize(sound, Counter(str(outcome.reason) for outcome in rejected), condition)
    summary["by_speaker"] = summarize_speakers(sound, [outcome.utterance.speaker for outcome in rejected])
    summary |= {"warnings": [warning for warning in warnings if warning], "decisions": decided.counts}
    if unplaced is not None:
        summary["unplaced"] = summarize_unplaced(unplaced)
    with atomic_folder(out) as folder:
        write_manifest(folder / "manifest.jsonl", sound)
        write_jsonl(folder / "rejected.jsonl", [outcome.row for outcome in rejected])
        write_json(folder / "summary.json", summary)
        page = summary_page(
            summary,
            accepted=[(outcome.utterance, outcome.finding.level_db) for outcome in accepted],
            rejected=[outcome.row for outcome in rejected],
            unplaced=unplaced,
            condition=condition,
        )
        write_text(folder / "summary.html", page)


def without_repeated_ids(utterances: Iterable[Utterance]) -> Iterator[Utterance]:
    """Mark utterances with an earlier one's id as duplicates. Defective rows do not count."""
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
    """Examine one utterance; the fields of a `RecordingFinding`."""
    if utterance.defect is not None:
        duplicate = utterance.defect == Defect.DUPLICATE_ID
        detail = "an earlier row has this id; the first stays" if duplicate else "found in the corpus's own file"
        return {"reason": utterance.defect, "detail": detail}
    recording = ExaminedRecording(utterance, corpus, _frontend(frontend, lexicon, utterance.language), condition)
    found = first_defect(recording, config)
    if found is not None:
        return {"reason": found[0], "detail": found[1]}
    measures = recording.measures
    if config.rate_dnsmos:
        overall = dnsmos.rate_clip((recording.samples, recording.header.sample_rate))[0]
        measures = replace(measures, dnsmos=round(overall, 3))
    channels = recording.channel_finding
    finding = RecordingFinding(
        spoken=recording.spoken.text,
        seconds=recording.conditioning.after.seconds,
        sample_rate=recording.header.sample_rate,
        channels=channels.kind,
        channel_correlation=None if channels.correlation is None else round(channels.correlation, 4),
        sound=recording.sound,
        level_db=recording.level_db,
        conditioning=recording.conditioning,
        measures=measures,
    )
    return dataclasses.asdict(finding)


def _finding(found: dict[str, Any]) -> RecordingFinding:
    """From the cache's JSON."""
    if found["reason"] is not None:
        return RecordingFinding(reason=Defect(found["reason"]), detail=found["detail"])
    kinds = {"conditioning": Conditioning, "measures": Measures}
    where = Path("the cache of prepare")
    return RecordingFinding(
        **found | {field: parse_checked(found[field], kind, where) for field, kind in kinds.items()}
    )


def _outcome(row: Utterance, file: str | None, note: str, finding: RecordingFinding, config: PrepareConfig) -> Outcome:
    if finding.reason is not None or finding.measures is None:
        return Outcome(utterance=row, finding=replace(finding, detail=note or finding.detail))
    if broken := beyond_limit(finding.measures, config):
        return Outcome(utterance=row, finding=replace(finding, reason=broken[0], detail=broken[1]))
    known = replace(
        row,
        spoken=finding.spoken,
        seconds=finding.seconds,
        sample_rate=finding.sample_rate,
        channels=finding.channels,
        channel_correlation=finding.channel_correlation,
        sha256=file,
        conditioning=finding.conditioning,
        measures=finding.measures,
    )
    split = split_of(split_key(known, config.split_by), validation=config.validation, test=config.test)
    return Outcome(utterance=replace(known, split=split), finding=finding)


def _hashes(rows: list[Utterance], corpus: Path) -> list[str | None]:
    """Hash of each row's file, or None; each file is read once. A hash from an importer is not checked here, but in
    `recording_of`."""

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
    """From the file's bytes, the text, the settings and the code."""
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
    """Fail on an unknown language before the work starts."""
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
        f"allowed {config.max_rejected:.1%}): {reasons}; repair these or raise prepare.max_rejected"
    )
