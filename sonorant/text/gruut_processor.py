"""gruut's text processor, made faster, with the same results.

Packages for dates, money and numbers are slow to import, so they are imported at the first word with digits. Parts of
speech are computed only for sentences with a word whose pronunciation depends on them. `DiGraph` replaces networkx,
which takes up half the time per sentence. Lexicons have no index: sorted ones are bisected on disk, others copied into
memory and indexed.
"""

import importlib
import importlib.util
import re
import sqlite3
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

_DIGIT = re.compile(r"\d")
_NO_CURRENCIES = {"\0": ""}
_WITHOUT_DIGITS = {
    f"{step}_{kind}": False for step in ("detect", "verbalize") for kind in ("numbers", "currency", "dates", "times")
}
_RARELY_NEEDED = {"dateparser": [], "num2words": ["num2words"], "urllib.request": ["urlopen"], "networkx": []}
"""Packages that gruut imports but rarely needs, and the functions that it uses from them."""
_LETTER = "gruut:letter"
PLACEHOLDER = "qqzx"
"""Prefix of the placeholder for a word whose phonemes are given; four letters follow."""
_GIVEN = re.compile(rf"{PLACEHOLDER}[a-z]{{4}}")

Tagger = Callable[[Sequence[str]], Sequence[str]]
"""Function that returns the parts of speech of a sentence's words."""
SORTED = {"gruut_lang_en 2.0.1": (3136, 83210, 89281), "gruut_lang_fr 2.0.2": ()}
"""Lexicon releases whose words are sorted by code point, with the ids of the rows that are out of order."""
_ROWS = "SELECT role, phonemes FROM word_phonemes WHERE id BETWEEN ? AND ? AND word = ? ORDER BY pron_order"

Row = tuple[str, str]
"""Role (part of speech) of a word, and its phonemes separated by blanks."""
Edge = tuple[int, int]


def new_processor(language: str, data: str) -> Any:
    """Create a processor for one thread. `data`: package with the language's data."""
    import_gruut()
    from gruut.lang import DelayedSqlitePhonemizer

    processor = _quick_processor()(default_lang=language, currencies=_NO_CURRENCIES)
    settings = processor.get_settings(language)
    settings.replacements = [each for each in settings.replacements if each[1] != "ss"]
    settings.guess_phonemes = settings.guess_phonemes and _with_eszett(settings.guess_phonemes)
    lookup = settings.lookup_phonemes
    if isinstance(lookup, DelayedSqlitePhonemizer):
        lexicon = open_lexicon(lookup.db_path, f"{data} {installed_version(data)}")
        lookup.phonemizer = _phonemizer_class()(db_conn=lexicon, **lookup.phonemizer_args)
        if settings.get_parts_of_speech and not settings.post_process_sentence:  # it may need those of any word
            settings.get_parts_of_speech = _where_needed(settings.get_parts_of_speech, lookup)
    return processor


def installed_version(package: str) -> str:
    """Return the version in the package's VERSION file, because `importlib.metadata` takes 20 ms."""
    spec = importlib.util.find_spec(package)
    said = Path(spec.submodule_search_locations[0]) / "VERSION" if spec and spec.submodule_search_locations else None
    if said and said.is_file():
        return said.read_text(encoding="utf-8").strip()
    return importlib.import_module("importlib.metadata").version(package)


def import_gruut() -> None:
    """Import gruut with stubs for packages that it imports immediately but rarely needs."""
    if "gruut" in sys.modules:
        return
    absent = [name for name in _RARELY_NEEDED if name not in sys.modules]
    for name in absent:
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update({function: _when_called(name, function) for function in _RARELY_NEEDED[name]})
    try:
        for user in ("text_processor", "lang", "utils"):
            vars(importlib.import_module(f"gruut.{user}")).update(nx=sys.modules[__name__], leaves=leaves)
    finally:
        for name in absent:
            del sys.modules[name]


def _when_called(module: str, name: str) -> Callable[..., Any]:
    """Return a stub of the function `name` that imports `module` when called."""

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*arguments, **options)

    return call


def _quick_processor() -> Any:
    """Return a processor class that parses only words with digits as numbers and amounts. Otherwise gruut makes five
    passes over a text, because it counts every word that it tries as changed."""
    from gruut import TextProcessor, text_processor
    from gruut.utils import get_currency_names

    text_processor.dateparser = sys.modules[__name__]

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


def parse(text: str, languages: list[str], settings: dict[str, Any]) -> Any:
    """Parse a date as `dateparser.parse` does, but not one relative to now: it takes `9h` for a day, nine hours ago."""
    importlib.import_module("babel.dates")  # gruut needs it to write a date but does not import it
    absolute = settings | {"PARSERS": ["absolute-time"]}
    return importlib.import_module("dateparser").parse(text, languages=languages, settings=absolute)


def _phonemizer_class() -> Any:
    """Return a lookup class that returns copies, because French liaison appends to a word's phonemes."""
    from gruut.phonemize import SqlitePhonemizer

    class OwnPhonemes(SqlitePhonemizer):
        def __call__(self, word: str, *arguments: Any, **options: Any) -> Any:
            if _GIVEN.fullmatch(word):
                return ["ə"]
            found = super().__call__(word.replace("ß", "ss").replace("ẞ", "SS"), *arguments, **options)
            return None if found is None else list(found)

    return OwnPhonemes


