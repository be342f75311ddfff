"""A chart as inline SVG: two axes and what is drawn between them.

Colours are classes (`tone-0` the model, `tone-1` to `tone-8` the others), which style.css defines for light pages, dark
pages and print. Text is text, and every chart has a text alternative with its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from tapgnn.report.numbers import minus, moment, short

WIDTH, HEIGHT = 400.0, 310.0
_TOP, _RIGHT, _BOTTOM = 26.0, 14.0, 46.0
_LETTER = 7.4
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Steps between date labels, from minutes to centuries.
_CALENDAR = (
    *((step, "m") for step in (1, 5, 15, 30)),
    *((step, "h") for step in (1, 3, 6, 12)),
    *((step, "D") for step in (1, 2, 5, 10, 20)),
    *((step, "M") for step in (1, 2, 3, 6)),
    *((step, "Y") for step in (1, 2, 5, 10, 20, 50, 100)),
)


@dataclass(frozen=True)
class Axis:
    """A range, its tick marks, and its label."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    label: str

    def share(self, values: ArrayLike) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """The position of values between low (0) and high (1)."""
        return (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)


def unit_axis(label: str) -> Axis:
    """From 0 to 1, in steps of 0.2."""
    return Axis(0.0, 1.0, [(tick / 5, f"{tick / 5:.1f}") for tick in range(6)], label)


def linear_axis(
    values: ArrayLike, label: str, *, ticks: int = 5, tight: bool = False, ceiling: float = math.inf
) -> Axis:
    """A range around the finite values with round ticks; a tight one ends at the values, otherwise at ticks.

    There is no tick above the ceiling, such as 1 for an AUC, unless a value exceeds it.
    """
    low, high = _range(values)
    step = _round_step((high - low) / ticks)
    first, last = (math.ceil, math.floor) if tight else (math.floor, math.ceil)
    places = [number * step for number in range(first(low / step - 1e-9), last(high / step + 1e-9) + 1)]
    if not (np.asarray(values) > ceiling).any():
        places = [place for place in places if place <= ceiling + 1e-9]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    names = [short(place) for place in places]
    if step < 1 or len(set(names)) < len(names):
        names = [minus(f"{place:,.{digits}f}") for place in places]
    named = list(zip(places, names, strict=True))
    return Axis(low, high, named, label) if tight else Axis(places[0], places[-1], named, label)


