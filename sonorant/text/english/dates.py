"""Rules that write out dates, years and times of day."""

import re

from sonorant.text.english import table
from sonorant.text.english.addresses import ended
from sonorant.text.english.numbers import cardinal, number, ordinal, plural, year
from sonorant.text.pieces import Rules

MONTHS, _DAYS = table("months"), table("days")
_SHORT = {month[:3]: month for month in MONTHS} | {month: month for month in MONTHS} | {"Sept": "September"}
_POINT = r"(?:(?<=Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec|ept)\.)?"
"""Pattern for the full stop of an abbreviated month; a full stop after a full name ends the sentence."""
_MONTH = rf"({'|'.join(sorted(_SHORT, key=len, reverse=True))})\b{_POINT}"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(\d{4})"
_BEFORE_YEARS = "|".join(table("before years"))


def _date(month: str, day: str, of_year: str | None = None) -> str:
    return f"{month} {ordinal(int(day))}" + (f" {_year(of_year)}" if of_year else "")


def _year(text: str) -> str:
    if len(text) == 2:
        value = int(text)
        return cardinal(2000 + value) if value < 10 else year((2000 if value < 50 else 1900) + value)
    return year(int(text))


def date_in_words(*, m: int | None = None, d: int | None = None, y: int | None = None) -> str:
    """Return the words for month `m`, day `d` and year `y`. Raises ValueError for a month or day that does not
    exist."""
    if m is not None and not 1 <= m <= 12:
        raise ValueError(f"there is no month {m}")
    if d is not None and not 1 <= d <= 31:
        raise ValueError(f"there is no day {d}")
    words = [MONTHS[m - 1]] if m else []
    words += [ordinal(d)] if d else []
    words += [_year(f"{y:02}") if y < 100 else year(y)] if y is not None else []
    return " ".join(words)


def _month_day(match: re.Match[str]) -> str:
    words = _date(_SHORT[match[1]], match[2], None)
    words += f" to {ordinal(int(match[3]))}" if match[3] else ""
    return words + (f", {year(int(match[4]))}" if match[4] else ended(match))


def _day_month(match: re.Match[str]) -> str:
    the = "" if match[1] else "the "
    words = f"{match[1] or ''}{the}{ordinal(int(match[2]))} of {_SHORT[match[3]]}"
    return words + (f" {year(int(match[4]))}" if match[4] else ended(match))


def _numeric(match: re.Match[str]) -> str:
    first, second, of_year = match[1], match[2], match[3]
    if int(first) > 12 and int(second) <= 12:
        first, second = second, first
    return _date(MONTHS[int(first) - 1], second, of_year) if 1 <= int(first) <= 12 and int(second) <= 31 else match[0]


def _day_first(match: re.Match[str]) -> str:
    return _date(MONTHS[int(match[2]) - 1], match[1], match[3]) if 1 <= int(match[2]) <= 12 else match[0]


def _iso(match: re.Match[str]) -> str:
    return _date(MONTHS[int(match[2]) - 1], match[3], match[1]) if 1 <= int(match[2]) <= 12 else match[0]


def _moment(match: re.Match[str]) -> str:
    """Separate date, time and zone: 2024-12-25T10:05:00Z -> 2024-12-25 at 10:05 UTC."""
    seconds, zone = (match[3] or ":0")[1:], match[4] or ""
    words = f"{match[1]} at {match[2]}" + (f" and {seconds.lstrip('0')} s" if float(seconds) else "")
    if len(zone) > 1:
        zone = f"Z {'minus' if zone[0] == '-' else 'plus'} {int(zone[1:3])}" + f":{zone[-2:]}".removesuffix(":00")
    return words + zone.replace("Z", " UTC")


def _decade(match: re.Match[str]) -> str:
    if len(match[1]) == 2:
        return plural(cardinal(int(match[1])))
    value = int(match[1])
    return plural(cardinal(value) if value % 1000 == 0 else year(value))


def _bare_year(match: re.Match[str]) -> str:
    """Read four digits as a year unless they count a noun: 1234 houses."""
    counts = not match[1] and ((match[3] and int(match[2]) % 100) or int(match[2]) < 1100)
    return (match[1] or "") + (cardinal if counts else year)(int(match[2]))


def _short_year(match: re.Match[str]) -> str:
    return ("oh " if match[1][0] == "0" else "") + cardinal(int(match[1]))


