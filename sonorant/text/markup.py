"""Markup in a text: phonemes and pauses in double brackets, or SSML.

Phrase splitting and frontends receive plain text, in which each mark is one private-use character.

    Call [[ʃ ɪ v ˈɔ n]] now. [[pause 0.5]] Then wait.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from sonorant.errors import SonorantError
from sonorant.text.arriving import Fragment, Lull
from sonorant.text.frontend import Frontend, Phoneme, Sounds
from sonorant.text.pieces import Span
from sonorant.text.user_lexicon import parse_phonemes

MOST_PAUSE = 60.0
"""Maximum length of a marked pause in seconds."""
LONGEST_MARK = 400
"""Maximum number of characters in double brackets."""
_SOUNDS_FIRST, _SOUNDS = 0xF0000, 0xF000
_PAUSES_FIRST = 0x100000
"""Character for a pause of 0 ms; each following character is 1 ms longer."""
PAUSE = re.compile("[\U00100000-\U0010fffd]")
_PRIVATE = re.compile("[\U000f0000-\U0010fffd]")
_PAUSE_MARK = re.compile(r"pause\b\s*(.*)", re.DOTALL)
_TIME = re.compile(r"\+?(\d{1,6}(?:\.\d{1,6})?|\.\d{1,6})\s*(s|ms)?")
_SSML = re.compile(r"\s*<(?:\?xml|!DOCTYPE|speak)[\s>/]")
_TAG = re.compile(
    r"</?(?:audio|break|emphasis|lang|mark|p|phoneme|prosody|s|say-as|sub(?=\s+alias)|voice)(?:[\s/][^<>]*)?>"
)
_OPEN_TAG = re.compile(r"</?[a-z-]*(?:(?<=[a-z])[\s/][^<>]{0,400})?\Z")
_SSML_SHOWS = len("<!DOCTYPE ")
"""Number of leading characters that decide whether a text is SSML."""


@dataclass(frozen=True, slots=True)
class Prosody:
    rate: float = 1.0
    """Speed factor; 2.0 is twice as fast."""
    pitch: float = 0.0
    """Shift in semitones."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Plain characters that replace the span `source` of the original, one by one or as a whole."""

    source: Span
    one_by_one: bool
    prosody: Prosody


CheckProsody = Callable[[Prosody], None]
"""Function that raises SonorantError if the voice does not support the prosody."""


