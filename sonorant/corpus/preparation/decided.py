"""Decisions applied to a corpus as found, before anything is examined."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sonorant.audio.decoding import header
from sonorant.corpus.decisions import apply, clip_name, read_decisions
from sonorant.corpus.manifest import Defect, Utterance
from sonorant.errors import SonorantError


@dataclass(frozen=True)
class Decided:
    """A corpus as decided."""

    utterances: list[Utterance]
    """As found, or as edited; the dropped ones have the defect DROPPED. Those whose file can be read have a `clip`."""
    notes: list[str]
    """Of each, the note of the decision that drops it."""
    counts: dict[str, Any] | None
    """How many were decided in which way, and how many decisions name no clip of the corpus; None without decisions."""
    warning: str | None


def decide(rows: Sequence[Utterance], files: Sequence[str | None], corpus: Path, named: str | None) -> Decided:
    """Apply the decisions in the file `named` (None = there are none) to utterances.

    `files`: hex SHA-256 of each row's audio file, None where it cannot be read. Raises SonorantError naming file, clip
    and column.
    """
    decisions = read_decisions(Path(named)) if named else {}
    utterances, notes, counts, used = [], [], Counter[str](), set[str]()
    for row, file in zip(rows, files, strict=True):
        clip = None if file is None else clip_name(file, row.start, row.end)
        decision, utterance, note = decisions.get(clip or ""), replace(row, clip=clip), ""
        if decision is not None:
            used.add(decision.clip)
            counts[decision.decision] += 1
            try:
                applied = apply(utterance, decision, _seconds(corpus, row))
            except ValueError as error:
                raise SonorantError(f"{named}: {decision.clip}: {error}; change it there") from None
            if applied is Defect.DROPPED:
                utterance, note = replace(utterance, defect=Defect.DROPPED), decision.note or f"so decided in {named}"
            elif isinstance(applied, Utterance):
                utterance = applied
        utterances.append(utterance)
        notes.append(note)
    if named is None:
        return Decided(utterances, notes, None, None)
    unused = [clip for clip in decisions if clip not in used]
    told = {"keep": counts["keep"], "drop": counts["drop"], "edit": counts["edit"], "unused": len(unused)}
    warning = f"{named}: {len(unused)} decisions name no clip of this corpus, first {unused[0]}" if unused else None
    return Decided(utterances, notes, told, warning)


def _seconds(corpus: Path, utterance: Utterance) -> float | None:
    """Length of an utterance as found; None if only decoding can tell."""
    if utterance.end is not None:
        return utterance.end - (utterance.start or 0.0)
    try:
        found = header(corpus / str(utterance.audio))
    except SonorantError:
        return None
    return found.seconds - (utterance.start or 0.0) if found.least == found.frames else None
