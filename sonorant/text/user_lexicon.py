"""Parse written phonemes and the user's lexicon, which overrides every other pronunciation.

A line `[en-us]` begins the words of a language. Each other line contains a word (which may contain blanks), a tab or
two blanks, and the word's phonemes. `#` begins a comment.

    [en-us]
    Siobhan    ʃ ɪ v ˈɔ n
    GmbH       d͡ʒ ˈi # ˈɛ m # b ˈi # ˈeɪ t͡ʃ
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from sonorant.errors import SonorantError
from sonorant.text.frontend import PAUSES, Phoneme, Sounds

MOST_BYTES = 16 * 2**20
LONGEST_WORD = 100
"""Maximum number of characters in a word."""
_LANGUAGE = re.compile(r"\[([A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?)\]")
_ENTRY = re.compile(r"(.+?)(?:\s*\t\s*| {2,})(.+)")
_START = re.compile(r"\w+|[^\w\s]")
_HISSES = frozenset(("s", "z", "ʃ", "ʒ", "t͡ʃ", "d͡ʒ"))
_VOICELESS = frozenset(("p", "t", "k", "f", "θ"))
STRESS = {"ˈ": 1, "'": 1, "ˌ": 2}
WORD_BORDER = "#"
_SAME = {"tʃ": "t͡ʃ", "dʒ": "d͡ʒ", "ʧ": "t͡ʃ", "ʤ": "d͡ʒ", "g": "ɡ", "r": "ɹ", "ɝ": "ɚ", "ɜ": "ɚ", "ː": ""}
"""Pairs of spellings of a phone; the first is read as the second if the inventory lacks the first."""
_VOWELS = frozenset("aɑɐɒæʌəɘɚɛɜɝɞeɤɵiɨɪᵻyʏɯuʉʊoɔøœɶ")


class Lexicon:
    """The user's words of one language and their phonemes."""

    def __init__(
        self,
        language: str,
        entries: Mapping[str, str],
        symbols: Sequence[str] | None = None,
        places: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`entries`: phonemes of each word, as written. `symbols`: a frontend's inventory, needed by `find`. `places`:
        file and line of each word. Raises SonorantError naming a word whose phonemes are not in the inventory."""
        self.language = language
        self.entries = dict(entries)
        self._places = places
        self._sounds: dict[str, tuple[Phoneme, ...]] = {}
        self._starts: dict[str, list[str]] = {}
        for word, phonemes in self.entries.items() if symbols else ():
            try:
                self._sounds[word] = parse_phonemes(phonemes, symbols or (), language)
            except SonorantError as error:
                raise SonorantError(f"{places.get(word, 'lexicon')}: '{word}': {error}") from None
            self._starts.setdefault(_START.findall(word)[0].casefold(), []).append(word)
        for words in self._starts.values():
            words.sort(key=lambda word: (-len(word), word.islower()))

    def bound(self, symbols: Sequence[str]) -> Lexicon:
        """Return the same lexicon with an inventory. Raises SonorantError as the constructor does."""
        return Lexicon(self.language, self.entries, symbols, self._places)

    @property
    def sha256(self) -> str:
        """SHA-256 of `text()` in hexadecimal."""
        return hashlib.sha256(self.text().encode()).hexdigest()

    @cached_property
    def crosses_sentences(self) -> bool:
        """Whether a word contains a possible end of a sentence, as in `St. Ives`."""
        return any(re.search(r"[.?!…]\S*\s", word) for word in self.entries)

    def text(self) -> str:
        lines = (f"{word}\t{phonemes}\n" for word, phonemes in sorted(self.entries.items()))
        return f"[{self.language}]\n" + "".join(lines)

    def find(self, text: str) -> Iterator[tuple[int, int, Sounds]]:
        """Yield each lexicon word in a text as (index of its first character, index after its last, sounds). A
        lower-case word matches in any case, a word with capitals only exactly; the longest match wins. English 's is
        included."""
        done = 0
        for start in _START.finditer(text):
            if start.start() < done:
                continue
            for word in self._starts.get(start[0].casefold(), ()):
                if end := _fits(word, text, start.start()):
                    phonemes = self._sounds[word]
                    if self.language.startswith("en") and re.match(r"['’]s\b", text[end:]):
                        phonemes, end = _possessive(phonemes), end + 2
                    yield start.start(), end, Sounds(phonemes, text[start.start() : end])
                    done = end
                    break


def _fits(word: str, text: str, start: int) -> int:
    """Return the index after `word` if it is a whole word at `start`, otherwise 0."""
    end = start + len(word)
    there = text[start:end]
    if there != word and not (word.islower() and there.lower() == word):
        return 0
    return 0 if word[-1].isalnum() and text[end : end + 1].isalnum() else end


def _possessive(phonemes: tuple[Phoneme, ...]) -> tuple[Phoneme, ...]:
    last = phonemes[-1].symbol
    if last in _HISSES:
        return (*phonemes, Phoneme("ɪ"), Phoneme("z"))
    return (*phonemes, Phoneme("s" if last in _VOICELESS else "z"))


def read_lexicon(path: Path, language: str) -> Lexicon | None:
    """Read the words of a language from a lexicon file; None if there are none. `en-us` also has the words of `[en]`
    that `[en-us]` does not redefine. Raises SonorantError naming file and line of an error."""
    language = language.lower().replace("_", "-")
    parsed = _parse(_read(path), path)
    found = parsed.get(language.split("-")[0], {}) | parsed.get(language, {})
    if not found:
        return None
    places = {word: f"{path}: line {number}" for word, (_, number) in found.items()}
    return Lexicon(language, {word: phonemes for word, (phonemes, _) in found.items()}, places=places)


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SonorantError(f"{path}: larger than {MOST_BYTES // 2**20} MiB; a lexicon should contain only words")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SonorantError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except UnicodeDecodeError as error:
        raise SonorantError(f"{path}: not UTF-8 (byte {error.start}); save it as UTF-8") from None


def _parse(text: str, path: Path) -> dict[str, dict[str, tuple[str, int]]]:
    languages: dict[str, dict[str, tuple[str, int]]] = {}
    words: dict[str, tuple[str, int]] | None = None
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line or line.startswith("#"):
            continue
        if heading := _LANGUAGE.fullmatch(line):
            words = languages.setdefault(heading[1].lower().replace("_", "-"), {})
            continue
        entry = _ENTRY.fullmatch(line)
        word = " ".join(entry[1].split()) if entry else ""
        fault = None
        if entry is None:
            fault = f"'{line[:40]}' is not an entry; write a word, a tab or two blanks, and phonemes"
        elif words is None:
            fault = "a word before the first language; begin with a line such as [en-us]"
        elif len(word) > LONGEST_WORD:
            fault = f"a word of {len(word)} characters; use at most {LONGEST_WORD}"
        elif word in words:
            fault = f"'{word}' is already in line {words[word][1]}; keep one of them"
        if fault or entry is None or words is None:
            raise SonorantError(f"{path}: line {number}: {fault}")
        words[word] = (entry[2].strip(), number)
    return languages


def parse_phonemes(text: str, symbols: Sequence[str], language: str) -> tuple[Phoneme, ...]:
    """Parse phonemes of the inventory `symbols`, with or without blanks between them: `h ə l ˈoʊ`, `həlˈoʊ`, `həˈloʊ`.

    A stress mark applies to the next vowel; `#` separates words. Raises SonorantError naming a phoneme that is not in
    the inventory, or if there are no phonemes.
    """
    inventory = [symbol for symbol in symbols if symbol not in PAUSES]
    longest_first = sorted(inventory, key=len, reverse=True)
    phonemes: list[Phoneme] = []
    stress, word_start = 0, True
    rest = unicodedata.normalize("NFC", text).replace(":", "ː")
    for written, meant in _SAME.items():
        if meant in inventory and written not in inventory:
            rest = rest.replace(written, meant)
    while rest := rest.lstrip(" \t.‿"):
        if rest[0] in STRESS:
            stress, rest = STRESS[rest[0]], rest[1:]
        elif rest[0] == WORD_BORDER:
            word_start, rest = True, rest[1:]
        elif symbol := next(filter(rest.startswith, longest_first), ""):
            vowel = symbol[0] in _VOWELS
            phonemes.append(Phoneme(symbol, stress if vowel else 0, word_start))
            stress, word_start, rest = 0 if vowel else stress, False, rest[len(symbol) :]
        elif rest[0] == "ː":  # a language without long vowels
            rest = rest[1:]
        else:
            raise SonorantError(
                f"'{rest.split()[0][:8]}' does not begin with a phoneme of {language}; use {' '.join(inventory)}"
            )
    if not phonemes:
        raise SonorantError("no phonemes; write them as in h ə l ˈoʊ")
    return tuple(phonemes)
