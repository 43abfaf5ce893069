"""Phonemes from gruut (MIT), offline: a lexicon, a CRF for other words, and rules for numbers and dates."""

import importlib.util
import logging
import re
import threading
import unicodedata
from functools import cache, cached_property
from typing import Any

from sonorant.errors import SonorantError, install
from sonorant.text.english import early, written_out
from sonorant.text.english.homographs import homographs
from sonorant.text.frontend import NOTHING_GIVEN, PAUSES, GivenSounds, Phoneme, Sounds, SpokenText
from sonorant.text.gruut_processor import PLACEHOLDER, import_gruut, installed_version, new_processor
from sonorant.text.pieces import Piece, Span, TracedText, audible_sentences, given_in, placed, spoken_text, with_given
from sonorant.text.user_lexicon import Lexicon
from sonorant.text.written_forms import plain_characters, signs, signs_written_out, split_unknown

RULES = {"en": 3, "fr": 3}
"""Revision of each language's rules (2 if not listed); increase it when the phonemes of any text change."""

_DIGIT = re.compile(r"\d")
_PLACEHOLDER = re.compile(rf"{PLACEHOLDER}[a-z]{{4}}")
_PRIVATE = re.compile(r"-?[\U000F0000-\U000FFFFD]-?")
_BLANK_BEHIND = re.compile(rf"(?<={PLACEHOLDER}[a-z]{{4}}) +(?=[,.;:?!)\]])")
_LETTERS_OR_DIGITS = re.compile(r"\d+|[^\W\d_]+")
_UNREAD = "#%&@§¶†‡‰"
"""Signs that gruut leaves out although they mean something."""
_LOCAL = threading.local()
_STRESS = {"ˈ": 1, "ˌ": 2, "'": 1, "²": 1}


