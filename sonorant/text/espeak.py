"""Phonemes from espeak-ng through phonemizer. An optional extra, because both are GPL-3."""

import re
import threading
import unicodedata
from functools import cached_property
from importlib.metadata import version as installed_version
from typing import Any

from sonorant.errors import SonorantError, needing
from sonorant.text.frontend import NOTHING_GIVEN, PAUSES, GivenSounds, Phoneme, Sounds, SpokenText, as_written
from sonorant.text.pieces import Piece, TracedText, audible_sentences, given_in, spoken_text, with_given
from sonorant.text.user_lexicon import Lexicon
from sonorant.text.written_forms import plain_characters, split_unknown

RULES = 1
"""Revision of these rules; increase it when the phonemes of any text change."""

# espeak-ng has no list of a language's phonemes; its phones are split into these symbols.
_VOWELS = "aɑɐɒæʌəɘɚɛɜɝɞeɤɵiɨɪᵻyʏɯuʉʊoɔøœɶ"
_CONSONANTS = "pbtdʈɖcɟkɡqɢʔmɱnɳɲŋɴʙrʀɾɽɸβfvθðszʃʒʂʐɕʑçʝxɣχʁħʕhɦɬɮʋɹɻjɥɰlɭʎʟɫwʍɓɗʄɠʛɧʘǀǃǂǁ"
_JOINED = ("aɪ", "aʊ", "eɪ", "oʊ", "əʊ", "ɔɪ", "ɪə", "eə", "ʊə", "tʃ", "dʒ", "ts", "dz", "tɕ", "dʑ", "pf")
_NASAL = tuple(f"{vowel}\u0303" for vowel in "aɑɛɔœəeiouɐ")
_LONG = "ː"
_ALPHABET = (*_VOWELS, *(v + _LONG for v in _VOWELS), *_NASAL, *(v + _LONG for v in _NASAL), *_CONSONANTS, *_JOINED)
_SYMBOLS = tuple(unicodedata.normalize("NFC", symbol) for symbol in _ALPHABET)
_LENGTHS = range(max(map(len, _SYMBOLS)), 0, -1)

_STRESS = {"ˈ": 1, "ˌ": 2}
_PAUSE_OF = {";": ",", ":": ",", "…": ",", "؟": "?", "،": ",", "。": ".", "？": "?", "！": "!", "¿": None, "¡": None}
_MARKS = r"\.{2,}|[,.?!;:…؟،。？！]+(?=\s|$)"
_PAUSE = re.compile(_MARKS)
_PAUSE_OR_GIVEN = re.compile(rf"({_MARKS}|[\U000F0000-\U000FFFFD])")
_SENTENCE_END = re.compile(r"(?<=[.?!؟])\s+")


