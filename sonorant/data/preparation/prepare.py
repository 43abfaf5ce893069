"""Prepare a whole corpus: examine every utterance, keep and split the sound ones, report the others."""

import hashlib
import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from tqdm import tqdm

from sonorant.data.manifest import Defect, Utterance, read_manifest, write_manifest
from sonorant.data.preparation.checks import ExaminedRecording, PrepareConfig, first_defect
from sonorant.data.preparation.summary import summarize, summary_page
from sonorant.errors import SonorantError
from sonorant.files import atomic_folder, sha256_file, write_json, write_jsonl, write_text
from sonorant.processes import usable_cores
from sonorant.text import Frontend, load_frontend

_PER_WORKER = 32  # fewer utterances are examined sooner than a process starts


def split_of(id: str, *, validation: float, test: float) -> str:
    """ "train", "validation" or "test" by the id alone; `validation` and `test` are the fractions held out.

    The id's SHA-256 is a point in [0, 1), with test at one end and validation at the other. A larger fraction takes
    utterances from train only, never from the other held-out set.
    """
    point = int.from_bytes(hashlib.sha256(id.encode("utf-8")).digest()[:8], "big") / 2**64
    if point < test:
        return "test"
    return "validation" if point >= 1 - validation else "train"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of examining one utterance."""

    utterance: Utterance
    """All fields are set if it is sound."""
    reason: Defect | None = None
    """Why it is rejected; None if it is sound."""
    detail: str = ""
    """What was found, in words."""
    sound: str = ""
    """Hash of the decoded samples of a sound utterance."""
    level_db: float = 0.0
    """Level of the loudest 50 ms of a sound utterance, dB of full scale."""

    @property
    def row(self) -> dict[str, str | None]:
        """The line in rejected.jsonl."""
        return {"id": self.utterance.id, "file": self.utterance.audio, "reason": self.reason, "detail": self.detail}


def prepare(corpus: Path, out: Path, config: PrepareConfig, frontend: str, workers: int | None = None) -> None:
    """Examine the utterances of the folder `corpus`; write manifest, rejected.jsonl, summary.json and .html to `out`.

    `frontend` names the text frontend, loaded for each utterance's language; `workers`: None = one process a core, with
    the same result for any number. Raises SonorantError if more than `config.max_rejected` are rejected; the report is
    then `out` with the ending .rejected.jsonl, and `out` is left as it was.
    """
    utterances = read_manifest(corpus / "manifest.jsonl")
    if not utterances:
        raise SonorantError(
            f"{corpus / 'manifest.jsonl'}: holds no utterances; run the stage corpus on a corpus that does"
        )
    _load_frontends(utterances, frontend)
    examined = _examine_all(without_repeated_ids(utterances), corpus, config, frontend, workers)
    outcomes = list(without_repeated_sounds(examined))
    accepted = [outcome for outcome in outcomes if outcome.reason is None]
    rejected = [outcome for outcome in outcomes if outcome.reason is not None]
    refused_report = out.with_name(f"{out.name}.rejected.jsonl")
    refused_report.unlink(missing_ok=True)
    if len(rejected) > config.max_rejected * len(outcomes) or not accepted:
        write_jsonl(refused_report, [outcome.row for outcome in rejected])
        raise SonorantError(_too_many(rejected, len(outcomes), config, refused_report))
    summary = summarize(
        [outcome.utterance for outcome in accepted], Counter(str(outcome.reason) for outcome in rejected)
    )
    with atomic_folder(out) as folder:
        write_manifest(folder / "manifest.jsonl", [outcome.utterance for outcome in accepted])
        write_jsonl(folder / "rejected.jsonl", [outcome.row for outcome in rejected])
        write_json(folder / "summary.json", summary)
        page = summary_page(
            summary, accepted=[(v.utterance, v.level_db) for v in accepted], rejected=[v.row for v in rejected]
        )
        write_text(folder / "summary.html", page)


def without_repeated_ids(utterances: Iterable[Utterance]) -> Iterator[Utterance]:
    """Mark an utterance whose id an earlier one has as a duplicate. A defective row claims no id."""
    seen: set[str] = set()
    for utterance in utterances:
        if utterance.defect is None and utterance.id in seen:
            yield replace(utterance, defect=Defect.DUPLICATE_ID)
            continue
        if utterance.defect is None:
            seen.add(utterance.id)
        yield utterance


def without_repeated_sounds(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Reject each sound utterance that has the samples of an earlier one."""
    first: dict[str, str] = {}
    for outcome in outcomes:
        if (
            outcome.reason is None
            and (earlier := first.setdefault(outcome.sound, outcome.utterance.id)) != outcome.utterance.id
        ):
            yield replace(outcome, reason=Defect.DUPLICATE_AUDIO, detail=f"the same samples as {earlier}")
        else:
            yield outcome


def examine(utterance: Utterance, *, corpus: Path, config: PrepareConfig, frontend: str) -> Outcome:
    """Examine one utterance by itself."""
    if utterance.defect is not None:
        duplicate = utterance.defect == Defect.DUPLICATE_ID
        detail = "an earlier row has this id; the first stays" if duplicate else "found in the corpus's own file"
        return Outcome(utterance=utterance, reason=Defect(utterance.defect), detail=detail)
    recording = ExaminedRecording(utterance, corpus, _frontend(frontend, utterance.language))
    found = first_defect(recording, config)
    if found is not None:
        return Outcome(utterance=utterance, reason=found[0], detail=found[1])
    sound = replace(
        utterance,
        spoken=recording.spoken.text,
        seconds=round(recording.seconds, 6),
        sample_rate=recording.header.samplerate,
        sha256=sha256_file(recording.path),
        split=split_of(utterance.id, validation=config.validation, test=config.test),
    )
    return Outcome(utterance=sound, sound=recording.sound, level_db=recording.level_db)


def _examine_all(
    utterances: Iterable[Utterance], corpus: Path, config: PrepareConfig, frontend: str, workers: int | None
) -> Iterator[Outcome]:
    work = list(utterances)
    one = partial(examine, corpus=corpus, config=config, frontend=frontend)
    if workers is None:
        workers = min(usable_cores(), len(work) // _PER_WORKER)
    if workers <= 1:
        yield from tqdm(map(one, work), total=len(work), desc="examining", unit="utterance")
        return
    # Spawned, not forked: a fork copies the locks of numeric libraries' threads, but not the threads.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            yield from tqdm(pool.map(one, work, chunksize=8), total=len(work), desc="examining", unit="utterance")
        except BrokenProcessPool:
            raise SonorantError(
                f"{corpus}: a process died while examining recordings (out of memory?); look above and run again"
            ) from None


@lru_cache
def _frontend(name: str, language: str) -> Frontend:
    return load_frontend(name, language)


def _load_frontends(utterances: list[Utterance], frontend: str) -> None:
    """Refuse a language without a frontend before an hour of work instead of after it."""
    first = {utterance.language: utterance.id for utterance in reversed(utterances)}
    for language, id in sorted(first.items()):
        try:
            _frontend(frontend, language)
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
