"""A text of any length as phrases to be spoken one after another, read no further than needed. Knows nothing of voices.

A phrase is a sentence, and the frontend says where one ends; a sentence too long to wait for is cut where a phrase
ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from sonorant.errors import SonorantError
from sonorant.text.frontend import Frontend, SpokenText

LONGEST_PHRASE = 400
"""Characters; a sentence beyond it, some 25 seconds of speech, is cut."""
SHORTEST_CUT = LONGEST_PHRASE // 4
"""Characters that are left of it at least."""
_FRAGMENT = 4096
_NEXT_WORD = 60
"""Characters of the word after a full stop that are enough to tell whether a sentence begins with it."""
_WORDS_BEFORE = 3
"""Words before a full stop that are enough to tell what it stands for."""
_MAYBE_END = re.compile(r"\s*\n[^\S\n]*\n\s*|[.?!…؟。！？]+[\"'”’»)\]]*\s+")
_SILENT = re.compile(r"[\s.,;:?!…\"'()\[\]*_–—-]*")
"""What no frontend speaks, so that rows of it need not be analysed."""
_WORD = re.compile(rf"\S{{1,{_NEXT_WORD}}}")
_LESSER_BORDERS = (
    re.compile(r"(?:[,;:)\]]|(?<=\s)-{1,3}|[–—])\s+|(?<=[^\W\d])[–—]+(?=[^\W\d])"),  # a phrase ends
    re.compile(r"(?<=[^\W\d])\s+(?=[^\W\d])"),  # a word ends, none of number and unit or abbreviation and name
    re.compile(r"\s+"),
    re.compile(r"[^\w\s]+"),  # scripts without spaces, addresses
)
"""Where a long sentence is cut; the first kind that occurs is taken, at its last place."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """What is spoken in one breath."""

    spoken: SpokenText
    """Without phonemes where nothing of it can be spoken: then it only tells what is unknown."""
    goes_on: bool
    """Whether its sentence goes on in the next phrase."""
    characters: int
    """Of the text that it and those since the last phrase came from."""


def split_phrases(text: str | Iterable[str], frontend: Frontend) -> Iterator[Phrase]:
    """Phrases of a text, or of fragments that make one when joined, which may end anywhere.

    Phrases say what `frontend.sentences` would say of each paragraph as a whole. A fragment is asked for only when what
    was read holds no more sentence, whose end is known once a word follows it. Raises SonorantError for a word longer
    than a phrase.
    """

    @lru_cache(maxsize=256)
    def is_end(before: str, after: str) -> bool:
        found = frontend.sentences(f"{before} {after}")
        return len(found) > 1 and _words(found[-1]) == _words(frontend.speak(after))

    for part, goes_on in _parts(_fragments(text), is_end):
        if _SILENT.fullmatch(part):
            yield Phrase(SpokenText(part.strip(), (), ()), goes_on=False, characters=len(part))
            continue
        sentences = frontend.sentences(part) or [frontend.speak(part)]
        for number, sentence in enumerate(sentences, 1):
            last = number == len(sentences)
            yield Phrase(sentence, goes_on=goes_on and last, characters=len(part) if last else 0)


def _fragments(text: str | Iterable[str]) -> Iterator[str]:
    for fragment in [text] if isinstance(text, str) else text:
        yield from (fragment[start : start + _FRAGMENT] for start in range(0, len(fragment), _FRAGMENT))


def _parts(fragments: Iterable[str], is_end: Callable[[str, str], bool]) -> Iterator[tuple[str, bool]]:
    """Parts of the text for the frontend, and whether each is cut off in a sentence."""
    waiting = ""
    for fragment in fragments:
        waiting = (waiting + fragment).lstrip()
        while cut := _first_cut(waiting, is_end):
            yield waiting[: cut[0]], cut[1]
            waiting = waiting[cut[0] :].lstrip()
    while waiting:
        length, goes_on = _first_cut(waiting, is_end, complete=True) or (len(waiting), False)
        yield waiting[:length], goes_on
        waiting = waiting[length:].lstrip()


def _first_cut(text: str, is_end: Callable[[str, str], bool], *, complete: bool = False) -> tuple[int, bool] | None:
    """Length of the text's first part and whether its sentence goes on; None where it takes more text to know, or there
    is none."""
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
