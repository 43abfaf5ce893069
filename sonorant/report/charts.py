"""Charts as inline SVG: bars, intervals, lines. Drawn 360 units wide, so that their letters are readable on a phone;
colours come from the page's style, so that they follow light and dark. Knows nothing of what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sonorant.report.markup import Html, element, join

WIDTH = 360.0
ROW = 38.0
"""Height of a row of bars or intervals: its name above, its mark below."""


@dataclass(frozen=True, kw_only=True)
class ChartRow:
    """One bar or one interval."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    said: str
    """The figure in words, as it stands at the row's right end."""
    strong: bool = False
    """Whether the row is the one to look at."""


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """One curve: points (x, y) by rising x."""

    name: str
    points: tuple[tuple[float, float], ...]


def bars(title: str, rows: Sequence[ChartRow]) -> Html:
    """A bar from zero a row, with a whisker to `high` where there is one."""
    scale = WIDTH / max([row.high or row.value for row in rows] + [1e-12])
    parts: list[str] = []
    for place, row in enumerate(rows):
        top = place * ROW
        parts += _names(row, top)
        parts.append(
            element("rect", class_=_mark(row), x="0", y=_n(top + 20), width=_n(max(row.value * scale, 1)), height="10")
        )
        if row.high is not None:
            parts.append(_rule("whisker", row.value * scale, top + 25, row.high * scale, top + 25))
    return _figure(title, parts, len(rows) * ROW)


def intervals(title: str, unit: str, rows: Sequence[ChartRow]) -> Html:
    """A dot with its interval a row, over one axis that begins at zero or below."""
    low = min([0.0] + [row.value if row.low is None else row.low for row in rows])
    ticks = _ticks(low, max(row.value if row.high is None else row.high for row in rows))
    left, right, floor = ticks[0], ticks[-1], len(rows) * ROW

    def across(value: float) -> float:
        return 10 + (WIDTH - 20) * (value - left) / (right - left)

    parts = [_rule("grid", across(tick), 0, across(tick), floor) for tick in ticks]
    parts += [_text(f"{tick:g}", across(tick), floor + 13, "middle", "axis") for tick in ticks]
    parts.append(_text(unit, WIDTH, floor + 28, "end", "axis"))
    for place, row in enumerate(rows):
        top = place * ROW
        parts += _names(row, top)
        if row.low is not None and row.high is not None:
            parts.append(_rule(f"range {_mark(row)}", across(row.low), top + 25, across(row.high), top + 25))
        parts.append(element("circle", class_=_mark(row), cx=_n(across(row.value)), cy=_n(top + 25), r="5"))
    return _figure(title, parts, floor + 32)


def lines(title: str, across: str, curves: Sequence[ChartLine]) -> Html:
    """Curves over one axis of x; y is logarithmic where every value is above zero."""
    points = [point for curve in curves for point in curve.points]
    logarithmic = all(y > 0 for _, y in points)
    rising = math.log10 if logarithmic else float
    x_ticks = _ticks(min(x for x, _ in points), max(x for x, _ in points))
    y_low, y_high = min(y for _, y in points), max(y for _, y in points)
    y_ticks = _decades(y_low, y_high) if logarithmic else _ticks(y_low, y_high)
    left, top, right, bottom = 38.0, 26.0, WIDTH - 16, 190.0

    def place(x: float, y: float) -> tuple[float, float]:
        low, high = rising(y_ticks[0]), rising(y_ticks[-1])
        return (
            left + (right - left) * (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0]),
            bottom - (bottom - top) * (rising(y) - low) / (high - low),
        )

    parts = [_rule("grid", left, place(x_ticks[0], tick)[1], right, place(x_ticks[0], tick)[1]) for tick in y_ticks]
    parts += [_text(f"{tick:g}", left - 5, place(x_ticks[0], tick)[1] + 4, "end", "axis") for tick in y_ticks]
    parts += [_text(f"{tick:g}", place(tick, y_ticks[0])[0], bottom + 15, "middle", "axis") for tick in x_ticks]
    parts.append(_text(across, right, bottom + 30, "end", "axis"))
    for number, curve in enumerate(curves):
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in (place(*point) for point in curve.points))
        parts.append(element("polyline", class_=f"line line{number}", points=path))
        parts.append(_rule(f"line line{number}", left + 110 * number, 10, left + 110 * number + 20, 10))
        parts.append(_text(curve.name, left + 110 * number + 26, 14, "start", "axis"))
    return _figure(title, parts, bottom + 34)


def _figure(title: str, parts: Sequence[str], height: float) -> Html:
    drawing = element(
        "svg", element("title", title), *parts, viewBox=f"0 0 {_n(WIDTH)} {_n(height)}", role="img", aria_label=title
    )
    return element("figure", element("figcaption", title), drawing, class_="chart")


def _names(row: ChartRow, top: float) -> list[Html]:
    return [_text(row.name, 0, top + 14, "start", "name"), _text(row.said, WIDTH, top + 14, "end", "said")]


def _mark(row: ChartRow) -> str:
    return "mark strong" if row.strong else "mark"


def _rule(kind: str, x1: float, y1: float, x2: float, y2: float) -> Html:
    return element("line", class_=kind, x1=_n(x1), y1=_n(y1), x2=_n(x2), y2=_n(y2))


def _text(words: str, x: float, y: float, anchor: str, kind: str) -> Html:
    return element("text", join([words]), x=_n(x), y=_n(y), text_anchor=anchor, class_=kind)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _ticks(low: float, high: float) -> list[float]:
    """Five or so round numbers around low..high, at least two."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, max(last, first + 1) + 1)]


def _decades(low: float, high: float) -> list[float]:
    """1, 2, 5 times powers of ten around low..high, at least two; only the powers where that would be many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 2)
    for factors in ((1, 2, 5), (1,)):
        every = [10.0**power * factor for power in powers for factor in factors]
        first = max(place for place, tick in enumerate(every) if tick <= low)
        last = min(place for place, tick in enumerate(every) if tick >= high and place > first)
        if last - first < 7:
            break
    return every[first : last + 1]
