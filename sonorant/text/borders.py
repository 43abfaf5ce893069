"""Where a text may be cut into parts that the frontend reads by themselves, as soon as that is certain."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from sonorant.errors import SonorantError
from sonorant.text.arriving import Fragment, Lull
from sonorant.text.frontend import Frontend, GivenSounds, SpokenText
from sonorant.text.markup import PAUSE

LONGEST_PHRASE = 400
"""Characters; a longer sentence, some 25 seconds of speech, is cut."""
SHORTEST_CUT = LONGEST_PHRASE // 4
"""Characters before a cut, at least."""
_NEXT_WORD = 60
"""Characters of the word after a full stop that suffice to tell whether it begins a sentence."""
_WORDS_BEFORE = 3
"""Words before a full stop that suffice to tell whether it ends a sentence."""
_MAYBE_END = re.compile(r"\s*\n[^\S\n]*\n\s*|[.?!…؟。！？]+[\"'”’»)\]]*\s+")
_ENDS_FOR_NOW = re.compile(r"(?:[.?!؟。！？]|([:…]))[\"'”’»)\]]*\s*\Z")
_WORD = re.compile(rf"\S{{1,{_NEXT_WORD}}}")
_LESSER_BORDERS = (
    re.compile(r"(?:[,;:)\]]|(?<=\s)-{1,3}|[–—])\s+|(?<=[^\W\d])[–—]+(?=[^\W\d])"),  # a phrase ends
    re.compile(r"(?<=[^\W\d])\s+(?=[^\W\d])"),  # a word ends, but not between a number and its unit
    re.compile(r"\s+"),
    re.compile(r"[^\w\s]+"),  # scripts without spaces, addresses
)
"""Where a long sentence is cut: at the last place of the first kind that occurs."""
_CAPITAL, _SMALL = ("Smith", "B."), ("it", "five")
"""Words of each kind that abbreviations are read by: a name, an initial; any word, a number."""

IsEnd = Callable[[str, str], bool]
"""Whether a sentence ends between these words before a border and this word after it."""
Cut = tuple[int, bool]
"""How many characters are cut off, and whether their sentence goes on behind them."""


class Part(NamedTuple):
    """A part of the text for the frontend."""

    text: str
    """A pause that is marked behind it is its last character."""
    goes_on: bool
    """Whether its sentence goes on in the next part."""
    start: int
    """Its first character's place in the text."""


def parts_of(fragments: Iterable[Fragment], frontend: Frontend, given: GivenSounds) -> Iterator[Part | Lull]:
    """Yield the parts of a text that comes in fragments, each as soon as its end is certain; lulls are passed on behind
    the parts that they end. Where a sentence may end, the first letter of the next word often settles it, else the
    whole word. Raises SonorantError for a word longer than a phrase."""

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
        while cut := _first_cut(waiting, is_end, complete=ending, foresees=foresees) or (
            _cut_for_now(waiting, is_end) if ending else None
        ):
            yield Part(waiting[: cut[0]], cut[1], place)
            waiting, place = _behind(waiting, cut[0], place)
        if isinstance(fragment, Lull):
            yield fragment
        elif number and foresees and _ENDS_FOR_NOW.search(waiting):
            # Most often a capital follows. Asked now, while it is waited for, it is answered from the cache then.
            _ends_before_any(_last_words(waiting), "S", is_end)
    while waiting:
        length, goes_on = _first_cut(waiting, is_end, complete=True) or (len(waiting), False)
        yield Part(waiting[:length], goes_on, place)
        waiting, place = _behind(waiting, length, place)


def _behind(text: str, cut: int, place: int) -> tuple[str, int]:
    """The text behind a cut without blanks before it, and its place."""
    rest = text[cut:].lstrip()
    return rest, place + len(text) - len(rest)


def _first_cut(text: str, is_end: IsEnd, *, complete: bool = False, foresees: bool = False) -> Cut | None:
    """The first cut; None if there is none or more text is needed. `complete`: no text follows; `foresees`: a word's
    first letter may do for the word."""
    if pause := PAUSE.search(text, 0, LONGEST_PHRASE):
        before = text[: pause.start()]
        return _first_cut(before, is_end, complete=True) or (pause.end(), True)
    for border in _MAYBE_END.finditer(text, 0, LONGEST_PHRASE):
        if border[0].count("\n") > 1:
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
    raise SonorantError(
        f"a word of more than {len(word)} characters cannot be spoken: '...{word[:20]}...'; put spaces into it"
    )


def _ends_before_any(before: str, letter: str, is_end: IsEnd) -> bool:
    """Whether a sentence ends before any word that begins with this letter: where no number asks for a unit, and every
    kind of such a word says so."""
    if not (letter.isascii() and letter.isalpha()) or any(character.isdigit() for character in before):
        return False
    return all(is_end(before, word) for word in (_CAPITAL if letter.isupper() else _SMALL))


def _cut_for_now(text: str, is_end: IsEnd) -> Cut | None:
    """The whole text where it ends like a sentence: with a colon, or where one ends that would begin again."""
    end = _ENDS_FOR_NOW.search(text)
    if end is None or len(text) > LONGEST_PHRASE:
        return None
    ends = end[1] is not None or is_end(_last_words(text), text.split(maxsplit=1)[0][:_NEXT_WORD])
    return (len(text), False) if ends else None


def _last_words(text: str) -> str:
    """Those that tell whether a sentence ends behind them."""
    return " ".join(text.split()[-_WORDS_BEFORE:])


def _words(spoken: SpokenText) -> int:
    return sum(phoneme.word_start for phoneme in spoken.phonemes)
