"""Charts as inline SVG for dark mode and phones."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from sonorant.audio.arrays import Doubles
from sonorant.pages.blocks import Block

WIDTH = 360.0
"""Width of every chart in SVG units."""
BINS = 40
"""Number of columns in a histogram."""
ROW = 38.0
"""Height of a row, with the name above the mark."""
LEFT, TOP, RIGHT, BOTTOM = 38.0, 26.0, WIDTH - 16, 190.0
"""Edges of the plot area in charts with two axes."""


class Shape(NamedTuple):
    tag: str
    attributes: dict[str, str]
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class Chart:
    title: str
    height: float
    shapes: Sequence[Shape]


@dataclass(frozen=True, kw_only=True)
class Charts(Block):
    template = "charts.html"
    charts: Sequence[Chart]


@dataclass(frozen=True, kw_only=True)
class ChartRow:
    """One bar or interval."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    said: str
    """Value as shown in the chart."""
    strong: bool = False
    """Whether the row is highlighted."""


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """One curve: points (x, y) in ascending order of x; NaN leaves a gap."""

    name: str
    points: tuple[tuple[float, float], ...]


def bars(title: str, rows: Sequence[ChartRow]) -> Chart:
    """Draw bars from zero, with a whisker to `high` if set."""
    scale = WIDTH / max([row.high or row.value for row in rows] + [1e-12])
    shapes: list[Shape] = []
    for place, row in enumerate(rows):
        top = place * ROW
        shapes += [*_names(row, top), _box(_mark(row), 0, top + 20, max(row.value * scale, 1), 10)]
        if row.high is not None:
            shapes.append(_rule("whisker", row.value * scale, top + 25, row.high * scale, top + 25))
    return Chart(title=title, height=len(rows) * ROW, shapes=shapes)


def intervals(title: str, unit: str, rows: Sequence[ChartRow], start: float = 0.0) -> Chart:
    """Draw dots with intervals along one axis, which starts at `start` or below."""
    low = min([start] + [row.value if row.low is None else row.low for row in rows])
    ticks = _ticks(low, max(row.value if row.high is None else row.high for row in rows))
    across, floor = _scale(ticks, 10, WIDTH - 10), len(rows) * ROW
    shapes = [_rule("grid", across(tick), 0, across(tick), floor) for tick in ticks]
    shapes += [_text(_said(tick), across(tick), floor + 13, "middle") for tick in ticks]
    shapes.append(_text(unit, WIDTH, floor + 28, "end"))
    for place, row in enumerate(rows):
        top = place * ROW
        shapes += _names(row, top)
        if row.low is not None and row.high is not None:
            shapes.append(_rule(f"range {_mark(row)}", across(row.low), top + 25, across(row.high), top + 25))
        shapes.append(Shape("circle", {"class": _mark(row), "cx": _n(across(row.value)), "cy": _n(top + 25), "r": "5"}))
    return Chart(title=title, height=floor + 32, shapes=shapes)


def lines(title: str, unit: str, curves: Sequence[ChartLine]) -> Chart:
    """Draw curves over x in `unit`; y is logarithmic if all values are positive."""
    xs, ys = zip(*(point for curve in curves for point in curve.points if not math.isnan(point[1])), strict=True)
    logarithmic, x_ticks = min(ys) > 0, _ticks(min(xs), max(xs))
    y_ticks = (_decades if logarithmic else _ticks)(min(ys), max(ys))
    across, up = _scale(x_ticks, LEFT, RIGHT), _rising(y_ticks, logarithmic)
    shapes = _grid(y_ticks, up)
    shapes += [_text(_said(tick), across(tick), BOTTOM + 15, "middle") for tick in x_ticks]
    shapes.append(_text(unit, RIGHT, BOTTOM + 30, "end"))
    apart = min(110.0, (RIGHT - LEFT) / len(curves))
    for number, curve in enumerate(curves):
        start = LEFT + apart * number
        for known, stretch in groupby(curve.points, lambda point: not math.isnan(point[1])):
            if known:
                path = " ".join(f"{_n(across(x))},{_n(up(y))}" for x, y in stretch)
                shapes.append(Shape("polyline", {"class": f"line line{number}", "points": path}))
        shapes.append(_rule(f"line line{number}", start, 10, start + min(20, apart / 2), 10))
        shapes.append(_text(curve.name, start + min(26, apart / 2 + 4), 14, "start"))
    return Chart(title=title, height=BOTTOM + 34, shapes=shapes)


