"""Text to phonemes. Imports no torch."""

from sonorant.text.frontend import (
    FRONTENDS,
    Frontend,
    Phoneme,
    SpokenText,
    SymbolTable,
    TextConfig,
    frontend_description,
    load_frontend,
    load_with_lexicon,
)

__all__ = [
    "FRONTENDS",
    "Frontend",
    "Phoneme",
    "SpokenText",
    "SymbolTable",
    "TextConfig",
    "frontend_description",
    "load_frontend",
    "load_with_lexicon",
]
