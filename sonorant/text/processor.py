"""gruut's text processor without what most sentences do not need: what it says is the same, in less time and memory.

Dates, amounts of money and numbers need packages that take longer to import than all the rest; they are imported for
words with digits alone. A part of speech is asked for only where a word is pronounced by it.
"""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from sonorant.text import word_tree
from sonorant.text.lexicon import open_lexicon

_DIGIT = re.compile(r"\d")
_NO_CURRENCIES = {"\0": ""}
_WITHOUT_DIGITS = {
    f"{step}_{kind}": False for step in ("detect", "verbalize") for kind in ("numbers", "currency", "dates", "times")
}
_LETTER = "gruut:letter"
PLACEHOLDER = "qqzx"
"""How words begin whose phonemes are given; four letters follow, and gruut need not find phonemes."""
_GIVEN = re.compile(rf"{PLACEHOLDER}[a-z]{{4}}")

Tagger = Callable[[Sequence[str]], Sequence[str]]
"""Words of a sentence to their parts of speech."""


def new_processor(language: str, data: str) -> Any:
    """gruut's processor of a language (as gruut calls it) whose data are the package `data`; for one thread."""
    import_gruut()
    from gruut.lang import DelayedSqlitePhonemizer

    processor = _quick_processor()(default_lang=language, currencies=_NO_CURRENCIES)
    settings = processor.get_settings(language)
    lookup = settings.lookup_phonemes
    if isinstance(lookup, DelayedSqlitePhonemizer):
        lexicon = open_lexicon(lookup.db_path, f"{data} {installed_version(data)}")
        lookup.phonemizer = _phonemizer_class()(db_conn=lexicon, **lookup.phonemizer_args)
        if settings.get_parts_of_speech and not settings.post_process_sentence:  # which may ask for any word's
            settings.get_parts_of_speech = _where_needed(settings.get_parts_of_speech, lookup)
    return processor


def installed_version(package: str) -> str:
    """Version of gruut or of its data, from the file in which they say it; `importlib.metadata` takes 20 ms."""
    spec = importlib.util.find_spec(package)
    said = Path(spec.submodule_search_locations[0]) / "VERSION" if spec and spec.submodule_search_locations else None
    if said and said.is_file():
        return said.read_text(encoding="utf-8").strip()
    return importlib.import_module("importlib.metadata").version(package)


def import_gruut() -> None:
    """Import gruut with stand-ins for the packages that it imports at once and needs seldom."""
    if "gruut" in sys.modules:
        return
    stand_ins: dict[str, dict[str, Any]] = {
        "dateparser": {"parse": _parse_date},
        "num2words": {"num2words": _in_words},
        "urllib.request": {"urlopen": _fetch},
        "networkx": {},
    }
    absent = [name for name in stand_ins if name not in sys.modules]
    for name in absent:
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(stand_ins[name])
    try:
        for user in ("text_processor", "lang", "utils"):
            vars(importlib.import_module(f"gruut.{user}")).update(nx=word_tree, leaves=word_tree.leaves)
    finally:
        for name in absent:
            del sys.modules[name]


def _parse_date(*arguments: Any, **options: Any) -> Any:
    import dateparser

    importlib.import_module("babel.dates")  # which gruut needs to write a date and does not import

    return dateparser.parse(*arguments, **options)


def _in_words(*arguments: Any, **options: Any) -> Any:
    from num2words import num2words

    return num2words(*arguments, **options)


def _fetch(*arguments: Any, **options: Any) -> Any:
    from urllib.request import urlopen

    return urlopen(*arguments, **options)


def _quick_processor() -> Any:
    """The class of processors. A word without a digit is neither a number nor an amount, whatever gruut tries; and as
    it says of each such word that it changed it, it would go over every text five times."""
    from gruut import TextProcessor
    from gruut.utils import get_currency_names

    class QuickProcessor(TextProcessor):
        def process(self, text: str, *arguments: Any, **options: Any) -> Any:
            if self.default_lang.startswith("en-") and not _DIGIT.search(text):
                options |= _WITHOUT_DIGITS  # in other languages a date may be a word
            return super().process(text, *arguments, **options)

        def _transform_number(self, graph: Any, node: Any) -> bool:
            return _has_digit(node) and super()._transform_number(graph, node)

        def _transform_currency(self, graph: Any, node: Any) -> bool:
            if not _has_digit(node):
                return False
            settings = self.get_settings(node.lang)
            if settings.currencies == _NO_CURRENCIES:
                settings.currencies = get_currency_names(str(settings.babel_locale))
                settings.currency_symbols = sorted(settings.currencies, key=len, reverse=True)
            return super()._transform_currency(graph, node)

    return QuickProcessor


def _phonemizer_class() -> Any:
    """The class that looks words up. It gives each word phonemes of its own: French liaison adds to them, and gruut
    would find the longer ones the next time."""
    from gruut.phonemize import SqlitePhonemizer

    class OwnPhonemes(SqlitePhonemizer):
        def __call__(self, word: str, *arguments: Any, **options: Any) -> Any:
            if _GIVEN.fullmatch(word):
                return ["ə"]
            found = super().__call__(word, *arguments, **options)
            return None if found is None else list(found)

    return OwnPhonemes


def _has_digit(node: Any) -> bool:
    return _DIGIT.search(getattr(node, "text", "")) is not None


def _where_needed(
    tag: Callable[[Sequence[str]], Sequence[str]], lookup: Any
) -> Callable[[Sequence[str]], Sequence[str]]:
    """`tag`, asked only about sentences with a word whose pronunciations differ by part of speech."""

    def differs(word: str) -> bool:
        lookup(word)  # which leaves what it found
        roles = list(lookup.phonemizer.lexicon.get(word, ()))
        return len(roles) > 1 and roles[1:] != [_LETTER]  # spelt letters are known as such, whatever the sentence

    def tagged(words: Sequence[str]) -> Sequence[str]:
        return tag(words) if any(map(differs, words)) else [""] * len(words)

    return tagged
