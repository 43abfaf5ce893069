"""Write numbers in English words: cardinals, ordinals, years, digits one by one, Roman numerals."""

from sonorant.text.english import table

_SMALL, _TENS, _POWERS = table("small numbers"), table("tens"), table("powers")
_IRREGULAR = table("ordinals")
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
LONGEST = 15
"""Maximum number of digits of a number that is read as a whole; a longer one is read digit by digit."""


def cardinal(number: int) -> str:
    """1234 -> one thousand two hundred thirty four."""
    if number < 0:
        return f"minus {cardinal(-number)}"
    if number >= 1000 ** (len(_POWERS) + 1):
        return digits(str(number))
    groups: list[str] = []
    for power in ("", *_POWERS):
        number, group = divmod(number, 1000)
        if group:
            groups.insert(0, f"{_below_thousand(group)} {power}".strip())
    return " ".join(groups) or "zero"


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    words = [_SMALL[hundreds], "hundred"] if hundreds else []
    if rest >= 20:
        words += [_TENS[rest // 10], *([_SMALL[rest % 10]] if rest % 10 else [])]
    elif rest:
        words.append(_SMALL[rest])
    return " ".join(words)


def ordinal(number: int) -> str:
    """21 -> twenty first."""
    *before, last = cardinal(number).split()
    if last in _IRREGULAR:
        last = _IRREGULAR[last]
    elif last.endswith("y"):
        last = last[:-1] + "ieth"
    else:
        last += "th"
    return " ".join((*before, last))


def year(number: int) -> str:
    """1905 -> nineteen oh five, 2007 -> two thousand seven, 2024 -> twenty twenty four."""
    century, rest = divmod(number, 100)
    if not 1000 <= number <= 2999 or 2000 <= number <= 2009 or (rest == 0 and century % 10 == 0):
        return cardinal(number)
    return _pair(century, rest)


def _pair(hundreds: int, rest: int) -> str:
    return f"{cardinal(hundreds)} {'hundred' if rest == 0 else ('oh ' if rest < 10 else '') + cardinal(rest)}"


def digits(text: str) -> str:
    """007 -> zero zero seven; other characters are dropped."""
    return " ".join(_SMALL[int(character)] for character in text if character.isdigit())


def number(text: str) -> str:
    """Return the words of a written number, which may have a sign, commas and a decimal point: -1,234.5."""
    sign, whole = ("minus ", text[1:]) if text[:1] == "-" else ("", text)
    whole, _, decimals = whole.replace(",", "").partition(".")
    if len(whole) > LONGEST or (len(whole) > 1 and whole[0] == "0" and not decimals):
        words = digits(whole)
    else:
        words = cardinal(int(whole or "0"))
    return sign + words + (f" point {digits(decimals)}" if decimals else "")


def house_number(text: str) -> str:
    """123 -> one twenty three, 1600 -> sixteen hundred, 101 -> one oh one."""
    value = int(text)
    if value < 100 or value > 9999 or value % 1000 == 0 or (value < 1000 and value % 100 == 0):
        return cardinal(value)
    return _pair(*divmod(value, 100))


def plural(words: str) -> str:
    """Make the last word plural: nineteen ninety -> nineteen nineties."""
    return words[:-1] + "ies" if words.endswith("y") else words + ("es" if words.endswith("x") else "s")


def roman(letters: str) -> int:
    """XIV -> 14. Raises KeyError for a letter other than I, V, X, L, C."""
    values = [_ROMAN[letter] for letter in letters]
    after = [*values[1:], 0]
    return sum(-value if value < following else value for value, following in zip(values, after, strict=True))
