"""Results of examining utterances, and rejections that depend on the rest of the corpus."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from sonorant.corpus.manifest import Defect, Utterance
from sonorant.corpus.splits import SplitBy, beyond, split_key


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    utterance: Utterance
    """The utterance; all fields are set if it is accepted."""
    reason: Defect | None
    """Reason for rejection; None if the utterance is accepted."""
    detail: str
    sound: str = ""
    """Hash of the decoded samples."""
    level_db: float = 0.0
    """Level of the loudest 50 ms in dBFS."""

    @property
    def row(self) -> dict[str, str | None]:
        """Return the row for rejected.jsonl."""
        utterance = self.utterance
        return {"id": utterance.id, "file": utterance.audio, "reason": self.reason, "detail": self.detail}


def reject_repeated_sounds(outcomes: list[Outcome]) -> list[Outcome]:
    """Reject utterances whose samples equal those of an earlier one."""
    first: dict[str, str] = {}

    def earlier(outcome: Outcome) -> str | None:
        id = first.setdefault(outcome.sound, outcome.utterance.id)
        return None if id == outcome.utterance.id else f"the same samples as {id}"

    return _rejecting(outcomes, Defect.DUPLICATE_AUDIO, earlier)


def reject_scarce_speakers(outcomes: list[Outcome], least: float) -> list[Outcome]:
    """Reject speakers with less than `least` seconds of accepted utterances."""
    seconds: Counter[str] = Counter()
    for utterance in sound(outcomes):
        seconds[utterance.speaker] += utterance.seconds or 0.0  # type: ignore[assignment]  # a Counter of seconds

    def scarce(outcome: Outcome) -> str | None:
        speaker = outcome.utterance.speaker
        found = f"speaker '{speaker}' has {seconds[speaker]:.1f} s, less than {least:g} s (min_speaker_seconds)"
        return found if seconds[speaker] < least else None

    return _rejecting(outcomes, Defect.FEW_SECONDS, scarce)


def return_surplus_to_training(outcomes: list[Outcome], split_by: SplitBy, most: int | None) -> list[Outcome]:
    """Move held-out utterances beyond `most` per set back to training; None moves nothing."""
    surplus = set() if most is None else beyond(sound(outcomes), split_by, most)
    return [
        replace(outcome, utterance=replace(outcome.utterance, split="train"))
        if outcome.reason is None and split_key(outcome.utterance, split_by) in surplus
        else outcome
        for outcome in outcomes
    ]


def reject_lost_speakers(outcomes: list[Outcome], split_by: SplitBy) -> list[Outcome]:
    """Reject speakers without training utterances, unless whole speakers are held out."""
    trained = {utterance.speaker for utterance in sound(outcomes) if utterance.split == "train"}
    if split_by == "speaker" or not trained:
        return outcomes

    def lost(outcome: Outcome) -> str | None:
        speaker = outcome.utterance.speaker
        found = f"all utterances of speaker '{speaker}' are held out; record more of this speaker"
        return None if speaker in trained else found

    return _rejecting(outcomes, Defect.NOT_TRAINED, lost)


def sound(outcomes: list[Outcome]) -> list[Utterance]:
    return [outcome.utterance for outcome in outcomes if outcome.reason is None]


def _rejecting(outcomes: list[Outcome], reason: Defect, why: Callable[[Outcome], str | None]) -> list[Outcome]:
    return [
        replace(outcome, reason=reason, detail=detail)
        if outcome.reason is None and (detail := why(outcome)) is not None
        else outcome
        for outcome in outcomes
    ]