class GruutFrontend:
    """gruut frontend for one language. Raises SonorantError if gruut or its data do not support the language."""

    name = "gruut"

    def __init__(self, language: str, lexicon: Lexicon | None = None) -> None:
        import_gruut()
        from gruut.const import KNOWN_LANGS
        from gruut.utils import resolve_lang
        from gruut_ipa import Phonemes

        # gruut logs a traceback for each number it cannot read; `_process` spells such a number.
        logging.getLogger("gruut").setLevel(logging.CRITICAL)
        self.language = language.lower().replace("_", "-")
        self._resolved = resolve_lang(self.language)
        if self._resolved not in KNOWN_LANGS:
            raise SonorantError(
                f"language '{language}' is not supported by gruut; use one of {', '.join(sorted(KNOWN_LANGS))}"
            )
        self._data = f"gruut_lang_{self._resolved.split('-')[0]}"
        if importlib.util.find_spec(self._data) is None:
            raise SonorantError(f"language '{language}': its data is not installed; run: {_install(self._data)}")
        try:
            phones = [_split_stress(phone.text)[0] for phone in Phonemes.from_language(self._resolved)]
        except (OSError, AssertionError) as error:
            raise SonorantError(
                f"language '{language}': gruut has no list of its phonemes ({error}); use text.frontend: espeak"
            ) from None
        self.symbols: tuple[str, ...] = (*dict.fromkeys(phones), *PAUSES)
        self.rules = RULES.get(self._resolved.split("-")[0], 2)
        self.lexicon = lexicon and lexicon.bound(self.symbols)

    def __reduce__(self) -> tuple[Any, ...]:
        return GruutFrontend, (self.language, self.lexicon)

    @cached_property
    def version(self) -> str:
        data = f"{self._data} {installed_version(self._data)}"
        lexicon = f", lexicon {self.lexicon.sha256[:12]}" if self.lexicon else ""
        return f"gruut {installed_version('gruut')}, {data}, rules {self.rules}{lexicon}"

    def speak(self, text: str, given: GivenSounds = NOTHING_GIVEN) -> SpokenText:
        parts, unknown = self._analyse(text, given)
        return spoken_text(
            " ".join(spoken for spoken, _ in parts), [piece for _, part in parts for piece in part], unknown
        )

    def sentences(self, text: str, given: GivenSounds = NOTHING_GIVEN) -> list[SpokenText]:
        return audible_sentences(*self._analyse(text, given))

    def _analyse(self, text: str, given: GivenSounds) -> tuple[list[tuple[str, list[Piece]]], tuple[str, ...]]:
        known, unknown, sounds = self._known(text, given)
        found = dict.fromkeys(unknown)
        sentences = self._process(known.text, found)
        unread = {
            word.text for sentence in sentences for word in sentence if word.is_spoken and _DIGIT.search(word.text)
        }
        if unread:  # such as 99.9.9.9: read its digits instead of guessing a word
            for word in sorted(unread, key=len, reverse=True):
                known = known.sub(re.compile(re.escape(word)), self._parted)
            sentences = self._process(known.text, found)
        spans = iter(placed([word.text for sentence in sentences for word in sentence], known))
        parts = [
            (
                _PLACEHOLDER.sub(lambda word: sounds[word[0]].written if word[0] in sounds else word[0], sentence.text),
                [self._piece(word, next(spans), sounds, found) for word in sentence],
            )
            for sentence in sentences
        ]
        return parts, tuple(found)

    def _parted(self, word: re.Match[str]) -> str:
        """Separate letters and digits; spell letters that are no word, by their names where gruut only knows sounds."""
        names = signs(self._resolved).get("letters", {})
        parts = (
            part
            if part.isdigit() or len(part) > 3 or self.knows(part.lower())
            else " ".join(names.get(letter.lower(), letter) for letter in part)
            for part in _LETTERS_OR_DIGITS.findall(word[0])
        )
        return " ".join(parts)

    def knows(self, word: str) -> bool:
        """Return whether the lexicon of the language contains the word."""
        settings = _processor(self._resolved, self._data).get_settings(self._resolved)
        return bool(settings.lookup_phonemes and settings.lookup_phonemes(word, do_transforms=False))

    def _known(self, text: str, given: GivenSounds) -> tuple[TracedText, tuple[str, ...], dict[str, Sounds]]:
        sounds = given_in(text, given)
        plain = TracedText.of(text)
        if self.lexicon:
            plain = with_given(plain, self.lexicon.find(plain.text), sounds)
        if self._resolved.startswith("en-"):
            plain = written_out(plain_characters(early(plain)), self.knows)
            plain = with_given(plain, homographs(plain.text, self.symbols), sounds)
        else:
            plain = signs_written_out(plain_characters(plain), self._resolved)
        plain, unknown = split_unknown(plain, self._resolved, sounds, _UNREAD)
        if not sounds:
            return plain, unknown, {}
        placeholders = {character: _placeholder(number) for number, character in enumerate(sounds)}
        plain = (
            plain.sub(_PRIVATE, lambda match: f" {placeholders[match[0].strip('-')]} ")
            .sub(_BLANK_BEHIND, "")
            .strip_blanks()
        )
        return plain, unknown, {placeholders[character]: sound for character, sound in sounds.items()}

    def _process(self, text: str, unknown: dict[str, None]) -> list[Any]:
        """Return gruut's sentences. A word on which gruut fails is spelt out; a character on which it fails is added to
        `unknown`."""
        processor = _processor(self._resolved, self._data)
        try:
            graph, root = processor(text, lang=self._resolved)
            return list(processor.sentences(graph, root))
        except Exception:  # gruut's parsers of numbers, amounts and dates raise any error; keep the other words
            words = text.split()
            if len(words) > 1:
                return [sentence for word in words for sentence in self._process(word, unknown)]
            spelt = " ".join(character for character in text if character.isalnum())
            if spelt != text:
                return self._process(spelt, unknown)
            unknown.update(dict.fromkeys(text))
            return []

    def _piece(self, word: Any, span: Span, sounds: dict[str, Sounds], unknown: dict[str, None]) -> Piece:
        if word.text in sounds:
            return Piece(sounds[word.text].written, span, sounds[word.text].phonemes)
        return Piece(word.text, span, tuple(self._phonemes(word, unknown)))

    def _phonemes(self, word: Any, unknown: dict[str, None]) -> list[Phoneme]:
        if word.is_major_break:
            return [Phoneme(next((pause for pause in "?!" if pause in word.text.replace("؟", "?")), "."))]
        if word.is_minor_break:
            return [Phoneme(",")]
        if not word.is_spoken:
            return []
        # gruut guesses phonemes even for a lone sign such as €.
        readable = any(character.isalpha() for character in word.text)
        phones = [_split_stress(phone) for phone in (word.phonemes or ()) if readable]
        known = [(symbol, stress) for symbol, stress in phones if symbol in self.symbols]
        if not known:
            unknown.update(dict.fromkeys(word.text))
        return [Phoneme(symbol, stress, word_start=number == 0) for number, (symbol, stress) in enumerate(known)]


def _placeholder(number: int) -> str:
    letters = ""
    for _ in range(4):
        number, letter = divmod(number, 26)
        letters = chr(ord("a") + letter) + letters
    return PLACEHOLDER + letters


def _install(data: str) -> str:
    extra = data.removeprefix("gruut_lang_") in ("de", "fr", "es")
    return install("languages") if extra else f"pip install {data.replace('_', '-')}"


def _processor(language: str, data: str) -> Any:
    """Return this thread's processor; database connections and models cannot be shared between threads."""
    processors = _LOCAL.__dict__.setdefault("processors", {})
    if language not in processors:
        processors[language] = new_processor(language, data)
    return processors[language]


@cache
def _split_stress(phone: str) -> tuple[str, int]:
    """Return the symbol and stress of a phone; pitch accents count as stress."""
    stress = min((_STRESS[mark] for mark in phone if mark in _STRESS), default=0)
    return unicodedata.normalize("NFC", "".join(mark for mark in phone if mark not in _STRESS)), stress
