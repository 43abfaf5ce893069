import importlib.util
import json
import sqlite3
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from gruut.lang import find_lang_dir

from sonorant.text import load_frontend
from sonorant.text.gruut_processor import SORTED, SortedLexicon, open_lexicon

TEXTS = {
    "en-us": [
        "The 21st, 1,001st and 2nd of them read what they had read: a live wind, a tear and a bow.",
        "In 1999 it cost $3.50, €5 or US$9.99; nan, inf and 1e5 are not sums, 12% and -5 are numbers.",
        "It is 3/4/2020, 4:01 p.m. or 5pm on 9/11 in the 7-year-old TTS of Dr. Smith, e.g. T.T.S. and 99.9.9.9!",
        "He does use the houses, but the use of does is close: 'a' or an \"x\"? (II and VIII) optimised at 3 p.m.",
        "Project records were minute. A minute later they did project and record; a well-known snake_case was absent.",
        "A$ and R$ are signs. 100,000,000 and 3.14, 2,020 and 0; one two three. AED CHF EUR",
        "A$ and R$ are signs, nan and inf are words; Dr. Smith and Ms. II, vs. the TTS at noon p.m. and may?",
    ],
    "de-de": ["Am 3. Mai 2020 kostete es 5,50 € und 12 % mehr, CHF5 um 16:45 Uhr; heute II. z. B. 1.245,5 Meter!"],
    "fr-fr": [
        "Les amis ont eu 2 000 francs le 3 mai 2020 ; un enfant est petit, 16h30, CHF5 et 5,50 €. Vous avez lundi ?"
    ],
    "es-es": ["El 3 de mayo de 2020 costó 5,50 € y un 12 % más, hoy lunes a las 16:30; 2.000 y 21º, ¿MXN5?"],
}
TEXTS = {lang: texts for lang, texts in TEXTS.items() if importlib.util.find_spec(f"gruut_lang_{lang[:2]}")}
PLAIN = """
from gruut import TextProcessor
def processor_of(lang):
    return TextProcessor(default_lang=lang)
"""
QUICK = """
from sonorant.text.gruut_processor import new_processor
def processor_of(lang):
    return new_processor(lang, f"gruut_lang_{lang[:2]}")
"""
SPOKEN = """
import json, sys
def words(processor, text, lang):
    return [[w.text, w.phonemes] for s in processor.sentences(*processor(text, lang=lang)) for w in s]
texts = json.load(sys.stdin).items()
print(json.dumps([words(processor_of(lang), text, lang) for lang, of_lang in texts for text in of_lang]))
"""
IMPORTED = """
import sys
import sonorant.text as text
print({"gruut", "torch"} & set(sys.modules))
frontend = text.load_frontend("gruut", "en-us")
frontend.speak("Nobody heard the two birds.")
print({"networkx", "num2words", "dateparser", "pytz", "torch"} & set(sys.modules))
print(frontend.speak("Two birds, 1 stone.").text, "dateparser" in sys.modules)
print(frontend.speak("It is 3/4/2020.").text)
"""


def printed(code: str, given: object = None) -> str:
    run = subprocess.run([sys.executable, "-c", code], input=json.dumps(given), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_words_and_phonemes_are_those_of_gruut_as_it_is() -> None:
    quick, plain = (json.loads(printed(code + SPOKEN, TEXTS)) for code in (QUICK, PLAIN))
    assert all(plain)
    assert quick == plain


def test_slow_packages_are_imported_when_needed() -> None:
    lines = ["set()", "set()", "Two birds, one stone. False", "It is March fourth twenty twenty."]
    assert printed(IMPORTED).splitlines() == lines


@pytest.mark.skipif("fr-fr" not in TEXTS, reason="gruut_lang_fr is not installed (extra languages)")
def test_liaison_does_not_stay_with_a_word() -> None:
    french = load_frontend("gruut", "fr-fr")
    texts = ["Les chats.", "Les amis ont eu.", "Vous.", "Vous avez.", "Les chats dorment.", "Vous partez."]
    there = [french.speak(text).phonemes for text in texts]
    back = [french.speak(f"{text} ").phonemes for text in reversed(texts)][::-1]  # not the cached text
    assert there == back
    assert [phoneme.symbol for phoneme in there[4]][:3] == ["l", "e", "ʃ"]


@pytest.mark.parametrize("release", list(SORTED))
def test_a_lexicon_said_to_be_sorted_is_and_finds_every_row(release: str) -> None:
    package, stated = release.split()
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    if version(package) != stated:
        pytest.fail(f"{package} {version(package)} is installed: look whether it is sorted, and say so in SORTED")
    path = Path(str(find_lang_dir(package.removeprefix("gruut_lang_")))) / "lexicon.db"
    plain = sqlite3.connect(path)
    rows = dict(plain.execute("SELECT id, word FROM word_phonemes ORDER BY id"))
    strays = {rows.pop(row) for row in SORTED[release]}
    words = list(rows.values())
    assert words == sorted(words) and strays.isdisjoint(words)
    plain.execute("CREATE TEMP TABLE copy AS SELECT * FROM word_phonemes")
    plain.execute("CREATE INDEX word_index ON copy (word)")
    query = "SELECT role, phonemes FROM copy WHERE word = ? ORDER BY pron_order"
    lexicon = open_lexicon(path, release)
    assert isinstance(lexicon, SortedLexicon)
    asked = {*words[::97], *words[:300], *words[-300:], *words[100::128], *strays, "", "zzz", "\U0010ffff"}
    for word in asked:
        assert lexicon.execute(query, (word,)) == plain.execute(query, (word,)).fetchall(), word


def test_another_release_is_searched_in_a_copy(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "lexicon.db") as file:
        file.execute("CREATE TABLE word_phonemes (id INTEGER PRIMARY KEY, word, pron_order, phonemes, role)")
        rows = [("b", 1, "x", ""), ("a", 0, "y", ""), ("b", 0, "z", "gruut:VB")]
        file.executemany("INSERT INTO word_phonemes (word, pron_order, phonemes, role) VALUES (?, ?, ?, ?)", rows)
    lexicon = open_lexicon(tmp_path / "lexicon.db", "gruut_lang_en 3.0")
    query = "SELECT role, phonemes FROM word_phonemes WHERE word = ? ORDER BY pron_order"
    assert list(lexicon.execute(query, ("b",))) == [("gruut:VB", "z"), ("", "x")]
