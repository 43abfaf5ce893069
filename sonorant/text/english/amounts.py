"""Sums of money and measures with their units."""

import re

from sonorant.text.english.numbers import number
from sonorant.text.traced import Rules

_NUMBER = r"(\d(?:[\d,]*\d)?(?:\.\d+)?|\.\d+)"
_MULTIPLES = {
    "k": "thousand", "m": "million", "mn": "million", "mm": "million", "b": "billion", "bn": "billion",
    "t": "trillion", "tn": "trillion",
}  # fmt: skip
_MULTIPLE = r"(?: ?(thousand|million|billion|trillion)\b|(mn|bn|tn|[kKmMBT])\b| (mn|bn|tn)\b)?"
_CURRENCIES = {
    "$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent"), "¥": ("yen", ""), "₹": ("rupee", "paisa"),
    "USD": ("U S dollar", "cent"), "EUR": ("euro", "cent"), "GBP": ("pound", "penny"), "JPY": ("yen", ""),
    "CHF": ("Swiss franc", "centime"), "CAD": ("Canadian dollar", "cent"), "AUD": ("Australian dollar", "cent"),
    "INR": ("rupee", "paisa"), "CNY": ("yuan", ""), "SEK": ("Swedish krona", ""), "US$": ("U S dollar", "cent"),
    "A$": ("Australian dollar", "cent"), "C$": ("Canadian dollar", "cent"),
}  # fmt: skip
_PLURALS = {"penny": "pence", "foot": "feet", "inch": "inches", "yen": "yen", "yuan": "yuan",
            "paisa": "paise", "krona": "kronor", "Celsius": "Celsius", "Fahrenheit": "Fahrenheit"}  # fmt: skip
_SIGN = r"(US\$|A\$|C\$|[$£€¥₹]|\b(?:USD|EUR|GBP|JPY|CHF|CAD|AUD|INR|CNY|SEK)\b)"
_CODE = r"([£€¥₹]|\b(?:USD|EUR|GBP|JPY|CHF|CAD|AUD|INR|CNY|SEK)\b)"
_NO_NOUN = (
    "a|an|per|for|in|into|to|and|or|nor|is|was|are|were|each|less|more|of|on|onto|at|from|by|with|that|which|if|when|as|"
    "than|but|so|then|apart|away|long|wide|tall|high|deep|thick|old|plus|minus|times|will|would|can|could|has|have|had|"
    "today|now|later|ago|too|not|he|she|they|we|it|you"
)
_AS_ADJECTIVE = rf"(?=[ -](?!(?:{_NO_NOUN})\b)[a-z]{{2,}})"
"""A noun follows, which the amount says more about: a $5 bill."""


def _named(amount: str, singular: str, *, adjective: bool = False) -> str:
    """An amount's words with its unit in singular or plural."""
    return singular if adjective or amount == "1" else plural_unit(singular)


def plural_unit(singular: str) -> str:
    """square meter -> square meters, mile per hour -> miles per hour, degree Celsius -> degrees Celsius."""
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
    adjective = bool(article) and re.match(_AS_ADJECTIVE, match.string[match.end() :]) is not None
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


_UNITS = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "µm": "micrometer", "μm": "micrometer",
    "nm": "nanometer", "mi": "mile", "yd": "yard", "yds": "yard", "ft": "foot", "in.": "inch",
    "kg": "kilogram", "kgs": "kilogram", "g": "gram", "mg": "milligram", "µg": "microgram", "lb": "pound",
    "lbs": "pound", "oz": "ounce", "L": "liter", "l": "liter", "ml": "milliliter", "mL": "milliliter",
    "cl": "centiliter", "gal": "gallon", "qt": "quart", "pt": "pint", "tbsp": "tablespoon", "tsp": "teaspoon",
    "ha": "hectare", "km/h": "kilometer per hour", "kph": "kilometer per hour", "kmh": "kilometer per hour",
    "mph": "mile per hour", "mpg": "mile per gallon", "m/s": "meter per second", "rpm": "revolution per minute",
    "Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "W": "watt", "kW": "kilowatt",
    "MW": "megawatt", "GW": "gigawatt", "kWh": "kilowatt hour", "MWh": "megawatt hour", "V": "volt", "kV": "kilovolt",
    "mV": "millivolt", "mA": "milliamp", "Ah": "amp hour", "mAh": "milliamp hour", "J": "joule", "kJ": "kilojoule",
    "N": "newton", "Pa": "pascal", "kPa": "kilopascal", "hPa": "hectopascal", "psi": "pound per square inch",
    "dB": "decibel", "cal": "calorie", "kcal": "kilocalorie", "B": "byte", "KB": "kilobyte", "kB": "kilobyte",
    "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte", "PB": "petabyte", "Kb": "kilobit", "Mb": "megabit",
    "Gb": "gigabit", "kbps": "kilobit per second", "Mbps": "megabit per second", "Gbps": "gigabit per second",
    "MB/s": "megabyte per second", "GB/s": "gigabyte per second", "ms": "millisecond", "ns": "nanosecond",
    "s": "second", "sec": "second", "secs": "second", "min": "minute", "mins": "minute", "hr": "hour", "hrs": "hour",
    "h": "hour", "yr": "year", "yrs": "year", "mo": "month", "mos": "month", "wk": "week", "wks": "week",
    "°C": "degree Celsius", "°F": "degree Fahrenheit", "°": "degree", "K": "kelvin", "sq ft": "square foot",
    "sq. ft.": "square foot", "sq m": "square meter", "sq km": "square kilometer", "sq mi": "square mile",
    "MP": "megapixel", "hp": "horsepower", "Ω": "ohm",
}  # fmt: skip
_ONLY_APART = {"m", "g", "l", "L", "V", "W", "B", "K", "N", "J", "s", "h", "in.", "mo", "pt"}
"""Units that are something else where they touch their number, as 3m of people; volts and the like are safe."""
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True) if unit not in ("K", "B", "N", "J"))