class MarkedText:
    """Plain text of a text with markup. Can be iterated once; yields fragments and lulls (gaps in arriving text). A
    mark or SSML document is held back until it is complete. Raises SonorantError naming the position of an invalid
    mark."""

    def __init__(
        self,
        fragments: Iterable[Fragment],
        frontend: Frontend,
        *,
        markup: bool = True,
        check_prosody: CheckProsody = lambda _: None,
    ) -> None:
        """`markup`: if False, brackets and tags are ordinary characters. `check_prosody`: called for each prosody in
        SSML."""
        self.given: dict[str, Sounds] = {}
        self.frontend = frontend
        self._fragments = iter(fragments)
        self._markup, self._check_prosody = markup, check_prosody
        self._places: list[int] = []
        self._runs: list[_Run] = []
        self._length = 0

    def __iter__(self) -> Iterator[Fragment]:
        if not self._markup:
            for fragment in self._fragments:
                yield fragment if isinstance(fragment, Lull) else self._characters(fragment)
            return
        begin = ""
        for fragment in self._fragments:
            if isinstance(fragment, Lull):
                yield fragment
                continue
            begin += fragment
            if not "<".startswith(begin.lstrip()[:1]) or len(begin.lstrip()) >= _SSML_SHOWS:
                break
        fragments = chain[Fragment]([begin], self._fragments)
        if _SSML.match(begin):
            from sonorant.text.ssml import read_ssml

            yield from read_ssml(fragments, self, self._check_prosody)
        else:
            yield from self._without_brackets(fragments)

    def prosody(self, place: int) -> Prosody:
        return self._runs[bisect_right(self._places, place) - 1].prosody

    def source(self, first: int, end: int) -> Span:
        """Return the span of plain characters in the original text; an empty span is placed before `first`."""
        start = self._source(first)[0]
        return start, max(self._source(end - 1)[1], start) if end > first else start

    def _source(self, place: int) -> Span:
        number = bisect_right(self._places, place) - 1
        run = self._runs[number]
        at = run.source[0] + place - self._places[number]
        return (at, at + 1) if run.one_by_one else run.source

    def characters(self, text: str, source: Span, prosody: Prosody, *, one_by_one: bool = True) -> str:
        """Add plain text that replaces `source`. Return the text with its private-use characters replaced by U+FFFD."""
        last = self._runs[-1] if self._runs else None
        if text and not (
            last and one_by_one and last.one_by_one and last.source[1] == source[0] and last.prosody == prosody
        ):
            self._places.append(self._length)
            self._runs.append(_Run(source, one_by_one, prosody))
        elif text and last:
            self._runs[-1] = _Run((last.source[0], source[1]), True, prosody)
        self._length += len(text)
        return text if text.isascii() else _PRIVATE.sub("\ufffd", text)

    def mark(self, character: str, source: Span, prosody: Prosody) -> str:
        self._places.append(self._length)
        self._runs.append(_Run(source, False, prosody))
        self._length += 1
        return character

    def sounds(self, phonemes: tuple[Phoneme, ...], written: str) -> str:
        """Return a new private-use character for `phonemes`."""
        character = chr(_SOUNDS_FIRST + len(self.given) % _SOUNDS)
        self.given[character] = Sounds(phonemes, written)
        return character

    def _characters(self, fragment: str) -> str:
        return self.characters(fragment, (self._length, self._length + len(fragment)), Prosody())

    def _without_brackets(self, fragments: Iterable[Fragment]) -> Iterator[Fragment]:
        waiting, place = "", 0
        for fragment in chain[Fragment | None](fragments, [None]):
            if isinstance(fragment, Lull):
                yield fragment
                continue
            waiting += fragment or ""
            while (opening := waiting.find("[[")) >= 0:
                closing = waiting.find("]]", opening)
                if closing < 0 or closing - opening > LONGEST_MARK:
                    if fragment is None or len(waiting) - opening > LONGEST_MARK:
                        raise SonorantError(f"character {place + opening + 1}: [[ without ]]; {_HINT}")
                    break
                if opening:
                    yield self._untagged(waiting[:opening], place)
                source = (place + opening, place + closing + 2)
                yield self.mark(self._bracketed(waiting[opening + 2 : closing].strip(), source[0]), source, Prosody())
                waiting, place = waiting[closing + 2 :], source[1]
            ready = opening if opening >= 0 else len(waiting) - (fragment is not None and waiting.endswith("["))
            if fragment is not None and (tag := _OPEN_TAG.search(waiting, 0, ready)):
                ready = tag.start()
            if ready:
                yield self._untagged(waiting[:ready], place)
                waiting, place = waiting[ready:], place + ready

    def _untagged(self, text: str, place: int) -> str:
        if tag := _TAG.search(text):
            raise SonorantError(
                f"character {place + tag.start() + 1}: {tag[0][:40]} outside <speak>; put <speak> and </speak> around "
                "the text, or switch markup off"
            )
        return self.characters(text, (place, place + len(text)), Prosody())

    def _bracketed(self, mark: str, place: int) -> str:
        try:
            if pause := _PAUSE_MARK.fullmatch(mark):
                return pause_character(pause[1])
            return self.sounds(parse_phonemes(mark, self.frontend.symbols, self.frontend.language), mark)
        except SonorantError as error:
            raise SonorantError(f"character {place + 1}: [[{mark[:40]}]]: {error}; {_HINT}") from None


_HINT = "write phonemes or a pause in double brackets, such as [[h ə l ˈoʊ]] or [[pause 0.5]]"


def pause_character(time: str) -> str:
    """Return the private-use character of a pause written `0.5`, `0.5s` or `500ms`. Raises SonorantError for an invalid
    time."""
    match = _TIME.fullmatch(time.strip())
    seconds = float(match[1]) / (1000 if match[2] == "ms" else 1) if match else -1.0
    if not 0 <= seconds <= MOST_PAUSE:
        raise SonorantError(f"'{time[:20]}' is not a pause; write 0 to {MOST_PAUSE:g} seconds, such as 0.5s or 500ms")
    return chr(_PAUSES_FIRST + round(1000 * seconds))


def pause_seconds(character: str) -> float:
    return (ord(character) - _PAUSES_FIRST) / 1000
