"""Cut a few words out of an utterance, to train on as a separate utterance.

The audit's alignment locates the pauses between words, called gaps. Each cut is made where a gap is quietest, and
silence from the utterance is added. A voice trained without short texts babbles on them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.audio.conditioning import joined
from sonorant.audio.voice_activity import Span
from sonorant.checked import Fraction, Positive
from sonorant.corpus.audit.findings import Audited, read_audit
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.splits import text_key
from sonorant.errors import SonorantError
from sonorant.text.frontend import Phoneme

_FRAME = 0.01  # seconds


@dataclass(frozen=True, kw_only=True)
class ShortClip:
    """Some of the words of an utterance."""

    utterance: Utterance
    words: slice
    """Indices of the clip's words in the utterance."""
    before: Span | None
    """Gap before the clip in seconds; None if it starts with the utterance."""
    after: Span | None
    """Gap after the clip in seconds; None if it ends with the utterance."""

    @property
    def gap(self) -> float:
        """Seconds of the shorter gap next to the clip."""
        return min((end - start for start, end in filter(None, (self.before, self.after))), default=math.inf)

    @property
    def id(self) -> str:
        """Id such as `arctic_a0001 words 1 to 2`."""
        return f"{self.utterance.id} words {self.words.start + 1} to {self.words.stop}"


def cut(samples: Floats, rate: int, clip: ShortClip) -> Floats:
    """Cut a clip (S',) out of its utterance's samples (S,) at `rate` Hz, adding the utterance's initial silence at each
    cut."""
    first = _quietest(samples, rate, clip.before) if clip.before else 0
    last = _quietest(samples, rate, clip.after) if clip.after else len(samples)
    silence = samples[: _silent(samples, rate)]
    pieces = [silence if clip.before else silence[:0], samples[first:last], silence if clip.after else silence[:0]]
    return joined([piece for piece in pieces if len(piece)], rate)


def phonemes_of(phonemes: Sequence[Phoneme], words: slice) -> tuple[Phoneme, ...]:
    """Return the phonemes of `words` and the pauses after them. Raises ValueError if the utterance has fewer words."""
    starts = [place for place, phoneme in enumerate(phonemes) if phoneme.word_start]
    if words.stop > len(starts):
        raise ValueError(f"the utterance has {len(starts)} words, not {words.stop}")
    return tuple(phonemes[starts[words.start] : [*starts, len(phonemes)][words.stop]])


def _quietest(samples: Floats, rate: int, span: Span) -> int:
    width, first = round(_FRAME * rate), round(span[0] * rate)
    power = _power(samples[first : round(span[1] * rate)], width)
    return first + (int(np.argmin(power)) * width + width // 2 if len(power) else 0)


def _silent(samples: Floats, rate: int) -> int:
    """Return the number of initial samples at least 20 dB below the loudest tenth."""
    width = round(_FRAME * rate)
    power = _power(samples, width)
    if not len(power):
        return 0
    loud = np.flatnonzero(power > np.percentile(power, 90) / 100)
    return int(loud[0]) * width if len(loud) else 0


def _power(samples: Floats, width: int) -> Floats:
    frames = samples[: len(samples) // width * width].reshape(-1, width)
    return np.asarray(np.square(frames).mean(axis=1))


MOST_WORDS = 3
LEAST_SECONDS_A_WORD, MOST_SECONDS = 0.2, 1.5
LEAST_GAP = 0.05
"""Minimum seconds of a gap to cut at."""
DOUBT = 0.2
"""Maximum `AuditedWord.doubt` of the words in a clip."""


@dataclass(frozen=True, kw_only=True)
class FeaturesConfig:
    """Section `features` of params.yaml."""

    short_clips: Fraction = 0.0
    """Number of short clips to cut out and train on, as a fraction of training utterances."""
    minutes: Positive | None = None
    """Minutes of the training split to use; None means all."""


def read_short_clips(utterances: Sequence[Utterance], audited: Path, share: float) -> list[ShortClip]:
    """Choose clips according to `audit.jsonl` in the folder `audited`. Raises SonorantError if no aligner ran."""
    if share == 0:
        return []
    rows = {row.id: row for row in read_audit(audited / "audit.jsonl")}
    if not any(row.words for row in rows.values()):
        raise SonorantError(
            f"features.short_clips: {share:g} requires an aligner to locate words, but none ran (the reason is in "
            f"{audited / 'summary.json'}); set it to 0, or audit.sources to [aligner]"
        )
    return choose(utterances, rows, share)


def choose(utterances: Sequence[Utterance], audited: Mapping[str, Audited], share: float) -> list[ShortClip]:
    """Return the clips with the widest gaps: at most one per utterance, and at most `share` of the training utterances.
    No clip has the text of a held-out utterance."""
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
    """Yield clips of an utterance without doubtful words, single words first."""
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
