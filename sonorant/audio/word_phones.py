"""Words that pocketsphinx' dictionary lacks, pronounced as gruut says them, in the dictionary's phones (ARPAbet)."""

from typing import Any

from sonorant.text import load_frontend

# fmt: off
ARPABET = {
    "ɑ": "AA", "ɑː": "AA", "æ": "AE", "ʌ": "AH", "ə": "AH", "ɔ": "AO", "ɔː": "AO", "aʊ": "AW", "aɪ": "AY", "b": "B",
    "tʃ": "CH", "t͡ʃ": "CH", "d": "D", "ð": "DH", "ɛ": "EH", "ɚ": "ER", "ɝ": "ER", "ɜ": "ER", "ɜː": "ER", "eɪ": "EY",
    "f": "F", "ɡ": "G", "g": "G", "h": "HH", "ɪ": "IH", "i": "IY", "iː": "IY", "dʒ": "JH", "d͡ʒ": "JH", "k": "K",
    "l": "L", "m": "M", "n": "N", "ŋ": "NG", "oʊ": "OW", "ɔɪ": "OY", "p": "P", "ɹ": "R", "r": "R", "s": "S",
    "ʃ": "SH", "t": "T", "θ": "TH", "ʊ": "UH", "u": "UW", "uː": "UW", "v": "V", "w": "W", "j": "Y", "z": "Z",
    "ʒ": "ZH", "ɾ": "T", "ʔ": "T",
}
# fmt: on
"""The dictionary's phone by that of the frontend."""
PHONES = tuple(sorted(set(ARPABET.values())))
"""All 39 phones of the dictionary."""


def pronounced(decoder: Any, word: str, language: str) -> bool:
    """Whether the dictionary of a pocketsphinx `Decoder` holds the word, added where gruut can say it."""
    if decoder.lookup_word(word) is not None:
        return True
    phonemes = load_frontend("gruut", language).speak(word).phonemes
    phones = [ARPABET[phoneme.symbol] for phoneme in phonemes if phoneme.symbol in ARPABET]
    if phones:
        decoder.add_word(word, " ".join(phones), False)
    return bool(phones)
