"""Rules that write out amounts of money, measures, fractions, percentages, ranges, powers and plain numbers."""

import re

from sonorant.text.english import table
from sonorant.text.english.addresses import ended, followed
from sonorant.text.english.numbers import cardinal, digits, number, ordinal
from sonorant.text.pieces import Rules

_NUMBER = r"(\d(?:[\d,]*\d)?(?:\.\d+)?|\.\d+)"
_MULTIPLES, _CURRENCIES, _PLURALS, _UNITS = map(table, ("multiples", "currencies", "plurals", "units"))
_MULTIPLE = r"(?: ?(thousand|million|billion|trillion)\b|(mn|bn|tn|[kKmMBT])\b| (mn|bn|tn)\b)?"
_SIGN = r"(US\$|A\$|C\$|[$£€¥₹]|\b(?:USD|EUR|GBP|JPY|CHF|CAD|AUD|INR|CNY|SEK)\b)"
_CODE = r"([£€¥₹]|\b(?:USD|EUR|GBP|JPY|CHF|CAD|AUD|INR|CNY|SEK)\b)"
_NO_NOUN = (
    "a|an|per|for|in|into|to|and|or|nor|is|was|are|were|each|less|more|of|on|onto|at|from|by|with|that|which|if|when|as|"
    "than|but|so|then|apart|away|long|wide|tall|high|deep|thick|old|plus|minus|times|will|would|can|could|has|have|had|"
    "today|now|later|ago|too|not|he|she|they|we|it|you"
)
_CAPITAL = r"\s+[A-Z]"
_AS_ADJECTIVE = rf"(?=[ -](?!(?:{_NO_NOUN})\b)[a-z]{{2,}})"
"""Pattern that matches if a noun follows, so that the unit stays singular: a $5 bill."""


def _named(amount: str, singular: str, *, adjective: bool = False) -> str:
    return singular if adjective or amount == "1" else plural_unit(singular)


def plural_unit(singular: str) -> str:
    """Return the plural: mile per hour -> miles per hour, degree Celsius -> degrees Celsius."""
    head, of, rest = re.match(r"(.*?)((?: per| Celsius| Fahrenheit| of)\b|$)(.*)", singular).groups()  # type: ignore[union-attr]
    *before, last = head.split()
    if last.endswith("hertz"):
        return singular
    return " ".join((*before, _PLURALS.get(last, last + "s"))) + of + rest


def _sum(match: re.Match[str]) -> str:
    article, minus, sign, amount, *multiples = match.groups()
    multiple = next((found for found in multiples if found), "")
    unit, cent = _CURRENCIES[sign]
    sign_words = (article or "") + ("minus " if minus else "")
    adjective = bool(article) and followed(match, _AS_ADJECTIVE)
    if multiple:
        words = f"{sign_words}{number(amount)} {_MULTIPLES.get(multiple.lower(), multiple)}"
        return f"{words} {_named('', unit, adjective=adjective)}"
    whole, _, decimals = amount.partition(".")
    if len(decimals) != 2 or not cent:
        if not decimals:
            return f"{sign_words}{number(whole)} {_named(whole, unit, adjective=adjective)}"
        return f"{sign_words}{number(amount)} {plural_unit(unit)}"
    cents = str(int(decimals))
    parts = [f"{number(whole)} {_named(whole, unit)}"] if whole.strip("0,") else []
    parts += [f"{number(cents)} {_named(cents, cent)}"] if cents != "0" or not parts else []
    return sign_words + " and ".join(parts)


def _sum_range(match: re.Match[str]) -> str:
    sign, low, high, multiple = match[1], match[2], match[3], match[4] or match[5] or ""
    words = f" {_MULTIPLES.get(multiple.lower(), multiple)}" if multiple else ""
    return f"{number(low)} to {number(high)}{words} {plural_unit(_CURRENCIES[sign][0])}"


_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True) if unit not in ("K", "B", "N", "J"))


