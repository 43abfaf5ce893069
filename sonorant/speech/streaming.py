"""Speech as a stream of chunks, computed phrase by phrase."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from sonorant.audio.arrays import Floats, Integers
from sonorant.errors import SonorantError
from sonorant.speech.request import CHUNK, FASTEST, MOST_PITCH, SLOWEST, Allowance, SpeechRequest
from sonorant.speech.speaking import FinishReason, Marking, Speaking, fade
from sonorant.speech.word_times import Timekeeper, WordTiming
from sonorant.text import SymbolTable
from sonorant.text.arriving import Lull
from sonorant.text.frontend import Phoneme, SpokenUnit, named
from sonorant.text.markup import MarkedText, Prosody
from sonorant.text.phrases import Phrase, split_phrases
from sonorant.text.written_words import WrittenWord

if TYPE_CHECKING:
    from sonorant.speech.voice import Voice


PAUSE_SECONDS = 0.15
PARAGRAPH_SECONDS = 0.45
"""Seconds of silence between two sentences or paragraphs, in addition to the silence that the voice produces."""
_NO_SAMPLES: Floats = np.zeros(0, np.float32)
_PHRASE_END: Floats = np.zeros(0, np.float32)
_Part = Floats | Lull | int
"""An int is a pause of so many samples."""
_log = logging.getLogger(__name__)


class Speech(Iterator[Floats]):
    """Iterator over a text's speech in chunks, float32 (S,) in -1..1, computed on demand. If the text cannot be spoken
    or a limit is reached, SonorantError is raised after the preceding speech."""

    def __init__(self, voice: Voice, request: SpeechRequest) -> None:
        """Check the request and compute nothing yet. Raises SonorantError if the voice does not support it."""
        self.sample_rate = voice.sample_rate
        self.unknown: dict[str, None] = {}
        """Characters left out so far, in order of appearance."""
        self.taken = Allowance(request.limits)
        self.finish_reasons: list[FinishReason] = []
        """Finish reason of each sentence so far; a long sentence may count as several."""
        self.warnings: list[str] = []
        self.completed: tuple[WordTiming, ...] = ()
        """Words that ended within the last chunk; empty without `timings`."""
        self.silent = False
        """Whether nothing in the text can be spoken."""
        if request.timings and voice.why_untimed:
            raise SonorantError(f"no timings: {voice.why_untimed}")
        self._times = Timekeeper(self.sample_rate) if request.timings else None
        self._computed = self._returned = 0  # samples
        self._voice, self._request = voice, request
        self._frontend = voice.frontend_with(request.lexicon) if request.lexicon else None  # None: loaded when needed
        self._speaker = voice.speaker_id(request.speaker)
        self._arrives = not isinstance(request.text, str)
        self._silent_seconds = 0.0
        self._speaking = voice.speaking
        self._speaking.check(request)
        self._chunks = _chunks(_faded(self._checked(self._parts()), fade(self.sample_rate)), request.chunk)

    def __next__(self) -> Floats:
        while not len(samples := self.advance()):
            pass
        return samples

    def advance(self) -> Floats:
        """Return the next chunk, or no samples if the text so far is spoken and more may arrive, so that a server can
        wait for text elsewhere."""
        self.completed = ()
        with self.taken:
            samples = next(self._chunks)
        self._returned += len(samples)
        if self._times:
            self.completed = self._times.completed(self._returned)
        return samples

    def close(self) -> None:
        """Stop synthesis, free memory, and close the text if it is a generator."""
        self._chunks.close()
        if isinstance(self._request.text, Generator):
            self._request.text.close()

    def _parts(self) -> Iterator[_Part]:
        request, frontend = self._request, self._frontend or self._voice.frontend
        check = partial(check_prosody, self._speaking, request, self._voice.description.family)
        marked = MarkedText(self.taken.read(request.text), frontend, markup=request.markup, check_prosody=check)
        marks, unspeakable = marks_of(self._speaking), ""
        gap: float | None = None  # seconds of marked silence before the next passage
        usual, first = 0.0, True
        for phrase in split_phrases(marked, frontend, marked.given, words=bool(self._times), lines=request.lines):
            if isinstance(phrase, Lull):
                yield phrase
                continue
            self._add_unknown(phrase.spoken.unknown)
            passages = list(passages_of(phrase, marked, self._voice.symbols, marks))
            self.taken.take_piece(phrase.characters, sum(len(passage.tokens_N3) for passage in passages))
            if not passages:
                unspeakable = unspeakable or phrase.spoken.text or "".join(phrase.spoken.unknown)
            for passage in passages:
                if gap is not None or (usual and self._speech_seconds):
                    yield self._silence(usual if gap is None else gap)
                if self._times:
                    over = passage is passages[-1] and not phrase.goes_on
                    self._times.begin(passage.words, passage.phonemes, self._computed, ends_sentence=over)
                self._add_result(
                    (
                        yield from self._speaking.parts(
                            passage.tokens_N3.astype(np.int64),
                            request,
                            self.taken,
                            speaker=self._speaker,
                            first=first or (self._arrives and passage is passages[0]),
                            marking=passage.marking,
                            times=self._times,
                        )
                    )
                )
                first, gap, usual = False, passage.pause, 0.0 if phrase.goes_on else PAUSE_SECONDS
            if phrase.ends_paragraph:
                usual = PARAGRAPH_SECONDS
            if passages and self._arrives:
                yield _PHRASE_END
            if phrase.pause is not None:
                gap = (gap or 0.0) + phrase.pause
        if not self._speech_seconds:
            if self.finish_reasons or not (request.silence and self.taken.characters):
                raise self._nothing(unspeakable)
            self.silent, gap = True, gap or request.silence
            self.warnings.append("nothing in the text can be spoken")
        if gap is not None:
            yield self._silence(gap)

    def _silence(self, seconds: float) -> int:
        self.taken.take_audio(seconds)
        self._silent_seconds += seconds
        return round(seconds * self.sample_rate)

    @property
    def _speech_seconds(self) -> float:
        return self.taken.audio_seconds - self._silent_seconds

    def _add_result(self, finish_reason: FinishReason) -> None:
        self.finish_reasons.append(finish_reason)
        if finish_reason != FinishReason.WELL:
            self.warnings.append(f"sentence {len(self.finish_reasons)} did not go well ({finish_reason.name.lower()})")
            _log.warning("%s and is returned as it is; another seed may help", self.warnings[-1])

    def _checked(self, parts: Iterator[_Part]) -> Iterator[_Part]:
        for part in parts:
            if part is _PHRASE_END or isinstance(part, Lull | int):
                self._computed += part if isinstance(part, int) else 0
                yield part
                continue
            if not np.isfinite(part).all():
                raise SonorantError(
                    "the voice's samples contain NaN or infinity; verify the voice, or use another variant"
                )
            self._computed += len(part)
            yield np.clip(part, -1.0, 1.0)
            self.taken.check_work()

    def _add_unknown(self, characters: Iterable[str]) -> None:
        new = [character for character in characters if character not in self.unknown]
        if new:
            self.unknown.update(dict.fromkeys(new))
            _log.warning("left out characters that cannot be spoken: %s", named(new))

    def _nothing(self, unspeakable: str) -> SonorantError:
        if self.finish_reasons:
            return SonorantError(
                "the voice stopped before it produced any speech; train it further, or give a longer text"
            )
        if not unspeakable:
            return SonorantError("the text is empty; give at least one word")
        shown = unspeakable if len(unspeakable) <= 40 else unspeakable[:40] + "..."
        return SonorantError(
            f"nothing in the text can be spoken in {self._voice.description.frontend.language}: {shown!r}"
        )


def _faded(parts: Iterator[_Part], gain: Floats) -> Iterator[Floats | Lull]:
    """Fill each pause with silence, into which mirrored sound fades from both sides, so that a voice's noise does not
    stop and start suddenly."""
    most = len(gain)
    before = end = _NO_SAMPLES  # the last samples; the end of a pause, which needs the next samples
    for part in parts:
        if isinstance(part, int):
            yield end
            end = np.zeros(min(most, part), np.float32)
            echo, start = (before[::-1] * gain[: len(before)])[:part], part - len(end)
            end[: len(echo[start:])] = echo[start:]
            yield echo[:start]
            for place in range(len(echo), start, CHUNK):
                yield np.zeros(min(CHUNK, start - place), np.float32)
            before = _NO_SAMPLES
        elif isinstance(part, Lull) or not len(part):
            yield part
        else:
            echo = (part[: len(end)] * gain[: min(len(end), len(part))])[::-1]
            end[len(end) - len(echo) :] += echo
            yield end
            before, end = np.concatenate([before, part[-most:]])[-most:], _NO_SAMPLES
            yield part
    yield end


def _chunks(parts: Iterator[Floats | Lull], size: int) -> Generator[Floats, None, None]:
    """Regroup samples into chunks of `size`; a chunk before a `_PHRASE_END` may be shorter. A lull in the text yields
    an empty chunk."""
    waiting: list[Floats] = []
    count = 0
    for part in chain(parts, [_PHRASE_END]):
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
        if part is _PHRASE_END and count:
            yield np.concatenate(waiting)
            waiting, count = [], 0


@dataclass(frozen=True)
class Passage:
    """A phrase, or the part of it between two marked pauses if the family does not apply pauses itself."""

    tokens_N3: Integers
    """Tokens, including start and end."""
    marking: Marking | None
    pause: float | None
    """Length in seconds of the marked pause after the passage, within the phrase; None if there is none."""
    phonemes: tuple[Phoneme, ...]
    """Phonemes, excluding start and end."""
    words: tuple[WrittenWord, ...]
    """Written words, if requested, with spans in the original text and in `phonemes`."""


def marks_of(speaking: Speaking) -> frozenset[str]:
    marks: frozenset[str] = getattr(speaking, "marks", frozenset())
    return marks


def check_prosody(speaking: Speaking, request: SpeechRequest, family: str, prosody: Prosody) -> None:
    """Raise SonorantError for a marked rate or pitch that the voice does not support."""
    marks = marks_of(speaking)
    if prosody.rate != 1.0 and "rate" not in marks:
        raise SonorantError(f"this voice speaks at its own pace (family {family}): leave out the rate")
    if prosody.pitch and "pitch" not in marks:
        raise SonorantError(f"this voice does not support a given pitch (family {family}): leave out the pitch")
    if not SLOWEST <= (speed := prosody.rate * request.speed) <= FASTEST:
        raise SonorantError(f"the rate makes the total speed {speed:g}; it must be {SLOWEST} to {FASTEST}")
    if abs(pitch := prosody.pitch + request.pitch) > MOST_PITCH:
        raise SonorantError(f"the total pitch is {pitch:+.1f} semitones; it must be at most {MOST_PITCH:g} up or down")


def passages_of(phrase: Phrase, marked: MarkedText, symbols: SymbolTable, marks: frozenset[str]) -> Iterator[Passage]:
    """Split a phrase into passages; yield none if nothing in it can be spoken. The phrase's spans refer to the plain
    text of `marked`."""
    phonemes, units, words = phrase.spoken.phonemes, list(phrase.spoken.units), in_original(phrase.words, marked)
    while phonemes:
        count = next(
            (number for number, unit in enumerate(units, 1) if unit.seconds is not None and "pause" not in marks),
            len(units),
        )
        own, units = units[:count], units[count:]
        after = own[-1].after - own[0].first if own else len(phonemes)
        pause = own[-1].seconds if own and "pause" not in marks else None
        tokens = symbols.to_tokens(phonemes[:after])
        spoken = tuple(word for word in words if word.phonemes[0] < after)
        yield Passage(tokens, _marking(own, marked, len(tokens)), pause, phonemes[:after], spoken)
        phonemes, words = phonemes[after:], [word.moved(-after) for word in words[len(spoken) :]]


def in_original(words: Sequence[WrittenWord], marked: MarkedText) -> list[WrittenWord]:
    """Return the words with spans in the original text; words from the same part of that text are joined."""
    found: list[WrittenWord] = []
    for word in words:
        first, last = marked.source(word.first, word.last)
        own = replace(word, first=first, last=last)
        if found and first < found[-1].last:
            before = found.pop()
            own = replace(
                before,
                text=f"{before.text} {word.text}",
                written=f"{before.written} {word.written}",
                last=max(before.last, last),
                phonemes=(before.phonemes[0], word.phonemes[1]),
            )
        found.append(own)
    return found


def _marking(units: list[SpokenUnit], marked: MarkedText, tokens: int) -> Marking | None:
    prosody = [marked.prosody(unit.start) for unit in units]
    if all(found == Prosody() for found in prosody) and all(unit.seconds is None for unit in units):
        return None
    rate_N, pitch_N = np.ones(tokens, np.float32), np.zeros(tokens, np.float32)
    seconds_N = np.full(tokens, np.nan, np.float32)
    for unit, found in zip(units, prosody, strict=True):
        own = slice(1 + unit.first - units[0].first, 1 + unit.after - units[0].first)
        rate_N[own], pitch_N[own] = found.rate, found.pitch
        if unit.seconds is not None:
            seconds_N[own] = unit.seconds
    for values_N in (rate_N, pitch_N):  # start and end get the values of their neighbours
        values_N[0], values_N[-1] = values_N[1], values_N[-2]
    return Marking(rate_N, pitch_N, seconds_N)
