"""What frontends find in a text, joined into the text as spoken."""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from sonorant.text.frontend import PAUSES, GivenSounds, Phoneme, Sounds, SpokenText, SpokenUnit
from sonorant.text.traced import Span, TracedText

_LOCAL_FIRST = 0xFF000
"""First of the private characters that stand for words of the lexicon and homographs; below are those of a text."""
_LOCAL = 0xFFE
"""How many there are: more words of one text stay with the frontend."""
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A word or a pause as a frontend finds it, before pauses in a row become one."""

    text: str
    span: Span
    """Where it stands in the text that was given."""
    phonemes: tuple[Phoneme, ...]


def spoken_text(text: str, pieces: Iterable[Piece], unknown: tuple[str, ...]) -> SpokenText:
    """Join pieces: drop pauses at the start, and keep only the first strongest of several in a row."""
    phonemes: list[Phoneme] = []
    units: list[SpokenUnit] = []
    for piece in pieces:
        if not piece.phonemes:
            continue
        first = len(phonemes)
        if piece.phonemes[0].symbol in PAUSES:
            if not phonemes:
                continue
            if phonemes[-1].symbol in PAUSES:
                if phonemes[-1].symbol != "," or piece.phonemes[0].symbol == ",":
                    continue
                phonemes.pop()
                units.pop()
                first -= 1
        phonemes += piece.phonemes
        units.append(SpokenUnit(piece.text, *piece.span, first, len(phonemes)))
    return SpokenText(text, tuple(phonemes), unknown, tuple(units))


def audible_sentences(parts: Iterable[tuple[str, Iterable[Piece]]], unknown: tuple[str, ...]) -> list[SpokenText]:
    """Sentences of (text, pieces), without silent ones; the first lists the `unknown` characters."""
    joined = [spoken_text(spoken, part, ()) for spoken, part in parts]
    audible = [sentence for sentence in joined if sentence.phonemes]
    return [dataclasses.replace(audible[0], unknown=unknown), *audible[1:]] if audible else []


def placed(words: Sequence[str], text: TracedText) -> list[Span]:
    """Where in the original each of these words stands, which were found in `text` in this order. A word that is not
    there as it is, such as one of a number written out, has the span of all that stands between its neighbours. The
    two are compared as a whole: the word of an abbreviation may well be written out further on."""
    found = _whole_words(words, text.text)
    place = 0
    for number, word in enumerate(words):
        if found[number] is None and word:  # a letter of an abbreviation, a part of a compound
            before = next((later[0] for later in found[number:] if later), len(text.text))
            at = text.text.find(word, place, before)
            found[number] = (at, at + len(word)) if at >= 0 else None
        place = (found[number] or (place, place))[1]
    spans: list[Span] = []
    end = 0
    for number, span in enumerate(found):
        if span is None:
            start = next((later[0] for later in found[number:] if later), len(text.text))
            between = text.text[end:start]
            span = (
                (end + len(between) - len(between.lstrip()), end + len(between.rstrip()))
                if between.strip()
                else (end, end)
            )
        else:
            end = span[1]
        spans.append(text.span(*span))
    return spans


def _whole_words(words: Sequence[str], text: str) -> list[Span | None]:
    """Where those words stand that are written as they are spoken."""
    tokens = list(_TOKEN.finditer(text))
    wanted = [(number, token) for number, word in enumerate(words) for token in _TOKEN.findall(word)]
    matcher = SequenceMatcher(None, [token for _, token in wanted], [token[0] for token in tokens], autojunk=False)
    there: list[list[Span]] = [[] for _ in words]
    for first, at, size in matcher.get_matching_blocks():
        for (number, _), token in zip(wanted[first : first + size], tokens[at : at + size], strict=True):
            there[number].append(token.span())
    counts = Counter(number for number, _ in wanted)
    return [
        (spans[0][0], spans[-1][1]) if spans and len(spans) == counts[number] else None
        for number, spans in enumerate(there)
    ]


def given_in(text: str, given: GivenSounds) -> dict[str, Sounds]:
    """The sounds of those private characters that the text holds."""
    if text.isascii() or not given:
        return {}
    return {character: given[character] for character in text if character in given}


def with_given(text: TracedText, found: Iterable[tuple[int, int, Sounds]], sounds: dict[str, Sounds]) -> TracedText:
    """Put a private character in place of each word whose sounds are given, and add it to `sounds`."""
    pieces = []
    for first, end, sound in found:
        if len(sounds) >= _LOCAL:
            break
        character = chr(_LOCAL_FIRST + len(sounds))
        sounds[character] = sound
        pieces.append((first, end, character))
    return text.replaced(pieces) if pieces else text