def _with_eszett(guess: Callable[..., Any]) -> Callable[..., Any]:
    """Return a guesser that reads ß as one s; gruut reads it as ss, for which its model guesses two sounds."""

    def guessed(word: str, *arguments: Any) -> Any:
        plain = word.lower().replace("ß", "ss")
        phones = guess(plain, *arguments)
        if plain == word.lower():
            return phones
        return [phone for before, phone in pairwise(["", *phones]) if not (before == "s" and phone in ("s", "z"))]

    return guessed


def _has_digit(node: Any) -> bool:
    return _DIGIT.search(getattr(node, "text", "")) is not None


def _where_needed(tag: Tagger, lookup: Any) -> Tagger:
    """Return a tagger that calls `tag` only for sentences with a word whose pronunciation depends on its part of
    speech."""

    def differs(word: str) -> bool:
        lookup(word)  # fills the lexicon
        roles = list(lookup.phonemizer.lexicon.get(word, ()))
        return len(roles) > 1 and roles[1:] != [_LETTER]  # a spelt letter needs no part of speech

    def tagged(words: Sequence[str]) -> Sequence[str]:
        return tag(words) if any(map(differs, words)) else [""] * len(words)

    return tagged


class DiGraph:
    """The part of networkx.DiGraph that gruut uses; walks are cached until the graph changes."""

    def __init__(self) -> None:
        self.nodes: dict[int, dict[str, Any]] = {}
        self._after: dict[int, dict[int, None]] = {}
        self._before: dict[int, dict[int, None]] = {}
        self._walks: dict[int, Sequence[int]] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def add_node(self, node: int, **attributes: Any) -> None:
        self.nodes[node], self._after[node], self._before[node] = attributes, {}, {}

    def add_edge(self, start: int, end: int) -> None:
        self._after[start][end] = self._before[end][start] = None
        self._walks.clear()

    def add_edges_from(self, edges: Iterable[Edge]) -> None:
        for edge in edges:
            self.add_edge(*edge)

    def remove_edges_from(self, edges: Iterable[Edge]) -> None:
        for start, end in edges:
            self._after[start].pop(end, None)
            self._before[end].pop(start, None)
        self._walks.clear()

    def out_degree(self, node: int) -> int:
        return len(self._after[node])

    def out_edges(self, node: int) -> list[Edge]:
        return [(node, end) for end in self._after[node]]

    def successors(self, node: int) -> Iterable[int]:
        return iter(self._after[node])

    def predecessors(self, node: int) -> Iterable[int]:
        return iter(self._before[node])

    def walk(self, source: int) -> Sequence[int]:
        """Return the nodes reachable from `source` in depth-first preorder."""
        if source not in self._walks:
            order: dict[int, None] = {}
            ahead = [source]
            while ahead:
                node = ahead.pop()
                if node not in order:
                    order[node] = None
                    ahead.extend(reversed(self._after[node]))
            self._walks[source] = tuple(order)
        return self._walks[source]


dfs_preorder_nodes = DiGraph.walk


def leaves(graph: DiGraph, node: Any) -> list[Any]:
    """Return the data of the leaves below `node`, as `gruut.utils.leaves` does."""
    return [graph.nodes[end]["data"] for end in graph.walk(node.node) if not graph.out_degree(end)]


def open_lexicon(path: Path, release: str) -> Any:
    """Open a lexicon. `release`: such as "gruut_lang_en 2.0.1"."""
    if release in SORTED:
        return SortedLexicon(path, SORTED[release])
    copy = sqlite3.connect(":memory:")
    with closing(sqlite3.connect(path)) as file:
        file.backup(copy)
    copy.execute("CREATE INDEX word_index ON word_phonemes (word)")
    return copy


class SortedLexicon:
    """A lexicon whose words are sorted, except in the rows `strays`. For use in one thread."""

    def __init__(self, path: Path, strays: Sequence[int]) -> None:
        self._file = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        [(last,)] = self._file.execute("SELECT max(id) FROM word_phonemes")
        self._rows = range(1, last + 1)
        self._strays = {self._word(row): row for row in strays}
        self._found: Callable[[str], list[Row]] = lru_cache(maxsize=4096)(self._search)

    def execute(self, _query: str, values: tuple[str]) -> list[Row]:
        """Return the rows of a word, most common pronunciation first. This is gruut's only query."""
        return self._found(*values)

    def _search(self, word: str) -> list[Row]:
        first = last = self._strays.get(word, 0)
        if not first:
            first = bisect_left(self._rows, word, key=self._sorted_word) + 1
            last = bisect_right(self._rows, word, first - 1, key=self._sorted_word)
        return self._file.execute(_ROWS, (first, last, word)).fetchall()

    def _sorted_word(self, row: int) -> str:
        return self._word(row - (row in self._strays.values()))

    def _word(self, row: int) -> str:
        [(word,)] = self._file.execute("SELECT word FROM word_phonemes WHERE id = ?", (row,))
        return str(word)
