"""Which words to cut out of which utterances, by the audit's alignment: a voice that never heard a short text babbles
on one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sonorant.corpus.audit.findings import Audited, read_audit
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.short_clips import ShortClip
from sonorant.corpus.splits import text_key
from sonorant.errors import SonorantError

MOST_WORDS = 3
LEAST_SECONDS_A_WORD, MOST_SECONDS = 0.2, 1.5
LEAST_GAP = 0.05
"""Seconds between two words that a cut needs: where the words flow into each other the aligner leaves less."""
DOUBT = 0.2
"""Of a word, beyond which it is not cut out."""


@dataclass(frozen=True, kw_only=True)
class FeaturesConfig:
    """Section `features` of params.yaml."""

    short_clips: float
    """Single words and phrases to cut out of the training utterances and to learn from as well, as a share of the
    utterances' number; 0: none."""
    minutes: float | None = None
    """Of the training split to learn from; None: all. The default is for settings of before."""

    def __post_init__(self) -> None:
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"minutes must be above 0 or null, not {self.minutes}")
        if not 0 <= self.short_clips <= 1:
            raise ValueError(f"short_clips ({self.short_clips}) is a share of the training utterances, 0 to 1")


def read_short_clips(utterances: Sequence[Utterance], audited: Path, share: float) -> list[ShortClip]:
    """The clips to cut out of `utterances`, by `audit.jsonl` in the folder `audited`; `share`: as in the settings.

    Raises SonorantError if no aligner ran: nothing says then where a word is.
    """
    if share == 0:
        return []
    rows = {row.id: row for row in read_audit(audited / "audit.jsonl")}
    if not any(row.words for row in rows.values()):
        raise SonorantError(
            f"features.short_clips: {share:g} asks for words cut out of the utterances, and no aligner said where they "
            f"are ({audited / 'summary.json'} tells why); set it to 0, or audit.sources to [aligner]"
        )
    return choose(utterances, rows, share)


def choose(utterances: Sequence[Utterance], audited: Mapping[str, Audited], share: float) -> list[ShortClip]:
    """Those that stand most for themselves, at most one of an utterance, in the order of `utterances`.

    `share` times the training utterances are wanted; where the corpus has no more, fewer come back. None says the whole
    text of a held-out utterance.
    """
    training = [utterance for utterance in utterances if utterance.split == "train"]
    held_out = {text_key(utterance) for utterance in utterances if utterance.split != "train"}
    best = []
    for utterance in training:
        row = audited.get(utterance.id)
        clips = [] if row is None else [clip for clip in _clips(utterance, row) if _text(clip, row) not in held_out]
        if clips:
            best.append(max(clips, key=lambda clip: clip.gap))
    wanted = sorted(best, key=lambda clip: clip.gap, reverse=True)[: round(share * len(training))]
    chosen = {clip.id for clip in wanted}
    return [clip for clip in best if clip.id in chosen]


def _clips(utterance: Utterance, row: Audited) -> Iterator[ShortClip]:
    """All that may be cut out of an utterance without doubt, single words first."""
    words, count = row.words, len(row.words)
    if row.fault is not None:
        return
    for length in range(1, min(MOST_WORDS, count - 1) + 1):
        for first in range(count - length + 1):
            past, own = first + length, words[first : first + length]
            clip = ShortClip(
                utterance=utterance,
                words=slice(first, past),
                before=(words[first - 1].end, own[0].start) if first else None,
                after=(own[-1].end, words[past].start) if past < count else None,
            )
            lasts = LEAST_SECONDS_A_WORD * length <= own[-1].end - own[0].start <= MOST_SECONDS
            if lasts and clip.gap >= LEAST_GAP and max(word.doubt for word in own) <= DOUBT:
                yield clip


def _text(clip: ShortClip, row: Audited) -> str:
    return text_key(replace(clip.utterance, spoken=" ".join(word.text for word in row.words[clip.words])))
