import importlib.util
import pickle
import shutil

import pytest

from sonorant.text import SymbolTable, load_frontend
from sonorant.text.frontend import PAUSES

INSTALLED = importlib.util.find_spec("phonemizer") is not None
AVAILABLE = INSTALLED and shutil.which("espeak-ng") is not None
needs_espeak = pytest.mark.skipif(not AVAILABLE, reason="phonemizer or espeak-ng is not installed")


@needs_espeak
@pytest.mark.parametrize("language", ["en-us", "de-de", "fr-fr"])
def test_speech_is_inside_the_inventory_with_pauses_and_unknown_characters(language: str) -> None:
    frontend = load_frontend("espeak", language)
    spoken = frontend.speak("Hello, the fire 23 😀 really? Yes!")
    SymbolTable(frontend.symbols).to_tokens(spoken.phonemes)
    assert [p.symbol for p in spoken.phonemes if p.symbol in PAUSES] == [",", "?", "!"]
    assert spoken.unknown == ("😀",)
    assert sum(p.word_start for p in spoken.phonemes) >= 6
    assert any(p.stress == 1 for p in spoken.phonemes)


@needs_espeak
def test_long_vowels_are_one_token_and_copies_agree() -> None:
    frontend = load_frontend("espeak", "en-us")
    spoken = frontend.speak("see")
    assert [(p.symbol, p.stress) for p in spoken.phonemes] == [("s", 0), ("iː", 1)]
    assert pickle.loads(pickle.dumps(frontend)).speak("see") == spoken
    assert frontend.speak("...").phonemes == ()
    assert [part.text for part in frontend.sentences("One. Two? Three")] == ["One.", "Two?", "Three"]
