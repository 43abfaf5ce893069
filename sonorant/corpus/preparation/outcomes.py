"""Results of examining recordings, and rejections that depend on the other recordings of a corpus."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sonorant.audio.conditioning import Conditioning
from sonorant.audio.measures import Measures
from sonorant.corpus.manifest import Defect, Utterance
from sonorant.corpus.splits import SplitBy, beyond, split_key


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingFinding:
    """Result for one recording and its text, without the id; cached."""

    reason: Defect | None = None
    """None if it is sound; then all other fields are set."""
    detail: str = ""
    """What was found, in words."""
    spoken: str = ""
    """Spoken text."""
    seconds: float = 0.0
    sample_rate: int = 0
    """Hz of the recording."""
    channels: str = ""
    channel_correlation: float | None = None
    """Of the two least alike live channels; None for fewer than two."""
    sound: str = ""
    """Hash of the decoded samples."""
    level_db: float = 0.0
    """Level of the loudest 50 ms, dB of full scale."""
    conditioning: Conditioning | None = None
    measures: Measures | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    utterance: Utterance
    """All fields are set if it is sound."""
    finding: RecordingFinding

    @property
    def reason(self) -> Defect | None:
        """None if it is sound."""
        return self.finding.reason

    @property
    def row(self) -> dict[str, str | None]:
        """Row of rejected.jsonl."""
        return {
            "id": self.utterance.id,
            "file": self.utterance.audio,
            "reason": self.reason,
            "detail": self.finding.detail,
        }


def without_repeated_sounds(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Reject sound utterances with the samples of an earlier one."""
    first: dict[str, str] = {}
    for outcome in outcomes:
        sound, id = outcome.finding.sound, outcome.utterance.id
        if outcome.reason is None and (earlier := first.setdefault(sound, id)) != id:
            yield _rejected(outcome, Defect.DUPLICATE_AUDIO, f"the same samples as {earlier}")
        else:
            yield outcome


def without_scarce_speakers(outcomes: list[Outcome], least: float) -> Iterator[Outcome]:
    """Reject speakers with less than `least` seconds of sound utterances."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for outcome in outcomes:
        if outcome.reason is None:
            seconds[outcome.utterance.speaker] += outcome.finding.seconds
    for outcome in outcomes:
        speaker = outcome.utterance.speaker
        if outcome.reason is None and seconds[speaker] < least:
            detail = f"speaker '{speaker}' has {seconds[speaker]:.1f} s, at least {least:g} s (min_speaker_seconds)"
            yield _rejected(outcome, Defect.FEW_SECONDS, detail)
        else:
            yield outcome


def without_surplus_held_out(outcomes: list[Outcome], split_by: SplitBy, most: int | None) -> Iterator[Outcome]:
    """Move held-out utterances beyond `most` per set back to training; None: nothing."""
    sound = (outcome.utterance for outcome in outcomes if outcome.reason is None)
    surplus = set() if most is None else beyond(sound, split_by, most)
    for outcome in outcomes:
        if outcome.reason is None and split_key(outcome.utterance, split_by) in surplus:
            yield replace(outcome, utterance=replace(outcome.utterance, split="train"))
        else:
            yield outcome


def without_lost_speakers(outcomes: list[Outcome], split_by: SplitBy) -> Iterator[Outcome]:
    """Reject speakers without training utterances, as a voice cannot speak like them; not if speakers are held out
    on purpose."""
    trained = {v.utterance.speaker for v in outcomes if v.reason is None and v.utterance.split == "train"}
    for outcome in outcomes:
        speaker = outcome.utterance.speaker
        if outcome.reason is None and split_by != "speaker" and trained and speaker not in trained:
            detail = f"all that speaker '{speaker}' says is held out; record more of this speaker"
            yield _rejected(outcome, Defect.NOT_TRAINED, detail)
        else:
            yield outcome


def _rejected(outcome: Outcome, reason: Defect, detail: str) -> Outcome:
    return replace(outcome, finding=replace(outcome.finding, reason=reason, detail=detail))