def time_axis(times: ArrayLike, unix: bool) -> Axis:
    """Dates for Unix seconds, otherwise numbers in the unit of the log."""
    if not unix:
        return linear_axis(times, "time, in the unit of the log", ticks=4, tight=True)
    low, high = _range(times)
    for step, unit in _CALENDAR:
        start, stop = (int(end.astype(int)) for end in np.array([low, high]).astype("M8[s]").astype(f"M8[{unit}]"))
        if stop - start > 20 * step:
            continue
        dates = np.arange(-(-start // step) * step, stop + 1, step).astype(f"M8[{unit}]")
        named = [(float(date.astype("M8[s]").astype(int)), _date(date, unit)) for date in dates]
        named = [tick for tick in named if low <= tick[0] <= high]
        # Leave space for two letters between labels.
        if sum((len(name) + 2) * _LETTER for _, name in named) < 0.9 * WIDTH:
            break
    years = [moment(end, unix)[:4] for end in (low, high)]
    return Axis(low, high, named, f"date in {years[0]} (UTC)" if years[0] == years[1] else "date (UTC)")


def _date(date: np.datetime64, unit: str) -> str:
    year, month, day = str(date.astype("M8[D]")).split("-")
    named = f"{int(day)} {_MONTHS[int(month) - 1]}"
    if unit in "hm":
        return f"{named} {str(date.astype('M8[m]'))[11:]}"
    return {"D": named, "M": f"{_MONTHS[int(month) - 1]} {year}", "Y": year}[unit]


def _range(values: ArrayLike) -> tuple[float, float]:
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    margin = abs(low) * 0.05 or 0.5
    return low - margin, high + margin


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


class Plot:
    """Marks between two axes; `svg` renders them. Rows with a NaN are not drawn, and interrupt a line."""

    def __init__(self, x: Axis, y: Axis) -> None:
        self.x, self.y = x, y
        self.left = 10 + _LETTER * max([len(name) for _, name in y.ticks], default=0)
        self.width, self.height = WIDTH - self.left - _RIGHT, HEIGHT - _TOP - _BOTTOM
        self._marks: list[Markup] = []

    def place(self, x: ArrayLike, y: ArrayLike) -> list[tuple[str, str]]:
        """Values as drawing coordinates, rounded to a tenth."""
        across = np.atleast_1d(self.left + self.x.share(x) * self.width)
        down = np.atleast_1d(_TOP + (1 - self.y.share(y)) * self.height)
        return [(f"{a:.1f}", f"{b:.1f}") for a, b in zip(across, down, strict=True)]

    def line(self, x: ArrayLike, y: ArrayLike, style: str, tip: str = "") -> None:
        """A line through the points, with the given classes."""
        pieces, pen = [], "M"
        for across, down in self.place(x, y):
            if "nan" in (across, down):
                pen = "M"
                continue
            pieces.append(f"{pen}{across} {down}")
            pen = "L"
        if pieces:
            self._marks.append(mark('<path class="line {}" d="{}">{}</path>', style, "".join(pieces), _tip(tip)))

    def dots(self, x: ArrayLike, y: ArrayLike, style: str, tips: Sequence[str], radius: ArrayLike = 3.5) -> None:
        """A dot per point, each with its own tooltip."""
        places = self.place(x, y)
        for (across, down), tip, size in zip(places, tips, np.broadcast_to(radius, len(places)), strict=True):
            if "nan" not in (across, down):
                drawn = '<circle class="dot {}" cx="{}" cy="{}" r="{}">{}</circle>'
                self._marks.append(mark(drawn, style, across, down, size, _tip(tip)))

    def columns(self, edges: ArrayLike, heights: ArrayLike, style: str, tips: Sequence[str]) -> None:
        """Columns between consecutive edges; heights are fractions of the height of the chart."""
        borders = self.left + self.x.share(edges) * self.width
        for start, stop, high, tip in zip(borders[:-1], borders[1:], np.asarray(heights), tips, strict=True):
            box = (start + 1, _TOP + (1 - high) * self.height, max(stop - start - 2, 0.5), high * self.height)
            drawn = '<rect class="{}" x="{}" y="{}" width="{}" height="{}">{}</rect>'
            self._marks.append(mark(drawn, style, *box, _tip(tip)))

    def svg(self, words: str) -> Markup:
        """The chart; `words` are its text alternative."""
        return frame(words, Markup("").join([*self._axes(), *self._marks]), WIDTH, HEIGHT)

    def _axes(self) -> list[Markup]:
        bottom, right, rule = _TOP + self.height, self.left + self.width, '<path class="rule" d="M{} {}L{} {}"/>'
        parts = [text(2, 12, self.y.label, "axis-label")]
        for place, name in self.y.ticks:
            down = _TOP + (1 - float(self.y.share(place))) * self.height
            parts += [mark(rule, self.left, down, right, down), text(self.left - 6, down + 4.5, name, "tick end")]
        for place, name in self.x.ticks:
            across = self.left + float(self.x.share(place)) * self.width
            # Keep wide labels, such as dates, inside the drawing.
            middle = min(across, WIDTH - len(name) * _LETTER / 2)
            parts += [mark(rule, across, bottom, across, bottom + 4), text(middle, bottom + 18, name, "tick middle")]
        parts.append(mark('<path class="edge" d="M{} {}H{}"/>', self.left, bottom, WIDTH - 14))
        return [*parts, text(right, bottom + 38, self.x.label, "axis-label end")]


def frame(words: str, inside: Markup, width: float, height: float, style: str = "chart") -> Markup:
    """An SVG drawing that scales with the page; `words` are its text alternative."""
    whole = Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    return whole.format(style, f"{width:g}", f"{height:g}", words, inside)


def text(x: float, y: float, words: str, style: str) -> Markup:
    """A line of text; class `end` or `middle` aligns it at x."""
    return mark('<text class="{}" x="{}" y="{}">{}</text>', style, x, y, words)


def mark(template: str, *values: str | float) -> Markup:
    """An element from a template: numbers are rounded to a tenth, text is escaped."""
    return Markup(template).format(*(value if isinstance(value, str) else f"{value:.1f}" for value in values))


def _tip(words: str) -> Markup:
    return mark("<title>{}</title>", words) if words else Markup("")
