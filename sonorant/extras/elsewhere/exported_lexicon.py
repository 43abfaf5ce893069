"""Pronunciation lexicon for programs without a frontend, made from the lexicons of gruut and the voice and a file of
words."""

from __future__ import annotations

import importlib.util
import logging
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from tqdm import tqdm

from sonorant.errors import SonorantError
from sonorant.text.frontend import PAUSES, Frontend, Phoneme

Word = tuple[Phoneme, ...]
_APOSTROPHES = str.maketrans(dict.fromkeys("‘’ʼ＇", "'"))
_log = logging.getLogger(__name__)


def pronunciations(frontend: Frontend, words: Path | None = None) -> dict[str, Word]:
    """Return the phonemes of each lower-case word spoken in isolation, sorted by word.

    Homographs ("read") get one pronunciation. `words`: file of additional words, separated by white space. Words of
    this file and of the user's lexicon that are left out are named in the log. Raises SonorantError if there are no
    words or the file is unreadable.
    """
    of_user = [*(frontend.lexicon.entries if frontend.lexicon else ()), *_words_of(words)]
    wanted = dict.fromkeys([*of_user, *_words_of_gruut(frontend)])
    if not wanted:
        raise SonorantError(
            f"the frontend {frontend.name} has no word list for {frontend.language}; give a file of words with --words"
        )
    found: dict[str, Word] = {}
    left_out = []
    for word in tqdm(wanted, desc="words", unit="word", disable=None):
        spoken = frontend.speak(word)
        phonemes = tuple(each for each in spoken.phonemes if each.symbol not in PAUSES)
        if phonemes and not spoken.unknown and len(word.split()) == 1:
            found.setdefault(word.lower().translate(_APOSTROPHES), phonemes)
        else:
            left_out.append(word)
    if named := sorted({*left_out} & {*of_user}):
        why = f"without a sound in {frontend.language}, or with a blank"
        _log.warning("%d words left out (%s): %s", len(named), why, ", ".join(named[:20]))
    return dict(sorted(found.items()))


def distinct(words: Iterable[Word]) -> list[Phoneme]:
    found = {phoneme for word in words for phoneme in word}
    return sorted(found, key=lambda each: (each.symbol, each.stress, each.word_start))


def _words_of(file: Path | None) -> Iterator[str]:
    if file is None:
        return
    try:
        yield from file.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise SonorantError(f"{file}: cannot be read as a word list ({error}); give a UTF-8 file") from None


def _words_of_gruut(frontend: Frontend) -> Iterator[str]:
    package = importlib.util.find_spec(f"gruut_lang_{frontend.language.split('-')[0]}")
    if frontend.name != "gruut" or package is None or not package.submodule_search_locations:
        return
    file = Path(package.submodule_search_locations[0]) / "lexicon.db"
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        yield from (word for (word,) in database.execute("SELECT DISTINCT word FROM word_phonemes ORDER BY word"))