def points(
    title: str,
    unit: str,
    measured: Sequence[tuple[float, float, float, float]],
    line: Sequence[tuple[float, float]] = (),
) -> Chart:
    """Draw points (x, y, low, high) with intervals, and a line; x in `unit` starts at zero."""
    ys = [y for _, *ends in measured for y in ends] + [y for _, y in line]
    x_ticks, y_ticks = _ticks(0, max([x for x, *_ in measured] + [x for x, _ in line])), _ticks(min(ys), max(ys))
    across, up = _scale(x_ticks, LEFT, RIGHT), _scale(y_ticks, BOTTOM, TOP)
    shapes = _grid(y_ticks, up)
    shapes += [_text(_said(tick), across(tick), BOTTOM + 15, "middle") for tick in x_ticks]
    shapes.append(_text(unit, RIGHT, BOTTOM + 30, "end"))
    if line:
        path = " ".join(f"{_n(across(x))},{_n(up(y))}" for x, y in line)
        shapes.append(Shape("polyline", {"class": "line line0", "points": path}))
    for x, y, low, high in measured:
        shapes.append(_rule("range mark", across(x), up(low), across(x), up(high)))
        shapes.append(Shape("circle", {"class": "mark", "cx": _n(across(x)), "cy": _n(up(y)), "r": "4"}))
    return Chart(title=title, height=BOTTOM + 34, shapes=shapes)


def columns(
    title: str, unit: str, counts: Sequence[int], labels: Sequence[tuple[float, str]], logarithmic: bool = False
) -> Chart:
    """Draw one column per count. `labels`: pairs of a position in 0..len(counts) and a text."""
    most, wide = max([*counts, 1]), (RIGHT - LEFT) / max(len(counts), 1)
    ticks = [0.5, *_decades(1, most)] if logarithmic else _ticks(0, most)
    up = _rising(ticks, logarithmic)
    shapes = _grid(ticks[1:] if logarithmic else ticks, up)
    for place, count in enumerate(counts):
        top = up(max(count, ticks[0]))
        shapes.append(_box("mark", LEFT + place * wide, top, max(wide - 1, 1), BOTTOM - top))
    shapes += [_text(words, LEFT + place * wide, BOTTOM + 15, "middle") for place, words in labels]
    shapes.append(_text(unit, RIGHT, BOTTOM + 30, "end"))
    return Chart(title=title, height=BOTTOM + 34, shapes=shapes)


def histogram(title: str, unit: str, values: Doubles) -> Chart:
    """Draw a histogram of values (N,), N >= 1."""
    counts, edges = np.histogram(values, bins=BINS)
    form = "{:,.0f}" if np.abs(edges).max() >= 1000 else "{:.3g}"
    labels = [(float(place), form.format(edges[place])) for place in range(0, BINS + 1, BINS // 4)]
    return columns(title, unit, counts.tolist(), labels)


def _grid(ticks: Sequence[float], up: Callable[[float], float]) -> list[Shape]:
    rules = [_rule("grid", LEFT, up(tick), RIGHT, up(tick)) for tick in ticks]
    return rules + [_text(_said(tick), LEFT - 5, up(tick) + 4, "end") for tick in ticks]


def _scale(ticks: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    return lambda value: start + (end - start) * (value - ticks[0]) / (ticks[-1] - ticks[0])


def _rising(ticks: Sequence[float], logarithmic: bool) -> Callable[[float], float]:
    if not logarithmic:
        return _scale(ticks, BOTTOM, TOP)
    up = _scale([math.log10(tick) for tick in ticks], BOTTOM, TOP)
    return lambda value: up(math.log10(value))


def _names(row: ChartRow, top: float) -> list[Shape]:
    return [_text(row.name, 0, top + 14, "start", "name"), _text(row.said, WIDTH, top + 14, "end", "said")]


def _mark(row: ChartRow) -> str:
    return "mark strong" if row.strong else "mark"


def _rule(kind: str, x1: float, y1: float, x2: float, y2: float) -> Shape:
    return Shape("line", {"class": kind, "x1": _n(x1), "y1": _n(y1), "x2": _n(x2), "y2": _n(y2)})


def _box(kind: str, x: float, y: float, width: float, height: float) -> Shape:
    return Shape("rect", {"class": kind, "x": _n(x), "y": _n(y), "width": _n(width), "height": _n(height)})


def _text(words: str, x: float, y: float, anchor: str, kind: str = "axis") -> Shape:
    return Shape("text", {"class": kind, "x": _n(x), "y": _n(y), "text-anchor": anchor}, words)


def _said(tick: float) -> str:
    return f"{tick / 1000:g}k" if tick >= 10_000 else f"{tick:g}"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _ticks(low: float, high: float) -> list[float]:
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, max(last, first + 1) + 1)]


def _decades(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 2)
    for factors in ((1, 2, 5), (1,)):
        every = [10.0**power * factor for power in powers for factor in factors]
        first = max(place for place, tick in enumerate(every) if tick <= low)
        last = min(place for place, tick in enumerate(every) if tick >= high and place > first)
        if last - first < 7:
            break
    return every[first : last + 1]
