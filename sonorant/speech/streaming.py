"""Speech that leaves in chunks while the rest is not yet computed."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.errors import SonorantError
from sonorant.speech.decoding.advance import FinishReason
from sonorant.speech.passages import check_prosody, marks_of, passages_of
from sonorant.speech.speaking import Allowance, Limits, Manner
from sonorant.speech.word_times import Timekeeper, WordTiming
from sonorant.text.arriving import Fragment, Lull
from sonorant.text.markup import MarkedText
from sonorant.text.phrases import split_phrases

if TYPE_CHECKING:
    from sonorant.speech.voice import Voice


CHUNK = 4096
"""Samples a chunk, about a fifth of a second."""
PAUSE_SECONDS = 0.15
"""Silence between two sentences, beside what the voice itself leaves."""
_NO_SAMPLES: Floats = np.zeros(0, np.float32)
_OVER: Floats = np.zeros(0, np.float32)
"""The part behind a phrase, none of whose samples shall wait for text that is still to come."""
_Part = Floats | Lull
_log = logging.getLogger(__name__)


class Speech(Iterator[Floats]):
    """Iterator of a text's samples float32 (S,) in -1..1, computed as they are asked for.

    Nothing is computed ahead, so whoever stops asking stops the work; `close` also frees what it holds. Raises
    SonorantError if the text cannot be spoken or a limit is reached, after the speech before it was given.
    """

    def __init__(
        self,
        voice: Voice,
        text: str | Iterable[Fragment],
        *,
        manner: Manner,
        limits: Limits,
        chunk: int,
        markup: bool = True,
        timings: bool = False,
    ) -> None:
        """Prepare; nothing is computed yet. `text` may come in fragments, which are asked for when speech needs them;
        `chunk`: samples of each chunk but the last, and where text comes in fragments but a phrase's last; `markup`:
        whether marks in the text are read as such; `timings`: fill `completed`. Raises SonorantError if the voice
        cannot speak in this manner, or does not tell when its words are spoken."""
        if chunk < 1:
            raise SonorantError(f"chunk must be at least 1 sample, not {chunk}")
        self.sample_rate = voice.sample_rate
        self.unknown: dict[str, None] = {}
        """Characters that could not be spoken so far, in order of appearance."""
        self.taken = Allowance(limits)
        self.finish_reasons: list[FinishReason] = []
        """How each sentence spoken so far went; a long one may count as several."""
        self.warnings: list[str] = []
        """Those that did not go well, a line each."""
        self.completed: tuple[WordTiming, ...] = ()
        """The words that were over with the chunk given last; always empty without `timings`."""
        if timings and voice.why_untimed:
            raise SonorantError(f"no timings: {voice.why_untimed}")
        self._times = Timekeeper(self.sample_rate) if timings else None
        self._made = self._given = 0  # samples
        self._voice, self._manner, self._markup = voice, manner, markup
        self._arrives = not isinstance(text, str)
        self._silent_seconds = 0.0
        self._speaking = voice.speaking
        self._speaking.check(manner)
        self._chunks = _chunks(self._checked(self._parts(text)), chunk)

    def __next__(self) -> Floats:
        while not len(samples := self.advance()):
            pass
        return samples

    def advance(self) -> Floats:
        """As `next`, but without samples where the text has a lull: whoever serves many waits for text elsewhere."""
        self.completed = ()
        with self.taken:
            samples = next(self._chunks)
        self._given += len(samples)
        if self._times:
            self.completed = self._times.completed(self._given)
        return samples

    def close(self) -> None:
        """End the work; what was not given is never computed."""
        self._chunks.close()

    def _parts(self, text: str | Iterable[Fragment]) -> Iterator[_Part]:
        """The speech in parts as they are computed."""
        timed = {"times": self._times} if self._times else {}  # a family of somebody else's may not know it
        check = partial(check_prosody, self._speaking, self._manner, self._voice.description.family)
        marked = MarkedText(self.taken.read(text), self._voice.frontend, markup=self._markup, check_prosody=check)
        marks, met = marks_of(self._speaking), ""
        gap: float | None = None  # seconds of silence that the text marks before what comes
        first, paused = True, False
        for phrase in split_phrases(marked, self._voice.frontend, marked.given, words=bool(self._times)):
            if isinstance(phrase, Lull):
                yield phrase
                continue
            self._tell_unknown(phrase.spoken.unknown)
            passages = list(passages_of(phrase, marked, self._voice.symbols, marks))
            self.taken.take_piece(phrase.characters, sum(len(passage.tokens_N3) for passage in passages))
            if not passages:
                met = met or phrase.spoken.text or "".join(phrase.spoken.unknown)
            for passage in passages:
                if gap is not None or (paused and self._speech_seconds):
                    yield from self._silence(PAUSE_SECONDS if gap is None else gap)
                manner = replace(self._manner, marking=passage.marking)
                if self._times:
                    over = passage is passages[-1] and not phrase.goes_on
                    self._times.begin(passage.words, passage.phonemes, self._made, ends_sentence=over)
                tokens = passage.tokens_N3.astype(np.int64)
                soon = first or (self._arrives and passage is passages[0])
                parts = self._speaking.parts(tokens, manner, self.taken, first=soon, **timed)
                self._judge((yield from parts))
                first, paused, gap = False, not phrase.goes_on, passage.pause
            if passages and self._arrives:
                yield _OVER
            if phrase.pause is not None:
                gap = (gap or 0.0) + phrase.pause
        if not self._speech_seconds:
            raise self._nothing(met)
        if gap is not None:
            yield from self._silence(gap)

    def _silence(self, seconds: float) -> Iterator[Floats]:
        """Silence that the text marks, or that parts sentences."""
        self.taken.take_audio(seconds)
        self._silent_seconds += seconds
        left = round(seconds * self.sample_rate)
        while left > 0:
            yield np.zeros(min(left, CHUNK), np.float32)
            left -= CHUNK

    @property
    def _speech_seconds(self) -> float:
        """Of what the voice said itself."""
        return self.taken.audio_seconds - self._silent_seconds

    def _judge(self, finish_reason: FinishReason) -> None:
        self.finish_reasons.append(finish_reason)
        if finish_reason != FinishReason.WELL:
            self.warnings.append(f"sentence {len(self.finish_reasons)} did not go well ({finish_reason.name.lower()})")
            _log.warning("%s and is given as it is; another seed may help", self.warnings[-1])

    def _checked(self, parts: Iterator[_Part]) -> Iterator[_Part]:
        """The parts in -1..1, as long as they are numbers and there is time left."""
        for samples in parts:
            if samples is _OVER or isinstance(samples, Lull):
                yield samples
                continue
            if not np.isfinite(samples).all():
                raise SonorantError(
                    "the voice's samples hold NaN or infinity; verify the voice, or take another variant"
                )
            self._made += len(samples)
            yield np.clip(samples, -1.0, 1.0)
            self.taken.check_work()

    def _tell_unknown(self, characters: Iterable[str]) -> None:
        new = [character for character in characters if character not in self.unknown]
        if new:
            self.unknown.update(dict.fromkeys(new))
            _log.warning("left out what cannot be spoken: %s", " ".join(f"{ascii(c)[1:-1]} ({c})" for c in new))

    def _nothing(self, met: str) -> SonorantError:
        if self.finish_reasons:
            return SonorantError(
                "the voice ends before it has said anything; train it further, or give it more than this text"
            )
        if not met:
            return SonorantError("the text is empty; give at least one word")
        shown = met if len(met) <= 40 else met[:40] + "..."
        return SonorantError(
            f"nothing in the text can be spoken in {self._voice.description.frontend.language}: {shown!r}"
        )


def _chunks(parts: Iterator[_Part], size: int) -> Generator[Floats, None, None]:
    """The same samples in chunks of one size, the last one, and that before each `_OVER`, shorter where they do not
    divide; an empty one for each lull."""
    waiting: list[Floats] = []
    count = 0
    for part in chain(parts, [_OVER]):
        if isinstance(part, Lull):
            yield _NO_SAMPLES
            continue
        waiting.append(part)
        count += len(part)
        if count >= size:
            joined = np.concatenate(waiting)
            whole = count - count % size
            yield from np.split(joined[:whole], range(size, whole, size))
            waiting, count = [joined[whole:]], count - whole
        if part is _OVER and count:
            yield np.concatenate(waiting)
            waiting, count = [], 0