class EspeakFrontend:
    """espeak-ng frontend for one language. Raises SonorantError if phonemizer, espeak-ng or the language is missing."""

    name = "espeak"
    symbols: tuple[str, ...] = (*dict.fromkeys(_SYMBOLS), *PAUSES)

    rules = RULES

    def __init__(self, language: str, lexicon: Lexicon | None = None) -> None:
        self.lexicon = lexicon and lexicon.bound(self.symbols)
        self.language = language.lower().replace("_", "-")
        self._lock = threading.Lock()  # espeak-ng keeps its state in global variables
        self._backend, self._separator = _load(self.language)

    def __reduce__(self) -> tuple[Any, ...]:
        return EspeakFrontend, (self.language, self.lexicon)

    @cached_property
    def version(self) -> str:
        library = ".".join(str(number) for number in self._backend.version())
        lexicon = f", lexicon {self.lexicon.sha256[:12]}" if self.lexicon else ""
        return f"espeak-ng {library}, phonemizer {installed_version('phonemizer')}, rules {RULES}{lexicon}"

    def speak(self, text: str, given: GivenSounds = NOTHING_GIVEN) -> SpokenText:
        """See `Frontend.speak`. The returned text keeps digits, because espeak-ng does not return the words it speaks
        for them."""
        known, unknown, sounds = self._known(text, given)
        return spoken_text(as_written(known.text, sounds), self._pieces(known, sounds), unknown)

    def sentences(self, text: str, given: GivenSounds = NOTHING_GIVEN) -> list[SpokenText]:
        known, unknown, sounds = self._known(text, given)
        parts, start = [], 0
        for border in [*_SENTENCE_END.finditer(known.text), None]:
            end = border.start() if border else len(known.text)
            part = known.part(start, end)
            parts.append((as_written(part.text, sounds), self._pieces(part, sounds)))
            start = border.end() if border else end
        return audible_sentences(parts, unknown)

    def _known(self, text: str, given: GivenSounds) -> tuple[TracedText, tuple[str, ...], dict[str, Sounds]]:
        plain, sounds = TracedText.of(text), given_in(text, given)
        if self.lexicon:
            plain = with_given(plain, self.lexicon.find(plain.text), sounds)
        return (*split_unknown(plain_characters(plain), self.language, sounds), sounds)

    def _pieces(self, text: TracedText, sounds: dict[str, Sounds]) -> list[Piece]:
        pieces: list[Piece] = []
        place = 0
        for part in _PAUSE_OR_GIVEN.split(text.text):
            span = text.span(place, place + len(part))
            if part in sounds:
                pieces.append(Piece(sounds[part].written, span, sounds[part].phonemes))
            elif _PAUSE.fullmatch(part):
                pieces.append(Piece(part, span, (Phoneme(_pause(part)),)))
            elif any(character.isalnum() for character in part):
                pieces += self._words(text.part(place, place + len(part)))
            place += len(part)
        return pieces

    def _words(self, text: TracedText) -> list[Piece]:
        """Return the words of a text without pauses, or the whole text as one piece if espeak-ng finds a different
        number of words."""
        with self._lock:
            spoken = self._backend.phonemize([text.text], separator=self._separator, strip=True)[0].split()
        written = list(re.finditer(r"\S*\w\S*", text.text))
        phonemes = [tuple(_word(word.split("_"))) for word in spoken]
        if len(written) != len(spoken):
            joined = tuple(phoneme for word in phonemes for phoneme in word)
            return [Piece(text.text.strip(), text.span(0, len(text.text)), joined)]
        return [Piece(word[0], text.span(*word.span()), own) for word, own in zip(written, phonemes, strict=True)]


def _load(language: str) -> tuple[Any, Any]:
    with needing("espeak", "text.frontend espeak, which is GPL-3,"):
        from phonemizer.backend import EspeakBackend
        from phonemizer.separator import Separator
    if not EspeakBackend.is_available():
        raise SonorantError(
            "text.frontend espeak requires the program espeak-ng; install the system package espeak-ng "
            "(note: it is GPL-3)"
        )
    for name in (language, language.split("-")[0]):  # de-de is `de` in espeak-ng
        if EspeakBackend.is_supported_language(name):
            backend = EspeakBackend(name, preserve_punctuation=False, with_stress=True, language_switch="remove-flags")
            return backend, Separator(phone="_", word=" ", syllable="")
    raise SonorantError(f"language '{language}' is not supported by espeak-ng; use one of `espeak-ng --voices`")


def _pause(marks: str) -> str:
    if marks.startswith(".."):
        return ","
    plain = [_PAUSE_OF.get(mark, mark) for mark in marks]
    return next((pause for pause in ("?", "!", ".") if pause in plain), ",")


def _word(phones: list[str]) -> list[Phoneme]:
    result: list[Phoneme] = []
    for phone in phones:
        stress = next((_STRESS[mark] for mark in phone if mark in _STRESS), 0)
        for symbol in _symbols_of(phone):
            result.append(Phoneme(symbol, stress, word_start=not result))
            stress = 0 if symbol[0] in _VOWELS else stress
    return result


def _symbols_of(phone: str) -> list[str]:
    """Split a phone into symbols of the inventory, longest match first; drop other marks."""
    rest = unicodedata.normalize("NFC", "".join(mark for mark in phone if mark not in _STRESS))
    found = []
    while rest:
        length = next((length for length in _LENGTHS if rest[:length] in EspeakFrontend.symbols[: -len(PAUSES)]), 0)
        if length:
            found.append(rest[:length])
        rest = rest[max(length, 1) :]
    return found
