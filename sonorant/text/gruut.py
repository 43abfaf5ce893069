"""Phonemes by gruut (MIT), offline: a lexicon, a CRF for words it lacks, numbers and dates as words."""

import importlib.util
import logging
import re
import threading
import unicodedata
from functools import cache, cached_property
from typing import Any

from sonorant.errors import SonorantError
from sonorant.text.frontend import PAUSES, Phoneme, SpokenText, audible_sentences, joined_phonemes
from sonorant.text.processor import import_gruut, installed_version, new_processor
from sonorant.text.written_forms import plain_characters, signs_written_out, split_unknown, written_out

RULES = 1
"""Revision of the rules here and in `written_forms`; raise it when the same text would get other phonemes."""
RULES_OF = {"fr-fr": 2}
"""Of languages whose texts alone got other phonemes: liaison no longer stays with a word for the sentences after."""

_DIGIT = re.compile(r"\d")
_NOT_WORD = re.compile(r"\W+|(?<=\d)(?=[^\W\d])")
_LOCAL = threading.local()
_STRESS = {"ˈ": 1, "ˌ": 2, "'": 1, "²": 1}


class GruutFrontend:
    """Frontend of one language. Raises SonorantError if gruut or its data lack the language."""

    name = "gruut"

    def __init__(self, language: str) -> None:
        import_gruut()
        from gruut.const import KNOWN_LANGS
        from gruut.utils import resolve_lang
        from gruut_ipa import Phonemes

        # gruut logs a traceback for each number it cannot read; here such a number is spelt out or reported as unknown.
        logging.getLogger("gruut").setLevel(logging.CRITICAL)
        self.language = language.lower().replace("_", "-")
        self._resolved = resolve_lang(self.language)
        if self._resolved not in KNOWN_LANGS:
            raise SonorantError(
                f"language '{language}': gruut does not know it; known: {', '.join(sorted(KNOWN_LANGS))}"
            )
        self._data = f"gruut_lang_{self._resolved.split('-')[0]}"
        if importlib.util.find_spec(self._data) is None:
            raise SonorantError(f"language '{language}': its data are not installed; run: {_install(self._data)}")
        try:
            phones = [_split_stress(phone.text)[0] for phone in Phonemes.from_language(self._resolved)]
        except (OSError, AssertionError) as error:
            raise SonorantError(
                f"language '{language}': gruut has no list of its phonemes ({error}); use text.frontend: espeak"
            ) from None
        self.symbols: tuple[str, ...] = (*dict.fromkeys(phones), *PAUSES)

    @cached_property
    def version(self) -> str:
        """Versions of gruut, the language data and the rules of this package."""
        rules = RULES_OF.get(self._resolved, RULES)
        return f"gruut {installed_version('gruut')}, {self._data} {installed_version(self._data)}, rules {rules}"

    def speak(self, text: str) -> SpokenText:
        parts, unknown = self._analyse(text)
        phonemes = joined_phonemes([phoneme for _, part in parts for phoneme in part])
        return SpokenText(" ".join(spoken for spoken, _ in parts), phonemes, unknown)

    def sentences(self, text: str) -> list[SpokenText]:
        return audible_sentences(*self._analyse(text))

    def _analyse(self, text: str) -> tuple[list[tuple[str, list[Phoneme]]], tuple[str, ...]]:
        """The spoken text and phonemes of each sentence, and the unknown characters of all of them."""
        plain = plain_characters(text)
        plain = written_out(plain) if self._resolved.startswith("en-") else signs_written_out(plain, self._resolved)
        known, unknown = split_unknown(plain, self._resolved)
        found = dict.fromkeys(unknown)
        sentences = self._process(known, found)
        unread = {
            word.text for sentence in sentences for word in sentence if word.is_spoken and _DIGIT.search(word.text)
        }
        if unread:  # such as 99.9.9.9, which is not a number: say its digits instead of guessing a word
            for word in sorted(unread, key=len, reverse=True):
                known = known.replace(word, _NOT_WORD.sub(" ", word))
            sentences = self._process(known, found)
        parts = [
            (sentence.text, [p for word in sentence for p in self._phonemes(word, found)]) for sentence in sentences
        ]
        return parts, tuple(found)

    def _process(self, text: str, unknown: dict[str, None]) -> list[Any]:
        """gruut's sentences. A word that makes gruut raise is spelt out; a character that does is unknown."""
        processor = _processor(self._resolved, self._data)
        try:
            graph, root = processor(text, lang=self._resolved)
            return list(processor.sentences(graph, root))
        except Exception:  # its parsers of numbers, sums and dates raise anything; keep the words around
            words = text.split()
            if len(words) > 1:
                return [sentence for word in words for sentence in self._process(word, unknown)]
            spelt = " ".join(character for character in text if character.isalnum())
            if spelt != text:
                return self._process(spelt, unknown)
            unknown.update(dict.fromkeys(text))
            return []

    def _phonemes(self, word: Any, unknown: dict[str, None]) -> list[Phoneme]:
        if word.is_major_break:
            return [Phoneme(next((pause for pause in "?!" if pause in word.text.replace("؟", "?")), "."))]
        if word.is_minor_break:
            return [Phoneme(",")]
        if not word.is_spoken:
            return []
        # gruut guesses a word even from a lone sign such as €.
        readable = any(character.isalpha() for character in word.text)
        phones = [_split_stress(phone) for phone in (word.phonemes or ()) if readable]
        known = [(symbol, stress) for symbol, stress in phones if symbol in self.symbols]
        if not known:
            unknown.update(dict.fromkeys(word.text))
        return [Phoneme(symbol, stress, word_start=number == 0) for number, (symbol, stress) in enumerate(known)]


def _install(data: str) -> str:
    """How to get a language's data: by the extra that holds them, or by their own package."""
    extra = data.removeprefix("gruut_lang_") in ("de", "fr", "es")
    return "pip install 'sonorant[languages]'" if extra else f"pip install {data.replace('_', '-')}"


def _processor(language: str, data: str) -> Any:
    """gruut's processor of a language for this thread: its database connections and models cannot be shared."""
    processors = _LOCAL.__dict__.setdefault("processors", {})
    if language not in processors:
        processors[language] = new_processor(language, data)
    return processors[language]


@cache
def _split_stress(phone: str) -> tuple[str, int]:
    """Split a phone into its symbol and its stress (0, 1, 2); marks of pitch accent count as stress."""
    stress = min((_STRESS[mark] for mark in phone if mark in _STRESS), default=0)
    return unicodedata.normalize("NFC", "".join(mark for mark in phone if mark not in _STRESS)), stress
