"""gruut in German, French and Spanish: words as in its lexicon, numbers and signs in the language."""

import importlib.util
import sqlite3
from importlib import import_module

import pytest

from sonorant.errors import SonorantError
from sonorant.text import gruut as frontend_file
from sonorant.text import load_frontend
from sonorant.text.frontend import PAUSES, SymbolTable

LANGUAGES = ("de-de", "fr-fr", "es-es")
MISSING = [language for language in LANGUAGES if importlib.util.find_spec(f"gruut_lang_{language[:2]}") is None]
needs_data = pytest.mark.skipif(bool(MISSING), reason=f"the extra languages is not installed: {', '.join(MISSING)}")
WORDS = {
    "de-de": ("wasser", "schön", "über", "kirche"),
    "fr-fr": ("maison", "garçon", "œuvre", "été"),
    "es-es": ("niño", "ciudad", "perro", "agua"),
}


def rows(language: str, query: str, *values: object) -> list[tuple[str, str]]:
    file = import_module(f"gruut_lang_{language[:2]}").get_lang_dir() / "lexicon.db"
    return sqlite3.connect(file).execute(f"SELECT word, phonemes FROM word_phonemes {query}", values).fetchall()


@needs_data
@pytest.mark.parametrize("language", LANGUAGES)
def test_words_are_pronounced_as_the_lexicon_says(language: str) -> None:
    frontend = load_frontend("gruut", language)
    for word in WORDS[language]:
        known = [phonemes for _, phonemes in rows(language, "WHERE word = ?", word)]
        spoken = frontend.speak(word)
        assert known and spoken.unknown == ()
        plain = [phonemes.replace("ˈ", "").replace("ˌ", "").split() for phonemes in known]
        assert [phoneme.symbol for phoneme in spoken.phonemes] in plain, word


@needs_data
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_phoneme_of_the_lexicon_has_a_place_in_the_table(language: str) -> None:
    frontend = load_frontend("gruut", language)
    found = {
        phone.lstrip("ˈˌ") for word, line in rows(language, "LIMIT 100000") if word != "!sil" for phone in line.split()
    }
    assert found <= set(frontend.symbols) and frontend.symbols[-len(PAUSES) :] == PAUSES
    spoken = frontend.speak(" ".join(WORDS[language]))
    table = SymbolTable(frontend.symbols)
    assert table.to_phonemes(table.to_tokens(spoken.phonemes)) == spoken.phonemes


@needs_data
@pytest.mark.parametrize(
    ("language", "written", "spoken"),
    [
        ("de-de", "21 Hunde und 100 Katzen", "einundzwanzig Hunde und einhundert Katzen"),
        ("de-de", "50 % und 5 kg & 20 °C", "fünfzig Prozent und fünf Kilogramm und zwanzig Grad Celsius"),
        ("de-de", "3,50 €", "drei Komma fünf Euro"),
        ("de-de", "No. 3, St. Pauli etc.", "No. drei, St. Pauli etc."),  # English abbreviations are unchanged
        ("fr-fr", "80 maisons", "quatre vingts maisons"),
        ("fr-fr", "50% et 3 km", "cinquante pour cent et trois kilomètres"),
        ("es-es", "21 casas y 1.000 perros", "veintiuno casas y mil perros"),
        ("es-es", "50 % + 2 kg", "cincuenta por ciento más dos kilogramos"),
    ],
)
def test_numbers_signs_and_units_are_read_in_the_language(language: str, written: str, spoken: str) -> None:
    result = load_frontend("gruut", language).speak(written)
    assert (result.text, result.unknown) == (spoken, ())


@needs_data
def test_letters_with_marks_stay_and_are_heard() -> None:
    german = load_frontend("gruut", "de-de")
    assert german.speak("schön").phonemes != german.speak("schon").phonemes


def test_missing_data_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend_file.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        SonorantError, match=r"^language 'de-de': its data is not installed; .*'sonorant\[languages\]'$"
    ):
        load_frontend("gruut", "de-de")
