"""Token ids: their layout, and encoding and decoding without loss."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonorant.errors import SonorantError
from sonorant.text import Phoneme, SymbolTable

SYMBOLS = ("a", "iː", "t͡ʃ", ",", ".")
TABLE = SymbolTable(SYMBOLS)
PHONEMES = st.lists(st.builds(Phoneme, st.sampled_from(SYMBOLS), st.integers(0, 2), st.booleans()))


def test_the_layout_of_the_ids() -> None:
    tokens = TABLE.to_tokens([Phoneme("iː", 1, True), Phoneme(".")])
    assert tokens.dtype == np.int16
    assert tokens.tolist() == [[1, 0, 0], [4, 1, 1], [7, 0, 0], [2, 0, 0]]
    assert TABLE.size == 8
    assert TABLE.to_tokens([]).tolist() == [[1, 0, 0], [2, 0, 0]]


@given(PHONEMES, st.integers(0, 3))
def test_encoding_is_undone_by_decoding_also_with_padding(phonemes: list[Phoneme], padding: int) -> None:
    tokens = np.pad(TABLE.to_tokens(phonemes), ((0, padding), (0, 0)))
    assert TABLE.to_phonemes(tokens) == tuple(phonemes)


def test_what_the_table_does_not_hold_is_named() -> None:
    with pytest.raises(SonorantError, match="phoneme 'ʘ' is not in the voice"):
        TABLE.to_tokens([Phoneme("a"), Phoneme("ʘ")])
    with pytest.raises(SonorantError, match="token id 8 is outside the table of 8 symbols"):
        TABLE.to_phonemes(np.array([[8, 0, 0]]))
    with pytest.raises(SonorantError, match="'a' is listed twice"):
        SymbolTable(["a", "b", "a"])