def _half(match: re.Match[str], letter: str) -> str:
    """Return A M or P M, with its last full stop if that also ends the sentence."""
    return f" {letter.upper()} M" + ended(match, r"\s+[A-Z]")


def _clock(match: re.Match[str]) -> str:
    hour, minute, half = int(match[1]), match[2], match[3]
    if hour > 24:
        return match[0]
    words = cardinal(hour)
    if int(minute):
        words += f" {'oh ' if minute[0] == '0' else ''}{cardinal(int(minute))}"
    elif not half:
        words += " o'clock" if 0 < hour <= 12 else " hundred"
    return words + (_half(match, half) if half else "")


def _hour(match: re.Match[str]) -> str:
    return cardinal(int(match[1])) + _half(match, match[2])


def _lasting(match: re.Match[str]) -> str:
    hours, minutes, seconds = match[1], int(match[2]), number(str(float(match[3])).removesuffix(".0"))
    parts = [f"{cardinal(int(hours))} hour{'s' * (int(hours) != 1)}"] if hours else []
    parts += [f"{cardinal(minutes)} minute{'s' * (minutes != 1)}", f"{seconds} second{'s' * (seconds != 'one')}"]
    return " ".join(parts)


def _range(match: re.Match[str]) -> str:
    return _clock(match) + (" to " if re.search(r"- ?$", match[0]) else "")


ALWAYS: Rules = (
    (rf"\b({'|'.join(_DAYS)})\.(?=,? |,|$)", lambda match: _DAYS[match[1]]),
    (rf"\b(?!May|Mar\b(?!\.)){_MONTH}(?<=\.)(?= ?\d|,| [a-z]|$)", lambda match: _SHORT[match[1]] + ended(match)),
)
"""Rules that also apply to text without digits."""
RULES: Rules = (
    ALWAYS[0],
    (rf"\b({'|'.join(_DAYS)})(?=,? (?:\d|{_MONTH} ?\d))", lambda match: _DAYS[match[1]]),
    (
        r"\b(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?(?![\w:])",
        _moment,
    ),
    (r"\b(\d{4})-(\d\d)-(\d\d)\b", _iso),
    (r"\b(\d{1,2})/(\d{1,2})/(\d{4}|\d\d)\b", _numeric),
    (r"\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b", _day_first),
    (rf"\b{_MONTH} {_DAY}(?![\d:])(?: ?- ?{_DAY}(?![\d:]))?(?:,? {_YEAR}\b(?![,.]\d))?", _month_day),
    (rf"\b(the )?{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR}\b)?", _day_month),
    (rf"\b{_MONTH},? {_YEAR}\b", lambda match: f"{_SHORT[match[1]]} {year(int(match[2]))}"),
    (r"\b(1\d\d0|20\d0)'?s\b", _decade),
    (r"(?<!\d)'?\b(?<![\d,.])([2-9]0)'?s\b", _decade),
    (r"(?<![\w'])'(\d\d)\b(?!')", _short_year),
    (
        r"\b(\d{4}) ?- ?(\d{4})\b(?!-)",
        lambda match: f"{year(int(match[1]))} to {year(int(match[2]))}",
    ),
    (r"\b(\d+) (B|A)\.?(C|D)\.?(?:(E)\.?)?(?=\W|$)", r"\1 \2 \3 \4"),
    (r"\b(\d+) CE\b", r"\1 C E"),
    (r"\bA\.?D\.? (?=\d)", "A D "),
    (r"\b(FY|Q) ?(?=\d)", lambda match: " ".join(match[1]) + " "),
    (r"\b(\d{1,2}):([0-5]\d):([0-5]\d)\b", _lasting),
    (r"\b()(\d{1,2}):([0-5]\d\.\d+)\b", _lasting),
    (r"\b(score|ratio|scored|won|lost|odds)( (?:of|by|is|was))? (\d+):(\d+)\b", r"\1\2 \3 to \4"),
    (r"\b(\d{1,2}):([0-5]\d)(?: ?([AaPp])\.?[Mm]\b\.?)?(?: ?- ?(?=\d+:\d\d))?", _range),
    (r"\b(\d{1,2}) ?([AaPp])(?:\.[Mm]\.|[Mm]\b)", _hour),
    (r"\b(\d+):(\d+)\b", r"\1 to \2"),
    (
        rf"\b((?:{_BEFORE_YEARS})[ -])?(?<![\d.,/#$£€-])(1\d\d\d|20\d\d)\b(?![,.]?\d|[/%])(?= ([a-z]+s)\b)?",
        _bare_year,
    ),
)
