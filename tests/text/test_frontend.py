import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.text import Phoneme, SymbolTable

SYMBOLS = ("a", "iː", "t͡ʃ", ",", ".")
TABLE = SymbolTable(SYMBOLS)


def test_the_layout_of_the_ids() -> None:
    tokens = TABLE.to_tokens([Phoneme("iː", 1, True), Phoneme(".")])
    assert tokens.dtype == np.int16
    assert tokens.tolist() == [[1, 0, 0], [4, 1, 1], [7, 0, 0], [2, 0, 0]]
    assert TABLE.size == 8
    assert TABLE.to_tokens([]).tolist() == [[1, 0, 0], [2, 0, 0]]


def test_what_the_table_does_not_hold_is_named() -> None:
    with pytest.raises(SonorantError, match="phoneme 'ʘ' is not one of the voice's phonemes"):
        TABLE.to_tokens([Phoneme("a"), Phoneme("ʘ")])
    with pytest.raises(SonorantError, match="'a' is listed twice"):
        SymbolTable(["a", "b", "a"])
