"""From text to the phonemes a model learns and speaks. Knows nothing of audio, models or training; imports no torch."""

from sonorant.text.frontend import FRONTENDS, Frontend, TextConfig, load_frontend
from sonorant.text.phonemes import Phoneme, SpokenText
from sonorant.text.symbols import SymbolTable

__all__ = ["FRONTENDS", "Frontend", "Phoneme", "SpokenText", "SymbolTable", "TextConfig", "load_frontend"]
