"""Split a text of any length into phrases to speak one after another, reading no further than needed. A phrase is a
sentence as the frontend delimits it; one too long to wait for is cut at a comma or a word's end."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sonorant.text.arriving import Fragment, Lull
from sonorant.text.borders import LONGEST_PHRASE, Part, parts_of
from sonorant.text.frontend import NOTHING_GIVEN, Frontend, GivenSounds, Phoneme, SpokenText, SpokenUnit
from sonorant.text.markup import PAUSE, pause_seconds
from sonorant.text.written_words import WrittenWord, place_words

_FRAGMENT = 4096
_SILENT = re.compile(r"[\s.,;:?!…\"'()\[\]*_–—-]*")
"""What no frontend speaks; long rows of it need not be analysed."""


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
    text: str | Iterable[Fragment], frontend: Frontend, given: GivenSounds = NOTHING_GIVEN, *, words: bool = False
) -> Iterator[Phrase | Lull]:
    """Yield the phrases of a text, or of a text's fragments, which may end anywhere, and the lulls of the fragments.

    The phrases equal what `frontend.sentences` says of each paragraph, however the text is cut into fragments. The next
    fragment is read only when no complete sentence is left; a sentence is complete once the beginning of the next word
    settles it, or a long lull follows. `given`: sounds of private characters, which may grow as fragments are read;
    pauses are private characters too (`sonorant.text.markup`). `words`: also find the written words of each phrase.
    Raises SonorantError for a word longer than a phrase.
    """
    held: Phrase | None = None
    for part in parts_of(_fragments(text), frontend, given):
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
    """The phrases of a part of the text."""
    part, goes_on, start = whole
    characters, pause = len(part), None
    if PAUSE.match(part[-1:]):
        part, pause = part[:-1], pause_seconds(part[-1])
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


def _fragments(text: str | Iterable[Fragment]) -> Iterator[Fragment]:
    for fragment in [text] if isinstance(text, str) else text:
        if isinstance(fragment, Lull):
            yield fragment
        else:
            yield from (fragment[start : start + _FRAGMENT] for start in range(0, len(fragment), _FRAGMENT))
