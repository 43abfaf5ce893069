"""Rules that write out abbreviations, titles, Roman numerals and signs between words."""

import re

from sonorant.text.english import table
from sonorant.text.english.addresses import NAMED, ended
from sonorant.text.english.numbers import cardinal, ordinal, roman
from sonorant.text.pieces import Rules

_TITLES, _ANYWHERE, _BEFORE_NUMBERS = table("titles"), table("abbreviations"), table("before numbers")
_NUMBER_WORD = rf"(?=(?:{'|'.join(['oh', *table('small numbers'), *table('tens')])})\b)"
_ROMAN = r"(M{0}(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3}))"
_COUNTED, _NAMES = "|".join(table("counted")), "|".join(table("reigning"))


def _numeral(match: re.Match[str], words: str) -> str:
    return f"{match[1]} {words}" if match[2] else match[0]


def _counted(match: re.Match[str]) -> str:
    return _numeral(match, cardinal(roman(match[2])).title() if match[2] else "")


def _reigning(match: re.Match[str]) -> str:
    return _numeral(match, "the " + ordinal(roman(match[2])).title() if match[2] else "")


def _spelt(match: re.Match[str]) -> str:
    """Spell an abbreviation: U.S. -> U S. Keep its last full stop if it also ends the sentence."""
    next_sentence = r"\s+(?:The|A|An|He|She|It|They|We|I|In|On|But|And|This|That)\b"
    return " ".join(match[0].replace(".", "")) + ended(match, next_sentence)


RULES: Rules = (
    *NAMED,
    (r"\b[Ii]\. ?e\.(?=,?\s|$)", "that is"),
    (r"\b[Ee]\. ?g\.(?=,?\s|$)", "for example"),
    (r"\bcf\.(?= )", "compare"),
    (r"\bPh\.? ?Ds\b", "P H Ds"),
    (r"\bPh\.? ?D\b\.?", lambda match: "P H D" + ended(match)),
    (r"\b(M|B)\.(A|S|D)\.(?=\W|$)", r"\1 \2"),
    (r"\bw/o\b ?", "without "),
    (r"\bw/ ?(?=\w)", "with "),
    (rf"\b({'|'.join(_TITLES)})\. (?=[A-Z])", lambda match: _TITLES[match[1]] + " "),
    (r"\b(Mr|Mrs|Ms|Dr) (?=[A-Z])", lambda match: _TITLES[match[1]] + " "),
    (rf"\b({'|'.join(_BEFORE_NUMBERS)})\. ?{_NUMBER_WORD}", lambda match: _BEFORE_NUMBERS[match[1]] + " "),
    (
        rf"\b({'|'.join(map(str.title, _BEFORE_NUMBERS))})\. ?{_NUMBER_WORD}",
        lambda match: _BEFORE_NUMBERS[match[1].lower()].title() + " ",
    ),
    (rf"\b({'|'.join(_ANYWHERE)})\.", lambda match: _ANYWHERE[match[1]] + ended(match)),
    (r"\b(vs|etc)\b", lambda match: _ANYWHERE[match[1]]),
    (rf"\b({_COUNTED}) {_ROMAN}\b(?!['.])", _counted),
    (rf"\b({_NAMES}) {_ROMAN}\b(?!')(?!\.\w)", _reigning),
    (r"\b(?:[A-Z]\.){2,}", _spelt),
    (rf"\b(?:{'|'.join(table('acronyms'))})\b", lambda match: match[0].title()),
    (r"\b([A-Z]{2,5})s\b", lambda match: " ".join(match[1]) + "'s"),
    (r"\b([A-Z])\. (?=[A-Z]\.? |[A-Z][a-z])", r"\1 "),
    (r"\b([A-Z])& ?([A-Z])\b", r"\1 and \2"),
    (r"\b([A-Z]{2,3})& ?([A-Z])\b", lambda match: f"{' '.join(match[1])} and {match[2]}"),
    (r" ?& ?", " and "),
    (r"§+ ?", "section "),
    (r"(?<![\w.])([A-G])[#♯](?!\w)", r"\1-sharp"),
    (r"\bA\+(?!\w)", "A-plus"),
    (r"\band/or\b", "and or"),
    (r"(?<=[A-Za-z])/(?=[A-Za-z])", " "),
    (r" ?@ ?", " at "),
    (r"(?<=\w)\+\+", " plus plus"),
    (r" ?\+(?=\s|$)", " plus"),
    (r"(?<=\S) = (?=\S)", " equals "),
    (r"(?<=\w) × (?=\w)", " times "),
    (r"°", " degrees"),
    (r"(?<=[A-Za-z0-9])\.(?=[a-z]{2,})|(?<=[a-z])\.(?=[A-Z] )", " dot "),
)  # fmt: skip
