"""From text to the phonemes a model learns and speaks. Knows nothing of audio, models or training; imports no torch."""

from sonorant.text.frontend import FRONTENDS, Frontend, Phoneme, SpokenText, SymbolTable, TextConfig, load_frontend

__all__ = ["FRONTENDS", "Frontend", "Phoneme", "SpokenText", "SymbolTable", "TextConfig", "load_frontend"]
