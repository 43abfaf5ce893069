import importlib.util
import sqlite3
import sys
from datetime import datetime, tzinfo
from importlib import import_module
from typing import Self

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
        ("de-de", "mp3 auf A4, um 9h30", "äm peh drei auf aa vier, um neun hah dreißig"),
        ("de-de", "10 000, 12.5 km, 10.30 Uhr", "zehntausend, zwölf Komma fünf Kilometer, zehn dreißig Uhr"),
        ("de-de", "§5 in datei.txt", "Paragraph fünf in datei Punkt txt"),
        ("fr-fr", "à 9h, 1.000,50 et 10 000", "à neuf h, mille virgule cinq et dix mille"),
        ("fr-fr", "2024-12-25T10:05:00Z", "vingt cinquième décembre deux mille vingt quatre dix cinq u t c"),
        ("es-es", "2ª, 2024-12-25", "dos a, veinticinco diciembre dos mil veinticuatro"),
    ],
)
def test_numbers_signs_and_units_are_read_in_the_language(language: str, written: str, spoken: str) -> None:
    result = load_frontend("gruut", language).speak(written)
    assert (result.text, result.unknown) == (spoken, ())


@needs_data
@pytest.mark.parametrize(
    ("language", "text"),
    [("en-us", "9h, 3/4, 2d"), ("de-de", "5m, 2w, 9h"), ("fr-fr", "à 9h, 5j, 2m, 3s"), ("es-es", "2ª, 3h, 5d, 2m")],
)
def test_what_is_spoken_does_not_depend_on_the_clock(language: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frontend = load_frontend("gruut", language)
    import_module("dateparser")
    users = [module for name, module in sys.modules.items() if name.startswith("dateparser")]
    spoken = set()
    for year in (2000, 2031):

        class Clock(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None, year: int = year) -> Self:
                return cls(year, 5, 17, 9, tzinfo=tz)

        for module in users:
            if hasattr(module, "datetime"):
                monkeypatch.setattr(module, "datetime", Clock)
        spoken.add(frontend.speak(text))
    assert len(spoken) == 1


@needs_data
def test_an_eszett_sounds_as_one_s() -> None:
    sounds = ["".join(p.symbol for p in load_frontend("gruut", "de-de").speak(w).phonemes) for w in ("Straße", "GROẞ")]
    assert sounds == ["ʃtʁasə", "gʁɔs"]
    assert load_frontend("gruut", "fr-fr").speak("groß").phonemes[-1].symbol == "s"


@needs_data
def test_letters_with_marks_stay_and_are_heard() -> None:
    german = load_frontend("gruut", "de-de")
    assert german.speak("schön").phonemes != german.speak("schon").phonemes


def test_missing_data_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend_file.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SonorantError, match=r"^language 'de-de': its data is not installed; .*\[languages\]'$"):
        load_frontend("gruut", "de-de")
