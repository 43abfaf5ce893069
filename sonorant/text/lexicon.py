"""gruut's lexicons, searched where they lie.

Their files have no index: every word would cost a scan, 12 ms in English. Where the words of a release are known to be
sorted they are bisected in the file; another lexicon is copied into memory and indexed, 80 ms and 20 MiB in English.
"""

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any

SORTED = {"gruut_lang_en 2.0.1": (3136, 83210, 89281), "gruut_lang_fr 2.0.2": ()}
"""Releases whose words are sorted by code points, but for those in these rows (ids)."""
_STEP = 128
_ROWS = "SELECT role, phonemes FROM word_phonemes WHERE id BETWEEN ? AND ? AND word = ? ORDER BY pron_order"
_INDEX = "CREATE INDEX word_index ON word_phonemes (word)"

Row = tuple[str, str]
"""Role and phonemes, parted by blanks."""


def open_lexicon(path: Path, release: str) -> Any:
    """A connection to the lexicon of a release such as "gruut_lang_en 2.0.1", as far as gruut uses one."""
    if release in SORTED:
        return SortedLexicon(path, SORTED[release])
    copy = sqlite3.connect(":memory:")
    with closing(sqlite3.connect(path)) as file:
        file.backup(copy)
    copy.execute(_INDEX)
    return copy


class SortedLexicon:
    """A lexicon whose words are sorted, but for the rows `strays`; for one thread."""

    def __init__(self, path: Path, strays: Sequence[int]) -> None:
        self._file = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        [(last,)] = self._file.execute("SELECT max(id) FROM word_phonemes")
        self._ids = [row for row in (*range(1, last, _STEP), last) if row not in strays]
        self._words = [self._word(row) for row in self._ids]
        self._strays = {self._word(row): row for row in strays}
        self._found: Callable[[str], list[Row]] = lru_cache(maxsize=4096)(self._search)

    def execute(self, _query: str, values: tuple[str]) -> list[Row]:
        """gruut's one query: the rows of a word, the commonest pronunciation first."""
        return self._found(*values)

    def _search(self, word: str) -> list[Row]:
        if word in self._strays:
            return self._rows(self._strays[word], self._strays[word], word)
        first = self._ids[max(bisect_left(self._words, word) - 1, 0)]
        last = self._ids[min(bisect_right(self._words, word), len(self._ids) - 1)]
        return self._rows(first, last, word)

    def _rows(self, first: int, last: int, word: str) -> list[Row]:
        return self._file.execute(_ROWS, (first, last, word)).fetchall()

    def _word(self, row: int) -> str:
        [(word,)] = self._file.execute("SELECT word FROM word_phonemes WHERE id = ?", (row,))
        return str(word)
