"""Split a text of any length into phrases to speak one after another, reading no further than needed. A phrase is a
sentence as the frontend delimits it; one too long to wait for is cut at a comma or a word's end."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from sonorant.errors import SonorantError
from sonorant.text.frontend import NOTHING_GIVEN, Frontend, GivenSounds, Phoneme, SpokenText, SpokenUnit
from sonorant.text.markup import PAUSE, pause_seconds
from sonorant.text.written_words import WrittenWord, place_words

LONGEST_PHRASE = 400
"""Characters; a longer sentence, some 25 seconds of speech, is cut."""
SHORTEST_CUT = LONGEST_PHRASE // 4
"""Characters before a cut, at least."""
_FRAGMENT = 4096
_NEXT_WORD = 60
"""Characters of the word after a full stop that suffice to tell whether it begins a sentence."""
_WORDS_BEFORE = 3
"""Words before a full stop that suffice to tell whether it ends a sentence."""
_MAYBE_END = re.compile(r"\s*\n[^\S\n]*\n\s*|[.?!…؟。！？]+[\"'”’»)\]]*\s+")
_SILENT = re.compile(r"[\s.,;:?!…\"'()\[\]*_–—-]*")
"""What no frontend speaks; long rows of it need not be analysed."""
_WORD = re.compile(rf"\S{{1,{_NEXT_WORD}}}")
_LESSER_BORDERS = (
    re.compile(r"(?:[,;:)\]]|(?<=\s)-{1,3}|[–—])\s+|(?<=[^\W\d])[–—]+(?=[^\W\d])"),  # a phrase ends
    re.compile(r"(?<=[^\W\d])\s+(?=[^\W\d])"),  # a word ends, but not between a number and its unit
    re.compile(r"\s+"),
    re.compile(r"[^\w\s]+"),  # scripts without spaces, addresses
)
"""Where a long sentence is cut: at the last place of the first kind that occurs."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """The text that is spoken in one breath."""

    spoken: SpokenText
    """Without phonemes where nothing can be spoken; then it only lists the unknown characters. A pause that is marked
    inside a sentence is a comma, its unit with `seconds`. The spans of units count from the beginning of the text."""
    goes_on: bool
    """Whether the sentence continues in the next phrase."""
    characters: int
    """Characters of text read for this phrase and for silent text since the last one."""
    pause: float | None = None
    """Seconds of silence that the text marks after it."""
    pause_place: int = 0
    """Where in the text that pause is marked."""
    words: tuple[WrittenWord, ...] = ()
    """The written words that it speaks, where they were asked for."""


def split_phrases(
    text: str | Iterable[str], frontend: Frontend, given: GivenSounds = NOTHING_GIVEN, *, words: bool = False
) -> Iterator[Phrase]:
    """Yield the phrases of a text, or of a text's fragments, which may end anywhere.

    The phrases equal what `frontend.sentences` says of each paragraph. The next fragment is read only when no complete
    sentence is left; a sentence is complete once a word follows it. `given`: sounds of private characters, which may
    grow as fragments are read; pauses are private characters too (`sonorant.text.markup`). `words`: also find the
    written words of each phrase. Raises SonorantError for a word longer than a phrase.
    """

    @lru_cache(maxsize=256)
    def is_end(before: str, after: str) -> bool:
        found = frontend.sentences(f"{before} {after}", given)
        return len(found) > 1 and _words(found[-1]) == _words(frontend.speak(after, given))

    held: Phrase | None = None
    for part, goes_on, start in _parts(_fragments(text), is_end):
        pause = pause_seconds(part[-1]) if PAUSE.match(part[-1:]) else None
        for phrase in _phrases(part if pause is None else part[:-1], goes_on, pause, start, frontend, given, words):
            joined = phrase if held is None else _joined(held, phrase)
            held = joined if _pauses_inside(joined) else None
            if held is None:
                yield joined
    if held is not None:
        yield replace(held, goes_on=False)


def _phrases(
    part: str,
    goes_on: bool,
    pause: float | None,
    start: int,
    frontend: Frontend,
    given: GivenSounds,
    words: bool,
) -> Iterator[Phrase]:
    """The phrases of a part of the text that begins at `start`."""
    characters = len(part) + (pause is not None)
    if _SILENT.fullmatch(part):
        yield Phrase(SpokenText(part.strip(), (), ()), goes_on, characters, pause, start + len(part))
        return
    sentences = frontend.sentences(part, given) or [frontend.speak(part, given)]
    placed: list[tuple[WrittenWord, ...]] = [()] * len(sentences)
    if words:
        placed = place_words(part, start, sentences, given)
    for number, (sentence, own) in enumerate(zip(sentences, placed, strict=True), 1):
        units = tuple(
            replace(
                unit,
                start=unit.start + start,
                end=unit.end + start,
                written=_written(part[unit.start : unit.end], given),
            )
            for unit in sentence.units
        )
        spoken = replace(sentence, units=units)
        last = number == len(sentences)
        yield Phrase(
            spoken, goes_on and last, characters if last else 0, pause if last else None, start + len(part), own
        )


def _written(text: str, given: GivenSounds) -> str:
    return text if text.isascii() else "".join(given[c].written if c in given else c for c in text)


def _pauses_inside(phrase: Phrase) -> bool:
    """Whether the phrase is the beginning of a sentence that goes on after a marked pause."""
    if phrase.pause is None or not phrase.spoken.phonemes or len(phrase.spoken.text) >= LONGEST_PHRASE:
        return False
    return phrase.spoken.phonemes[-1].symbol not in (".", "?", "!")


def _joined(held: Phrase, phrase: Phrase) -> Phrase:
    """A sentence's beginning, the pause after it, and its next part."""
    before, after = held.spoken, phrase.spoken
    if not after.phonemes:  # two pauses in a row, or nothing that can be spoken
        text = SpokenText(before.text, before.phonemes, (*before.unknown, *after.unknown), before.units)
        seconds = (held.pause or 0.0) + (phrase.pause or 0.0)
        characters = held.characters + phrase.characters
        return Phrase(text, phrase.goes_on, characters, seconds, held.pause_place, held.words)
    units, phonemes = before.units, before.phonemes
    if phonemes[-1].symbol == ",":
        units, phonemes = units[:-1], phonemes[:-1]
    count = len(phonemes)
    pause = SpokenUnit(",", held.pause_place, held.pause_place + 1, count, count + 1, held.pause)
    moved = (replace(unit, first=unit.first + count + 1, after=unit.after + count + 1) for unit in after.units)
    spoken = SpokenText(
        f"{before.text} {after.text}",
        (*phonemes, Phoneme(","), *after.phonemes),
        (*before.unknown, *after.unknown),
        (*units, pause, *moved),
    )
    words = (*held.words, *(word.moved(count + 1) for word in phrase.words))
    characters = held.characters + phrase.characters
    return Phrase(spoken, phrase.goes_on, characters, phrase.pause, phrase.pause_place, words)