def _measure(match: re.Match[str]) -> str:
    article, minus, amount, blank, unit, power, per = match.groups()
    if (not blank and unit in ("in.", "mo", "pt")) or (not blank and unit == "s" and len(amount) > 2):
        return match[0]
    adjective = (bool(article) or blank == "-") and re.match(_AS_ADJECTIVE, match.string[match.end() :]) is not None
    words = _UNITS[unit]
    if power:
        words = f"{'square' if power[-1] == '2' else 'cubic'} {words}"
    name = _named(amount, words, adjective=adjective)
    if words == "horsepower":
        name = words
    if per:
        of, squared = re.match(r"/ ?([A-Za-z]+)(\^2)?", per).groups()  # type: ignore[union-attr]
        name += f" per {_UNITS[of]}{' squared' if squared else ''}"
    point = "." if match[0].endswith(".") and re.match(r"\s*$|\s+[A-Z]", match.string[match.end() :]) else ""
    return f"{article or ''}{'minus ' if minus else ''}{number(amount)} {name}{point}"


def _height(match: re.Match[str]) -> str:
    return f"{number(match[1])} foot {number(match[2])}"


def _inches(match: re.Match[str]) -> str:
    """Only where the mark closes no quotation."""
    if match.string[: match.start()].count('"') % 2:
        return match[0]
    return f"{number(match[1])} {'inch' if re.match(r' [a-z]', match.string[match.end() :]) else 'inches'}"


def _cents(match: re.Match[str], unit: str) -> str:
    amount = match[1] or match[2]
    return f"{number(amount)} {_named(amount, unit)}"


def _behind(match: re.Match[str]) -> str:
    """A sum whose currency stands behind it."""
    return ("minus " if match[1] else "") + f"{number(match[2])} {_named(match[2], _CURRENCIES[match[3]][0])}"


_ARTICLE = r"\b([Aa]n? |[Tt]he |[Tt]his |[Tt]hat |[Ee]very )?"
_PER_UNITS = "s|h|hr|min|m|km|kg|g|l|L|ml|mi|gal|day|month|year"
_PER = r"(?<=[a-z]) ?/ ?(month|year|day|week|hour|night|person|kg|lb|mo|yr|hr)\b"
_POINT = r"(?:(?<=hrs|min|sec|yrs|lbs)\.|(?<=hr|ft|oz|lb|yr|in|mi|mo)\.)?"
_MEASURE = (
    rf"(?:\b([Aa]n? |[Tt]he ))?(?<![\w.])(?:(?<!\d)(-))?{_NUMBER}( |-|)({_UNIT})(\^[23])?"
    rf"(/ ?(?:{_PER_UNITS})\b(?:\^2)?)?(?![\w']){_POINT}"
)
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
    (r"(?<![\w.])(\d+)' ?(\d{1,2})(?:\"|''|(?=\s|$))", _height),
    (r"(?<![\w.])(\d+) ft\.? (\d{1,2}) in\b\.?", lambda match: f"{number(match[1])} feet {number(match[2])} inches"),
    (r"(?<![\w.'])(\d+(?:\.\d+)?)\"(?!\w)", _inches),
    (_MEASURE, _measure),
)
