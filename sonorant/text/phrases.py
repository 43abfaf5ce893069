"""Split a text of any length into phrases to speak one after another, reading no further than needed. A phrase is a
sentence as the frontend delimits it; one too long to wait for is cut at a comma or a word's end."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from sonorant.errors import SonorantError
from sonorant.text.frontend import Frontend, SpokenText
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
    """Without phonemes where nothing can be spoken; then it only lists the unknown characters."""
    goes_on: bool
    """Whether the sentence continues in the next phrase."""
    characters: int
    """Characters of text read for this phrase and for silent text since the last one."""
    words: tuple[WrittenWord, ...] = ()
    """The words of the text that it speaks, where they were asked for."""


def split_phrases(text: str | Iterable[str], frontend: Frontend, *, words: bool = False) -> Iterator[Phrase]:
    """Yield the phrases of a text, or of a text's fragments, which may end anywhere.

    The phrases equal what `frontend.sentences` says of each paragraph. The next fragment is read only when no complete
    sentence is left; a sentence is complete once a word follows it. `words`: also find the written words of each
    phrase. Raises SonorantError for a word longer than a phrase.
    """

    @lru_cache(maxsize=256)
    def is_end(before: str, after: str) -> bool:
        found = frontend.sentences(f"{before} {after}")
        return len(found) > 1 and _words(found[-1]) == _words(frontend.speak(after))

    for part, first, goes_on in _parts(_fragments(text), is_end):
        if _SILENT.fullmatch(part):
            yield Phrase(SpokenText(part.strip(), (), ()), goes_on=False, characters=len(part))
            continue
        sentences = frontend.sentences(part) or [frontend.speak(part)]
        placed: list[tuple[WrittenWord, ...]] = [()] * len(sentences)
        if words:
            placed = place_words(part, first, sentences, frontend)
        for number, (sentence, own) in enumerate(zip(sentences, placed, strict=True), 1):
            last = number == len(sentences)
            yield Phrase(sentence, goes_on=goes_on and last, characters=len(part) if last else 0, words=own)


def _fragments(text: str | Iterable[str]) -> Iterator[str]:
    for fragment in [text] if isinstance(text, str) else text:
        yield from (fragment[start : start + _FRAGMENT] for start in range(0, len(fragment), _FRAGMENT))


def _parts(fragments: Iterable[str], is_end: Callable[[str, str], bool]) -> Iterator[tuple[str, int, bool]]:
    """Parts of the text for the frontend, each with where it begins in the text and whether its sentence goes on."""
    waiting, read = "", 0
    for fragment in fragments:
        waiting, read = (waiting + fragment).lstrip(), read + len(fragment)
        while cut := _first_cut(waiting, is_end):
            yield waiting[: cut[0]], read - len(waiting), cut[1]
            waiting = waiting[cut[0] :].lstrip()
    while waiting:
        length, goes_on = _first_cut(waiting, is_end, complete=True) or (len(waiting), False)
        yield waiting[:length], read - len(waiting), goes_on
        waiting = waiting[length:].lstrip()


def _first_cut(text: str, is_end: Callable[[str, str], bool], *, complete: bool = False) -> tuple[int, bool] | None:
    """Length of the first part and whether its sentence goes on; None if there is no cut or more text is needed."""
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