def _fragments(text: str | Iterable[str]) -> Iterator[str]:
    for fragment in [text] if isinstance(text, str) else text:
        yield from (fragment[start : start + _FRAGMENT] for start in range(0, len(fragment), _FRAGMENT))


def _parts(fragments: Iterable[str], is_end: Callable[[str, str], bool]) -> Iterator[tuple[str, bool, int]]:
    """Parts of the text for the frontend, each with whether its sentence goes on, and its first character's place. A
    marked pause ends a part, as its last character."""
    waiting, place = "", 0
    for fragment in fragments:
        waiting += fragment
        place += len(waiting) - len(waiting.lstrip())
        waiting = waiting.lstrip()
        while cut := _first_cut(waiting, is_end):
            yield waiting[: cut[0]], cut[1], place
            waiting, place = _behind(waiting, cut[0], place)
    while waiting:
        length, goes_on = _first_cut(waiting, is_end, complete=True) or (len(waiting), False)
        yield waiting[:length], goes_on, place
        waiting, place = _behind(waiting, length, place)


def _behind(text: str, cut: int, place: int) -> tuple[str, int]:
    """The text behind a cut without blanks before it, and its place."""
    rest = text[cut:].lstrip()
    return rest, place + len(text) - len(rest)


def _first_cut(text: str, is_end: Callable[[str, str], bool], *, complete: bool = False) -> tuple[int, bool] | None:
    """Length of the first part and whether its sentence goes on; None if there is no cut or more text is needed."""
    if pause := PAUSE.search(text, 0, LONGEST_PHRASE):
        before = text[: pause.start()]
        return _first_cut(before, is_end, complete=True) or (pause.end(), True)
    for border in _MAYBE_END.finditer(text, 0, LONGEST_PHRASE):
        if border[0].count("\n") > 1:
            return border.end(), False
        after = _WORD.match(text, border.end())
        unfinished = after is None or (after.end() == len(text) and len(after[0]) < _NEXT_WORD)
        if unfinished and not complete:
            return None
        if after and is_end(" ".join(text[: border.end()].split()[-_WORDS_BEFORE:]), after[0]):
            return border.end(), False
    if len(text) <= LONGEST_PHRASE:
        return None
    for border_kind in _LESSER_BORDERS:
        borders = [border.end() for border in border_kind.finditer(text, SHORTEST_CUT, LONGEST_PHRASE)]
        if borders:
            return borders[-1], True
    word = text[SHORTEST_CUT:LONGEST_PHRASE]
    raise SonorantError(
        f"a word of more than {len(word)} characters cannot be spoken: '...{word[:20]}...'; put spaces into it"
    )


def _words(spoken: SpokenText) -> int:
    return sum(phoneme.word_start for phoneme in spoken.phonemes)
