"""Speech that leaves in chunks while the rest is not yet computed."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from sonorant.arrays import Floats
from sonorant.decoding.advance import FinishReason
from sonorant.errors import SonorantError
from sonorant.runtime.speaking import Allowance, Limits, Manner
from sonorant.runtime.timings import Timekeeper, WordTiming
from sonorant.text.phrases import split_phrases

if TYPE_CHECKING:
    from sonorant.runtime.voice import Voice


CHUNK = 4096
"""Samples a chunk, about a fifth of a second."""
PAUSE_SECONDS = 0.15
"""Silence between two sentences, beside what the voice itself leaves."""
_log = logging.getLogger(__name__)


class Speech(Iterator[Floats]):
    """Iterator of a text's samples float32 (S,) in -1..1, computed as they are asked for.

    Nothing is computed ahead, so whoever stops asking stops the work; `close` also frees what it holds. Raises
    SonorantError if the text cannot be spoken or a limit is reached, after the speech before it was given.
    """

    def __init__(
        self,
        voice: Voice,
        text: str | Iterable[str],
        *,
        manner: Manner,
        limits: Limits,
        chunk: int,
        timings: bool = False,
    ) -> None:
        """Prepare; nothing is computed yet. `text` may come in fragments, which are asked for when speech needs them;
        `chunk`: samples of each chunk but the last; `timings`: fill `completed`. Raises SonorantError if the voice
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
        self._voice, self._manner = voice, manner
        self._speaking = voice.speaking
        self._speaking.check(manner)
        self._chunks = _chunks(self._checked(self._parts(text)), chunk)

    def __next__(self) -> Floats:
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

    def _parts(self, text: str | Iterable[str]) -> Iterator[Floats]:
        """The speech in parts as they are computed."""
        pause = np.zeros(round(PAUSE_SECONDS * self.sample_rate), np.float32)
        first, paused, met = True, False, ""
        timed = {"times": self._times} if self._times else {}  # a family of somebody else's may not know it
        for phrase in split_phrases(self.taken.read(text), self._voice.frontend, words=bool(self._times)):
            self._tell_unknown(phrase.spoken.unknown)
            tokens = (
                self._voice.symbols.to_tokens(phrase.spoken.phonemes)
                if phrase.spoken.phonemes
                else np.zeros((0, 3), np.int16)
            )
            self.taken.take_piece(phrase.characters, len(tokens))
            if not len(tokens):
                met = met or phrase.spoken.text or "".join(phrase.spoken.unknown)
                continue
            if paused and self.taken.audio_seconds:
                self.taken.take_audio(PAUSE_SECONDS)
                yield pause
            if self._times:
                self._times.begin(phrase, self._made)
            parts = self._speaking.parts(tokens.astype(np.int64), self._manner, self.taken, first=first, **timed)
            self._judge((yield from parts))
            first, paused = False, not phrase.goes_on
        if not self.taken.audio_seconds:
            raise self._nothing(met)

    def _judge(self, finish_reason: FinishReason) -> None:
        self.finish_reasons.append(finish_reason)
        if finish_reason != FinishReason.WELL:
            self.warnings.append(f"sentence {len(self.finish_reasons)} did not go well ({finish_reason.name.lower()})")
            _log.warning("%s and is given as it is; another seed may help", self.warnings[-1])

    def _checked(self, parts: Iterator[Floats]) -> Iterator[Floats]:
        """The parts in -1..1, as long as they are numbers and there is time left."""
        for samples in parts:
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


def _chunks(parts: Iterator[Floats], size: int) -> Generator[Floats, None, None]:
    """The same samples in chunks of one size, the last one shorter where they do not divide."""
    waiting: list[Floats] = []
    count = 0
    for part in parts:
        waiting.append(part)
        count += len(part)
        if count >= size:
            joined = np.concatenate(waiting)
            whole = count - count % size
            yield from np.split(joined[:whole], range(size, whole, size))
            waiting, count = [joined[whole:]], count - whole
    if count:
        yield np.concatenate(waiting)
