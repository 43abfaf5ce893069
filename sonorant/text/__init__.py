"""Text to the phonemes that a model learns and speaks. Imports no torch."""

from sonorant.text.frontend import FRONTENDS, Frontend, Phoneme, SpokenText, SymbolTable, TextConfig, load_frontend

__all__ = ["FRONTENDS", "Frontend", "Phoneme", "SpokenText", "SymbolTable", "TextConfig", "load_frontend"]
