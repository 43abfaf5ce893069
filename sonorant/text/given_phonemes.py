"""Phonemes as a person writes them: in a lexicon, between double brackets or in SSML."""

import unicodedata
from collections.abc import Sequence

from sonorant.errors import SonorantError
from sonorant.text.frontend import PAUSES, Phoneme

STRESS = {"ˈ": 1, "'": 1, "ˌ": 2}
WORD_BORDER = "#"
_SAME = {"tʃ": "t͡ʃ", "dʒ": "d͡ʒ", "ʧ": "t͡ʃ", "ʤ": "d͡ʒ", "g": "ɡ", "r": "ɹ", "ɝ": "ɚ", "ɜ": "ɚ", "ː": ""}
"""Ways to write a phone, and the one that is meant where the inventory has it and lacks the first."""
_VOWELS = frozenset("aɑɐɒæʌəɘɚɛɜɝɞeɤɵiɨɪᵻyʏɯuʉʊoɔøœɶ")


def parse_phonemes(text: str, symbols: Sequence[str], language: str) -> tuple[Phoneme, ...]:
    """Phonemes of the inventory `symbols`, with blanks between them or without: `h ə l ˈoʊ`, `həlˈoʊ`, `həˈloʊ`.

    A mark of stress holds for the next vowel; `#` parts words. Raises SonorantError naming the first phoneme that is
    not in the inventory, or if there is none.
    """
    inventory = [symbol for symbol in symbols if symbol not in PAUSES]
    longest = max(map(len, inventory))
    phonemes: list[Phoneme] = []
    stress, word_start = 0, True
    rest = unicodedata.normalize("NFC", text).replace(":", "ː")
    for written, meant in _SAME.items():
        if meant in inventory and written not in inventory:
            rest = rest.replace(written, meant)
    while rest := rest.lstrip(" \t.‿"):
        if rest[0] in STRESS:
            stress, rest = STRESS[rest[0]], rest[1:]
        elif rest[0] == WORD_BORDER:
            word_start, rest = True, rest[1:]
        else:
            symbol, length = _next(rest, inventory, longest)
            if not length:
                raise SonorantError(
                    f"'{rest.split()[0][:8]}' begins with no phoneme of {language}; there are: {' '.join(inventory)}"
                )
            if symbol:
                vowel = symbol[0] in _VOWELS
                phonemes.append(Phoneme(symbol, stress if vowel else 0, word_start))
                stress, word_start = 0 if vowel else stress, False
            rest = rest[length:]
    if not phonemes:
        raise SonorantError("there are no phonemes; write them as in h ə l ˈoʊ")
    return tuple(phonemes)


def _next(text: str, inventory: Sequence[str], longest: int) -> tuple[str, int]:
    """The longest symbol that the text begins with, and how many characters it takes; 0 if there is none."""
    for length in range(min(longest, len(text)), 0, -1):
        if text[:length] in inventory:
            return text[:length], length
    return "", int(text[0] == "ː")  # a language without long vowels