def _measure(match: re.Match[str]) -> str:
    article, minus, amount, blank, unit, power, per = match.groups()
    if (not blank and unit in ("in.", "mo", "pt")) or (not blank and unit == "s" and len(amount) > 2):
        return match[0]
    adjective = (bool(article) or blank == "-") and followed(match, _AS_ADJECTIVE)
    words = _UNITS[unit]
    if power:
        words = f"{'square' if power[-1] == '2' else 'cubic'} {words}"
    name = _named(amount, words, adjective=adjective)
    if words == "horsepower":
        name = words
    if per:
        of, squared = re.match(r"/ ?([A-Za-z]+)(\^2)?", per).groups()  # type: ignore[union-attr]
        name += f" per {_UNITS[of]}{' squared' if squared else ''}"
    return f"{article or ''}{'minus ' if minus else ''}{number(amount)} {name}{ended(match, _CAPITAL)}"


def _inches(match: re.Match[str]) -> str:
    """Write out inches, unless the mark closes a quotation."""
    if match.string[: match.start()].count('"') % 2:
        return match[0]
    return f"{number(match[1])} {'inch' if followed(match, ' [a-z]') else 'inches'}"


def _cents(match: re.Match[str], unit: str) -> str:
    amount = match[1] or match[2]
    return f"{number(amount)} {_named(amount, unit)}"


def _behind(match: re.Match[str]) -> str:
    """Write out an amount followed by its currency."""
    return ("minus " if match[1] else "") + f"{number(match[2])} {_named(match[2], _CURRENCIES[match[3]][0])}"


def _fraction(upper: int, lower: int) -> str:
    """Return the words of a fraction, with "over" if its denominator has no short name."""
    names = {2: ("half", "halves"), 4: ("quarter", "quarters")}
    if lower not in range(2, 21) and lower not in (25, 32, 50, 64, 100, 1000):
        return f"{cardinal(upper)} over {cardinal(lower)}"
    one, many = names.get(lower, (ordinal(lower), ordinal(lower) + "s"))
    return f"{cardinal(upper)} {one if upper == 1 else many}"


def _plain_fraction(match: re.Match[str]) -> str:
    upper, lower = int(match[2]), int(match[3])
    if not 0 < upper < lower:
        return match[0]
    return (f"{cardinal(int(match[1]))} and " if match[1] else "") + _fraction(upper, lower)


def _power(match: re.Match[str]) -> str:
    base, sign, exponent = match[1], match[2], match[3]
    if exponent in "23" and not sign:
        return f"{base} {'squared' if exponent == '2' else 'cubed'}"
    return f"{base} to the power of {'minus ' if sign else ''}{cardinal(int(exponent))}"


def _scientific(match: re.Match[str]) -> str:
    minus = "minus " if match[2] == "-" else ""
    return f"{number(match[1])} times ten to the power of {minus}{cardinal(int(match[3]))}"


