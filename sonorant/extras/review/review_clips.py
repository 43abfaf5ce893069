"""Clips to review: a prepared corpus with the findings of the audit, worst first."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from sonorant.audio.conditioning import JOINT, Conditioning
from sonorant.corpus.audit.findings import Audited, read_audit
from sonorant.corpus.decisions import clip_name
from sonorant.corpus.manifest import Utterance, file_exists, may_be_read, read_manifest
from sonorant.errors import SonorantError
from sonorant.files import read_jsonl, sha256_file

AUDIT = "audit.jsonl"


@dataclass(frozen=True, kw_only=True)
class ReviewClip:
    """An unedited utterance with its findings. Times are in seconds from its start."""

    name: str
    utterance: Utterance
    """Utterance in the corpus, before any review decisions."""
    audited: Audited | None
    rejected: str | None
    """Reason why `prepare` rejected the utterance; None if it is in the prepared corpus."""


def load_clips(corpus: Path, prepared: Path, audit: Path | None, decided: Collection[str]) -> list[ReviewClip]:
    """Load the clips of a prepared corpus: audited clips, worst first, then clips without an audit, then rejected clips
    with a decision (in `decided`), so that the decision can be removed. `audit`: folder of audit.jsonl; None means the
    order of the manifest. Raises SonorantError naming a file that is missing or belongs to a different corpus."""
    found: dict[str, list[Utterance]] = {}
    for row in read_manifest(corpus / "manifest.jsonl"):
        found.setdefault(row.id, []).append(row)
    rows = [] if audit is None else read_audit(audit / AUDIT)
    audited = {row.id: row for row in rows}
    clips: dict[str, ReviewClip] = {}
    for row in read_manifest(prepared / "manifest.jsonl"):
        if row.clip is None or row.sha256 is None:
            raise SonorantError(f"{prepared}: utterance {row.id} has no clip name; run the stage prepare again")
        of_id = (one for one in found.get(row.id, []) if one.audio == row.audio)
        origin = next((one for one in of_id if clip_name(row.sha256, one.start, one.end) == row.clip), None)
        if origin is None:
            raise SonorantError(f"{corpus}: clip {row.clip} of {prepared} is missing; run the stage prepare again")
        told = _as_found(audited.get(row.id), row.conditioning, (row.start or 0.0) - (origin.start or 0.0))
        clips.setdefault(row.clip, ReviewClip(name=row.clip, utterance=origin, audited=told, rejected=None))
    order = sorted(clips.values(), key=lambda clip: -1.0 if clip.audited is None else clip.audited.score, reverse=True)
    rejected = (clip for clip in _rejected(corpus, prepared, found) if clip.name in decided) if decided else ()
    return order + [clip for clip in {clip.name: clip for clip in rejected}.values() if clip.name not in clips]


def _as_found(audited: Audited | None, conditioning: Conditioning | None, moved: float) -> Audited | None:
    """Convert the times in an audit from the edited and conditioned utterance to the original clip. `moved`: seconds by
    which editing moved the start."""
    if audited is None:
        return None

    def at(time: float) -> float:
        return round(moved + (time if conditioning is None else before_conditioning(time, conditioning)), 4)

    words = tuple(replace(word, start=at(word.start), end=at(word.end)) for word in audited.words)
    spans = tuple(replace(span, start=at(span.start), end=at(span.end)) for span in audited.unexplained)
    return replace(audited, words=words, unexplained=spans)


def before_conditioning(time: float, conditioning: Conditioning) -> float:
    """Convert a time in a conditioned sound to seconds before conditioning."""
    found = time + (conditioning.start or 0.0)
    for start, end in conditioning.dropped:
        if found <= start:
            break
        found += end - start + JOINT
    return found


def _rejected(corpus: Path, prepared: Path, found: dict[str, list[Utterance]]) -> list[ReviewClip]:
    clips = []
    for row in read_jsonl(prepared / "rejected.jsonl"):
        for origin in (one for one in found.get(row["id"], []) if one.audio and one.audio == row["file"]):
            if may_be_read(corpus, origin) and file_exists(corpus / str(origin.audio)):
                name = clip_name(sha256_file(corpus / str(origin.audio)), origin.start, origin.end)
                reason = f"{row['reason']}: {row['detail']}"
                clips.append(ReviewClip(name=name, utterance=origin, audited=None, rejected=reason))
    return clips
