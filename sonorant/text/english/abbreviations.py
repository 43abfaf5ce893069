"""Abbreviations, titles, Roman numerals and signs between words."""

import re

from sonorant.text.english.addresses import NAMED, ended
from sonorant.text.english.numbers import cardinal, ordinal, roman
from sonorant.text.traced import Rules

_TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor", "Capt": "Captain",
    "Cpt": "Captain", "Sgt": "Sergeant", "Lt": "Lieutenant", "Col": "Colonel", "Maj": "Major", "Gen": "General",
    "Cmdr": "Commander", "Adm": "Admiral", "Pvt": "Private", "Cpl": "Corporal", "Gov": "Governor", "Sen": "Senator",
    "Rep": "Representative", "Pres": "President", "Rev": "Reverend", "Hon": "Honorable", "Fr": "Father",
    "Msgr": "Monsignor", "St": "Saint", "Ste": "Sainte", "Mt": "Mount", "Ft": "Fort", "Pt": "Point",
}  # fmt: skip
_ANYWHERE = {
    "Jr": "Junior", "Sr": "Senior", "Inc": "Incorporated", "Ltd": "Limited", "Corp": "Corporation", "Co": "Company",
    "Bros": "Brothers", "Assn": "Association", "Univ": "University", "vs": "versus", "etc": "et cetera",
    "approx": "approximately", "dept": "department", "Dept": "Department", "govt": "government", "est": "established",
    "misc": "miscellaneous", "incl": "including", "excl": "excluding", "min": "minimum", "max": "maximum",
    "tel": "telephone", "Tel": "telephone", "ext": "extension", "esp": "especially", "Intl": "International",
    "Mfg": "Manufacturing", "Natl": "National", "Ave": "Avenue", "Blvd": "Boulevard", "hrs": "hours", "mins": "minutes",
    "secs": "seconds", "yrs": "years", "al": "al", "Esq": "Esquire",
}  # fmt: skip
_BEFORE_NUMBERS = {
    "fig": "figure", "figs": "figures", "p": "page", "pp": "pages", "vol": "volume", "ch": "chapter", "sec": "section",
    "no": "number", "nos": "numbers", "art": "article", "ed": "edition", "ver": "version", "approx": "approximately",
    "ca": "circa", "c": "circa", "par": "paragraph", "eq": "equation", "tab": "table",
}  # fmt: skip
_NUMBER_WORD = (
    "(?=(?:zero|oh|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|"
    "seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)\\b)"
)
_ROMAN = r"(M{0}(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3}))"
_COUNTED = (
    "Chapter|Part|Act|Scene|Volume|Book|Section|Phase|Type|Class|Level|Article|Appendix|Figure|Table|Rocky|Bowl|War|"
    "Title|Stage|Grade|Episode|Apollo|Mark|chapter|part|act|scene|volume|phase|type|section|stage"
)
_NAMES = (
    "Henry|Louis|Elizabeth|George|Edward|Charles|James|William|Richard|Philip|Frederick|Catherine|Peter|Paul|John|"
    "Alexander|Nicholas|Napoleon|Gustav|Pius|Benedict|Leo|Gregory|Innocent|Urban|Clement|Ivan|Otto|Ramses|Ptolemy|"
    "Francis|Ferdinand|Wilhelm|Friedrich|Christian|Harald|Olaf|Alfonso|Constantine|Darius|Xerxes|Mary|Margaret|Anne"
)


def _numeral(match: re.Match[str], words: str) -> str:
    return f"{match[1]} {words}" if match[2] else match[0]


def _counted(match: re.Match[str]) -> str:
    return _numeral(match, cardinal(roman(match[2])).title() if match[2] else "")


def _reigning(match: re.Match[str]) -> str:
    return _numeral(match, "the " + ordinal(roman(match[2])).title() if match[2] else "")


def _spelt(match: re.Match[str]) -> str:
    """U.S. -> U S; the last point may end the sentence."""
    after = match.string[match.end() :]
    ends = re.match(r"\s*$|\s+(?:The|A|An|He|She|It|They|We|I|In|On|But|And|This|That)\b", after) is not None
    return " ".join(match[0].replace(".", "")) + ("." if ends else "")


def _apart(letters: str) -> str:
    return " ".join(letters)


_SAID_AS_WORDS = (
    "RAM|ROM|COVID|NATO|NASA|NOAA|UNICEF|UNESCO|OPEC|AIDS|FIFA|NAFTA|SWAT|SIM|PIN|GIF|JPEG|LAN|WAN|DOS|NAS|SARS|FEMA|"
    "ASCII|CAPTCHA|LASER|RADAR|SCUBA|IKEA"
)
RULES: Rules = (
    *NAMED,
    (r"\b([Ii])\. ?e\.(?=,?\s|$)", lambda match: "that is"),
    (r"\b([Ee])\. ?g\.(?=,?\s|$)", lambda match: "for example"),
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
    (rf"\b(?:{_SAID_AS_WORDS})\b", lambda match: match[0].title()),
    (r"\b([A-Z]{2,5})s\b", lambda match: _apart(match[1]) + "'s"),
    (r"\b([A-Z])\. (?=[A-Z]\.? |[A-Z][a-z])", r"\1 "),
    (r"\b([A-Z])& ?([A-Z])\b", r"\1 and \2"),
    (r"\b([A-Z]{2,3})& ?([A-Z])\b", lambda match: f"{_apart(match[1])} and {match[2]}"),
    (r" ?& ?", " and "),
    (r"\band/or\b", "and or"),
    (r"(?<=[A-Za-z])/(?=[A-Za-z])", " "),
    (r" ?@ ?", " at "),
    (r" ?\+(?=\s|$)", " plus"),
    (r"(?<=\S) = (?=\S)", " equals "),
    (r"(?<=\w) × (?=\w)", " times "),
    (r"°", " degrees"),
    (r"(?<=[A-Za-z0-9])\.(?=[a-z]{2,})", " dot "),
)  # fmt: skip
