"""Pronounce words missing from pocketsphinx's dictionary with gruut, in the dictionary's phones (ARPAbet)."""

import json
from pathlib import Path
from typing import Any

from sonorant.text import load_frontend

ARPABET: dict[str, str] = json.loads((Path(__file__).parent / "arpabet.json").read_text(encoding="utf-8"))
"""Phones of the dictionary for each phone of the frontend."""
PHONES = tuple(sorted(set(ARPABET.values())))


def pronounced(decoder: Any, word: str, language: str) -> bool:
    """Return whether the dictionary of a pocketsphinx `Decoder` contains the word, after adding it if gruut can
    pronounce it."""
    if decoder.lookup_word(word) is not None:
        return True
    phonemes = load_frontend("gruut", language).speak(word).phonemes
    phones = [ARPABET[phoneme.symbol] for phoneme in phonemes if phoneme.symbol in ARPABET]
    if phones:
        decoder.add_word(word, " ".join(phones), False)
    return bool(phones)
