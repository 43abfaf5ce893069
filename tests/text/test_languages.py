import importlib.util
import sqlite3
from importlib import import_module

import pytest

from sonorant.errors import SonorantError
from sonorant.text import gruut as frontend_file
from sonorant.text import load_frontend
from sonorant.text.frontend import PAUSES

LANGUAGES = ("de-de", "fr-fr", "es-es")
MISSING = [language for language in LANGUAGES if importlib.util.find_spec(f"gruut_lang_{language[:2]}") is None]
needs_data = pytest.mark.skipif(bool(MISSING), reason=f"the extra languages is not installed: {', '.join(MISSING)}")
WORDS = {
    "en-us": ("river", "seven"),
    "de-de": ("wasser", "schön", "über", "kirche"),
    "fr-fr": ("maison", "garçon", "œuvre", "été"),
    "es-es": ("niño", "ciudad", "perro", "agua"),
}


@pytest.mark.parametrize("language", ["en-us", *(pytest.param(each, marks=needs_data) for each in LANGUAGES)])
def test_every_phoneme_of_the_lexicon_is_a_symbol_and_words_have_theirs(language: str) -> None:
    frontend = load_frontend("gruut", language)
    file = import_module(f"gruut_lang_{language[:2]}").get_lang_dir() / "lexicon.db"
    known: dict[str, list[list[str]]] = {}
    query = f"SELECT word, phonemes FROM word_phonemes WHERE id < 99999 OR word IN {WORDS[language]}"
    for word, line in sqlite3.connect(file).execute(query):
        known.setdefault(word, []).append(line.replace("ˈ", "").replace("ˌ", "").split())
    found = {phone for word, lines in known.items() if word != "!sil" for phones in lines for phone in phones}
    assert found <= set(frontend.symbols) and frontend.symbols[-len(PAUSES) :] == PAUSES
    for word in WORDS[language]:
        spoken = frontend.speak(word)
        assert spoken.unknown == ()
        assert [phoneme.symbol for phoneme in spoken.phonemes] in known[word], word


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
