"""Phonemes as integers and back. Does not know which language or frontend they come from."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sonorant.errors import SonorantError
from sonorant.text.phonemes import Phoneme

PADDING, START, END = 0, 1, 2
_RESERVED = 3


class SymbolTable:
    """Ids of a voice's symbols: 0 is padding, 1 the start `^`, 2 the end `$`, then the symbols in their order.

    `size` is the number of ids, so of rows of an embedding. Raises SonorantError if a symbol occurs twice.
    """

    def __init__(self, symbols: Iterable[str]) -> None:
        self.symbols = tuple(symbols)
        self._ids = {symbol: number for number, symbol in enumerate(self.symbols, _RESERVED)}
        if len(self._ids) != len(self.symbols):
            twice = next(symbol for symbol in self.symbols if self.symbols.count(symbol) > 1)
            raise SonorantError(f"symbols: '{twice}' is listed twice; a symbol has one id")
        self.size = _RESERVED + len(self.symbols)

    def encode(self, phonemes: Iterable[Phoneme]) -> np.ndarray:
        """Token ids int16 (N, 3): columns symbol, stress (0, 1, 2), word start (0, 1); a row for `^` before and `$` after.

        Raises SonorantError naming a phoneme that the table does not hold.
        """
        rows = [(START, 0, 0)]
        for phoneme in phonemes:
            if phoneme.symbol not in self._ids:
                known = " ".join(self.symbols)
                raise SonorantError(
                    f"phoneme '{phoneme.symbol}' is not one the voice knows ({known}); use the frontend it was trained with"
                )
            rows.append((self._ids[phoneme.symbol], phoneme.stress, int(phoneme.word_start)))
        rows.append((END, 0, 0))
        return np.array(rows, dtype=np.int16)

    def decode(self, tokens: np.ndarray) -> tuple[Phoneme, ...]:
        """The phonemes of token ids (N, 3), padding, start and end left out. Raises SonorantError for an id outside the table."""
        phonemes = []
        for symbol, stress, word_start in tokens.tolist():
            if not 0 <= symbol < self.size:
                raise SonorantError(f"token id {symbol} is outside the table of {self.size} symbols; it was made with another one")
            if symbol >= _RESERVED:
                phonemes.append(Phoneme(self.symbols[symbol - _RESERVED], stress, bool(word_start)))
        return tuple(phonemes)