_ARTICLE = r"\b([Aa]n? |[Tt]he |[Tt]his |[Tt]hat |[Ee]very )?"
_PER_UNITS = "s|h|hr|min|m|km|kg|g|l|L|ml|mi|gal|day|month|year"
_PER = r"(?<=[a-z]) ?/ ?(month|year|day|week|hour|night|person|kg|lb|mo|yr|hr)\b"
_POINT = r"(?:(?<=hrs|min|sec|yrs|lbs)\.|(?<=hr|ft|oz|lb|yr|in|mi|mo)\.)?"
_MEASURE = (
    rf"(?:\b([Aa]n? |[Tt]he ))?(?<![\w.])(?:(?<!\d)(-))?{_NUMBER}( |-|)({_UNIT})(\^[23])?"
    rf"(/ ?(?:{_PER_UNITS})\b(?:\^2)?)?(?![\w']){_POINT}"
)
GROUPED: Rules = (
    (r"(?<=[A-Za-z])(?=\d+\.\d)", " "),
    (r"(?<![\w.,+])(?<!\d )[1-9]\d{0,2}(?: \d{3})+(?!\d|[ -]\d|-\w)", lambda match: match[0].replace(" ", ",")),
    (
        r"(?<![\w.,])[1-9]\d{0,2}(?:\.\d{3})+(?=,\d|(?<=\.\d{3}\.\d{3})(?![.\d]))",
        lambda match: match[0].replace(".", ","),
    ),
    (r"(?<![\w.])((?<!,)\d+|(?<![\d,])[\d,]+,\d{3}),(?!(?:19|20)\d\d\b)(\d\d?|\d{4,})(?!\d|[.,]\d)", r"\1.\2"),
    (r"(?<=\d),(?=\d)(?!\d{3}(?!\d)|\d\d,\d)", ", "),
)
"""Rules that write groups of digits with commas, and decimals with a point."""
RULES: Rules = (
    (
        rf"{_SIGN} ?{_NUMBER} ?- ?\1? ?{_NUMBER}"
        r"(?: ?(thousand|million|billion|trillion)\b|(mn|bn|tn|[kKmMB])\b)?(?!\d)",
        _sum_range,
    ),
    (rf"{_ARTICLE}(?<![\w])(-)?{_SIGN} ?{_NUMBER}(?:-(?=million|billion))?{_MULTIPLE}", _sum),
    (rf"(?:())(?<![\w.,])(-)?{_SIGN} ?{_NUMBER}{_MULTIPLE}", _sum),
    (rf"(?<![\w.,])(-)?{_NUMBER} ?{_CODE}(?!\w)", _behind),
    (r"(?<![\w.])(\d+) ?¢|¢ ?(\d+)", lambda match: _cents(match, "cent")),
    (r"(?<![\w.])(\d+)p\b()", lambda match: _cents(match, "penny")),
    (_PER, lambda match: f" per {_UNITS.get(match[1], match[1])}"),
    (r"(?<![\w.])(\d+)' ?(\d{1,2})(?:\"|''|(?=\s|$))", lambda match: f"{number(match[1])} foot {number(match[2])}"),
    (r"(?<![\w.])(\d+) ft\.? (\d{1,2}) in\b\.?", lambda match: f"{number(match[1])} feet {number(match[2])} inches"),
    (r"(?<![\w.'])(\d+(?:\.\d+)?)\"(?!\w)", _inches),
    (_MEASURE, _measure),
    (r"\b24/7\b", "twenty four seven"),
    (r"\b([Nn])os?\.? ?(?=\d)(?<=[.\s])", lambda match: "numbers " if "os" in match[0] else "number "),
    (r"#(?=\d)", "number "),
    (r"(?<![\w.])(\d{1,15}(?:\.\d{1,30})?)[eE]([-+]?)(\d{1,6})\b", _scientific),
    (r"\b(\d+(?:\.\d+)?|[A-Za-z])\^(-?)(\d{1,6})\b", _power),
    (r"(?<![\w/.,])(?:(\d{1,6})[ -])?(\d{1,6})/(\d{1,6})(?![\w/])", _plain_fraction),
    (r"(?<![\d,])(\d[\d,]{0,19})(?:st|nd|rd|th)\b", lambda match: ordinal(int(match[1].replace(",", "")))),
    (
        rf"(?<![\w.-]){_NUMBER} ?%? ?- ?{_NUMBER}( ?%)?(?![\w-])",
        lambda match: f"{number(match[1])} to {number(match[2])}{' percent' * bool(match[3])}",
    ),
    (r"(?<=\d) ?%", " percent"),
    (
        r"\b(\d+(?:\.\d+)?)(k|K|M|B|bn|m)(?= [a-z]{3,})",
        lambda match: f"{number(match[1])} {_MULTIPLES[match[2].lower()]}",
    ),
    (r"\b(\d+(?:\.\d+)?)x\b(?! ?\d)", lambda match: f"{number(match[1])} times"),
    (r"(?<=[\w)]) ?\+ ?(?=[\w(])", " plus "),
    (r"(?<=[\w)]) ?= ?(?=[\w(-])", " equals "),
    (r" ?[×✕] ?", " times "),
    (r"(?<=\d) ?\* ?(?=\d)", " times "),
    (r"(?<=\d) [xX] (?=\d)|(?<=\d)x(?=\d)", " by "),
    (r" ?÷ ?", " divided by "),
    (r"(?<=\d) - (?=\d)", " minus "),
    (r"(?<![\w.)])-(?=\.?\d)", "minus "),
    (r"\bA-?(?=\d)", "A-"),
    (r"(?<=\d)(?=[A-Za-z])|(?<=[A-Za-z])(?<!\bA)-?(?=\d)", " "),
    (r"(?<![\d.])\.\d+", lambda match: f"point {digits(match[0])}"),
    (r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?", lambda match: number(match[0])),
)
