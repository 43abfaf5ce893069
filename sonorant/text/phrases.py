"""Split text of any length into phrases, reading no further than needed. A phrase is a sentence as found by the
frontend; a long sentence is cut at a comma or between words."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from sonorant.errors import SonorantError
from sonorant.text.arriving import Fragment, Lull
from sonorant.text.frontend import NOTHING_GIVEN, Frontend, GivenSounds, Phoneme, SpokenText, SpokenUnit, as_written
from sonorant.text.markup import PAUSE, pause_seconds
from sonorant.text.written_words import WrittenWord, place_words

LONGEST_PHRASE = 400
"""Maximum number of characters in a phrase, about 25 seconds of speech."""
SHORTEST_CUT = LONGEST_PHRASE // 4
"""Minimum number of characters before a cut in a long sentence."""
_NEXT_WORD = 60
"""Maximum number of characters to read of the word after a full stop."""
_WORDS_BEFORE = 3
"""Number of words before a full stop that decide whether the sentence ends there."""
_MAYBE_END = [re.compile(rf"\s*{newline}\s*|[.?!…؟。！？]+[\"'”’»)\]]*\s+") for newline in (r"\n[^\S\n]*\n", r"\n")]
"""Possible ends of a sentence: with an empty line, and with any line end."""
_PARAGRAPH_END = re.compile(r"\n[^\S\n\u2028]*\n\s*\Z")
"""Blank line; `<s>` of SSML has a line separator in it."""
_ENDS_FOR_NOW = re.compile(r"(?:[.?!؟。！？]|([:…]))[\"'”’»)\]]*\s*\Z")
_WORD = re.compile(rf"\S{{1,{_NEXT_WORD}}}")
_LESSER_BORDERS = (
    re.compile(r"(?:[,;:)\]]|(?<=\s)-{1,3}|[–—])\s+|(?<=[^\W\d])[–—]+(?=[^\W\d])"),  # a phrase ends
    re.compile(r"(?<=[^\W\d])\s+(?=[^\W\d])"),  # a word ends, but not between a number and its unit
    re.compile(r"\s+"),
    re.compile(r"[^\w\s]+"),  # scripts without spaces, addresses
)
"""Where to cut a long sentence: at the last match of the first pattern that matches."""
_CAPITAL, _SMALL = ("Smith", "B."), ("it", "five")
"""Examples of the words after an abbreviation that decide whether the sentence ends there: capitalised (name, initial)
or not (word, number)."""

IsEnd = Callable[[str, str], bool]
"""Function that returns whether a sentence ends between words and the word after them."""
Cut = tuple[int, bool]
"""Number of characters before the cut, and whether the sentence continues after it."""
_FRAGMENT = 4096
_SILENT = re.compile(r"[\s.,;:?!…\"'()\[\]*_–—-]*")
"""Characters that are silent in every frontend."""


class Part(NamedTuple):
    """Text passed to the frontend in one call."""

    text: str
    """Text; may end with a marked pause."""
    goes_on: bool
    """Whether the sentence continues in the next part."""
    start: int
    """Position of the part in the whole text."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """Text that is spoken as one unit."""

    spoken: SpokenText
    """Spoken text; it has no phonemes if all characters are unknown. A marked pause inside a sentence becomes a comma
    whose unit has `seconds`. Spans of units refer to the whole text."""
    goes_on: bool
    """Whether the sentence continues in the next phrase."""
    characters: int
    """Number of characters read since the previous phrase."""
    pause: float | None = None
    """Length in seconds of a marked pause after the phrase."""
    pause_place: int = 0
    """Position in the text of the mark for `pause`."""
    words: tuple[WrittenWord, ...] = ()
    """Written words, if requested."""
    ends_paragraph: bool = False


def split_phrases(
    text: str | Iterable[Fragment],
    frontend: Frontend,
    given: GivenSounds = NOTHING_GIVEN,
    *,
    words: bool = False,
    lines: bool = False,
) -> Iterator[Phrase | Lull]:
    """Yield the phrases of a text and its lulls (gaps in arriving text). The text may arrive in fragments that end
    anywhere.

    The phrases are the `frontend.sentences` of each paragraph, regardless of the fragments. The next fragment is read
    when no complete sentence is left. The start of the next word or a long lull completes a sentence. `given`: sounds
    of private-use characters; may grow during iteration. `words`: whether to find the written words. `lines`: whether a
    line end ends a sentence. Raises SonorantError for a word longer than a phrase.
    """
    held: Phrase | None = None
    for part in parts_of(_fragments(text), frontend, given, lines=lines):
        if isinstance(part, Lull):
            yield part
            continue
        for phrase in _phrases(part, frontend, given, words):
            joined = phrase if held is None else _joined(held, phrase)
            held = joined if _pauses_inside(joined) else None
            if held is None:
                yield joined
    if held is not None:
        yield replace(held, goes_on=False)


def _phrases(whole: Part, frontend: Frontend, given: GivenSounds, words: bool) -> Iterator[Phrase]:
    part, goes_on, start = whole
    characters, pause, ends = len(part), None, bool(_PARAGRAPH_END.search(part))
    if PAUSE.match(part[-1:]):
        part, pause = part[:-1], pause_seconds(part[-1])
    if _SILENT.fullmatch(part):
        silent = SpokenText(part.strip(), (), ())
        yield Phrase(silent, goes_on, characters, pause, start + len(part), ends_paragraph=ends)
        return
    sentences = frontend.sentences(part, given) or [frontend.speak(part, given)]
    placed: list[tuple[WrittenWord, ...]] = [()] * len(sentences)
    if words:
        placed = place_words(part, start, sentences, given)
    for number, (sentence, own) in enumerate(zip(sentences, placed, strict=True), 1):
        spans = [(unit, unit.start, unit.end) for unit in sentence.units]
        units = tuple(
            replace(unit, start=start + first, end=start + end, written=as_written(part[first:end], given))
            for unit, first, end in spans
        )
        phrase = Phrase(replace(sentence, units=units), False, 0, pause_place=start + len(part), words=own)
        if number == len(sentences):
            phrase = replace(phrase, goes_on=goes_on, characters=characters, pause=pause, ends_paragraph=ends)
        yield phrase


def _pauses_inside(phrase: Phrase) -> bool:
    if phrase.pause is None or not phrase.spoken.phonemes or len(phrase.spoken.text) >= LONGEST_PHRASE:
        return False
    return phrase.spoken.phonemes[-1].symbol not in (".", "?", "!")


def _joined(held: Phrase, phrase: Phrase) -> Phrase:
    before, after = held.spoken, phrase.spoken
    before = replace(before, unknown=(*before.unknown, *after.unknown))
    phrase = replace(phrase, characters=held.characters + phrase.characters)
    if not after.phonemes:  # two pauses in a row, or nothing that can be spoken
        pause = (held.pause or 0.0) + (phrase.pause or 0.0)
        return replace(phrase, spoken=before, pause=pause, pause_place=held.pause_place, words=held.words)
    units, phonemes = before.units, before.phonemes
    if phonemes[-1].symbol == ",":
        units, phonemes = units[:-1], phonemes[:-1]
    count = len(phonemes)
    comma = SpokenUnit(",", held.pause_place, held.pause_place + 1, count, count + 1, held.pause)
    moved = (replace(unit, first=unit.first + count + 1, after=unit.after + count + 1) for unit in after.units)
    spoken = SpokenText(
        f"{before.text} {after.text}",
        (*phonemes, Phoneme(","), *after.phonemes),
        before.unknown,
        (*units, comma, *moved),
    )
    return replace(phrase, spoken=spoken, words=(*held.words, *(word.moved(count + 1) for word in phrase.words)))


def _fragments(text: str | Iterable[Fragment]) -> Iterator[Fragment]:
    for fragment in [text] if isinstance(text, str) else text:
        if isinstance(fragment, Lull):
            yield fragment
        else:
            yield from (fragment[start : start + _FRAGMENT] for start in range(0, len(fragment), _FRAGMENT))


def parts_of(
    fragments: Iterable[Fragment], frontend: Frontend, given: GivenSounds, *, lines: bool = False
) -> Iterator[Part | Lull]:
    """Yield each part as soon as its end is certain, often after the first letter of the next word. Yield each lull
    after the parts that it completes."""

    @lru_cache(maxsize=256)
    def is_end(before: str, after: str) -> bool:
        found = frontend.sentences(f"{before} {after}", given)
        return len(found) > 1 and _words(found[-1]) == words(after)

    @lru_cache(maxsize=256)
    def words(after: str) -> int:
        return _words(frontend.speak(after, given))

    foresees = not (frontend.lexicon and frontend.lexicon.crosses_sentences)
    waiting, place = "", 0
    for number, fragment in enumerate(fragments):
        if isinstance(fragment, str):
            waiting += fragment
            place += len(waiting) - len(waiting.lstrip())
            waiting = waiting.lstrip()
        ending = fragment is Lull.LONG
        while cut := _first_cut(waiting, is_end, complete=ending, foresees=foresees, lines=lines) or (
            _cut_for_now(waiting, is_end) if ending else None
        ):
            yield Part(waiting[: cut[0]], cut[1], place)
            waiting, place = _behind(waiting, cut[0], place)
        if isinstance(fragment, Lull):
            yield fragment
        elif number and foresees and _ENDS_FOR_NOW.search(waiting):
            # Usually a capital follows: fill the cache while waiting for it.
            _ends_before_any(_last_words(waiting), "S", is_end)
    while waiting:
        length, goes_on = _first_cut(waiting, is_end, complete=True, lines=lines) or (len(waiting), False)
        yield Part(waiting[:length], goes_on, place)
        waiting, place = _behind(waiting, length, place)


def _behind(text: str, cut: int, place: int) -> tuple[str, int]:
    rest = text[cut:].lstrip()
    return rest, place + len(text) - len(rest)


def _first_cut(
    text: str, is_end: IsEnd, *, complete: bool = False, foresees: bool = False, lines: bool = False
) -> Cut | None:
    """Return the first cut, or None. `complete`: whether no text follows. `foresees`: whether the first letter of the
    next word may be enough to decide. `lines`: whether a line end is a cut."""
    if pause := PAUSE.search(text, 0, LONGEST_PHRASE):
        before = text[: pause.start()]
        return _first_cut(before, is_end, complete=True, lines=lines) or (pause.end(), True)
    for border in _MAYBE_END[lines].finditer(text, 0, LONGEST_PHRASE):
        ends = border[0].count("\n")
        if ends > 1 or (lines and ends and (complete or border.end() < len(text))):  # one may become an empty line
            return border.end(), False
        before = _last_words(text[: border.end()])
        after = _WORD.match(text, border.end())
        unfinished = after is None or (after.end() == len(text) and len(after[0]) < _NEXT_WORD)
        if unfinished and not complete:
            ends = after is not None and foresees and _ends_before_any(before, after[0][0], is_end)
            return (border.end(), False) if ends else None
        if after and is_end(before, after[0]):
            return border.end(), False
    if len(text) <= LONGEST_PHRASE:
        return None
    for border_kind in _LESSER_BORDERS:
        borders = [border.end() for border in border_kind.finditer(text, SHORTEST_CUT, LONGEST_PHRASE)]
        if borders:
            return borders[-1], True
    word = text[SHORTEST_CUT:LONGEST_PHRASE]
    raise SonorantError(f"a word of more than {len(word)} characters cannot be spoken: '...{word[:20]}...'; add spaces")


def _ends_before_any(before: str, letter: str, is_end: IsEnd) -> bool:
    """Return whether a sentence ends before any word that starts with this letter. False after a number, because a unit
    may follow."""
    if not (letter.isascii() and letter.isalpha()) or any(character.isdigit() for character in before):
        return False
    return all(is_end(before, word) for word in (_CAPITAL if letter.isupper() else _SMALL))


def _cut_for_now(text: str, is_end: IsEnd) -> Cut | None:
    """Return a cut at the end of `text` if it ends with a colon, or if its own first word, placed after it, would begin
    a new sentence; otherwise None."""
    end = _ENDS_FOR_NOW.search(text)
    if end is None or len(text) > LONGEST_PHRASE:
        return None
    ends = end[1] is not None or is_end(_last_words(text), text.split(maxsplit=1)[0][:_NEXT_WORD])
    return (len(text), False) if ends else None


def _last_words(text: str) -> str:
    return " ".join(text.split()[-_WORDS_BEFORE:])


def _words(spoken: SpokenText) -> int:
    return sum(phoneme.word_start for phoneme in spoken.phonemes)
