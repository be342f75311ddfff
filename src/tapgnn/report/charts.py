"""A chart: drawn by matplotlib, written as inline SVG in the colours and the font of the page.

Colours are placeholders while matplotlib draws. In the SVG they become the variables of style.css, which differ between
light pages, dark pages and print. Text is text, and every chart has a text alternative with its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from io import StringIO

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib import style
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

WIDTH, HEIGHT = 400, 310
SHADES = 10
SECOND = 1 / 86_400
# The dashes of the methods, by tone: lines differ in more than colour.
DASHES = ((), (7, 3), (3, 2.5), (9, 3, 2, 3), (5, 2), (2, 3), (12, 4), (1.5, 1.5), (6, 2, 1, 2))
_COLOURS = (
    *("ink", "soft", "rule", "edge", "card", "mass", "own", "best", "other"),
    *(f"tone-{tone}" for tone in range(len(DASHES))),
    *(f"shade-{shade}" for shade in range(SHADES)),
)


def colour(name: str) -> str:
    """The placeholder of a colour of style.css."""
    return f"#0000{1 + _COLOURS.index(name):02x}"


_STYLE = {
    "axes.edgecolor": colour("edge"),
    "axes.formatter.offset_threshold": 7,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": colour("soft"),
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.dpi": 72,
    "font.family": "DejaVu Sans",
    "font.size": 13,
    "grid.color": colour("rule"),
    "grid.linewidth": 1,
    "lines.scale_dashes": False,
    "path.simplify_threshold": 1.0,
    "svg.fonttype": "none",
    "text.color": colour("ink"),
    "text.parse_math": False,
    "xtick.color": colour("edge"),
    "xtick.labelcolor": colour("soft"),
    "ytick.labelcolor": colour("soft"),
    "ytick.left": False,
}


def chart_style() -> AbstractContextManager[None]:
    """The style in which all charts are made and written, whatever the settings of the user."""
    return style.context(_STYLE, after_reset=True)


class Chart:
    """The axes of matplotlib, and the marks that several figures share. Tooltips are the links of their marks."""

    def __init__(self, x_label: str, y_label: str, width: float = WIDTH, height: float = HEIGHT) -> None:
        self._figure = Figure(figsize=(width / 72, height / 72))
        self.axes = self._figure.add_subplot(xlabel=x_label, ylabel=y_label, axisbelow=True)

    def line(self, x: ArrayLike, y: ArrayLike, tone: int, tip: str | None = None) -> None:
        """The line of a method, that of the model wider; a NaN interrupts it."""
        width = 1.8 if tone else 2.6
        self.axes.plot(x, y, color=colour(f"tone-{tone}"), dashes=DASHES[tone], linewidth=width, url=tip)

    def dots(self, x: ArrayLike, y: ArrayLike, tone: int, tips: Sequence[str], radius: ArrayLike = 3.5) -> None:
        """A dot per point, each with its own tooltip."""
        area, card = (2 * np.asarray(radius)) ** 2, colour("card")
        self.axes.scatter(x, y, area, colour(f"tone-{tone}"), edgecolors=card, linewidths=1, urls=tips, zorder=2)

    def chance(self, left: float, right: float, tip: str) -> None:
        """A dotted line from one height at x = 0 to another at x = 1."""
        self.axes.plot([0, 1], [left, right], color=colour("edge"), dashes=(1.5, 3.5), linewidth=1.2, url=tip)

    def end_at_one(self) -> None:
        """Leave no space above 1, the highest AUC."""
        self.axes.set_ylim(top=min(1.0, self.axes.get_ylim()[1]))

    def show_dates(self) -> None:
        """Write the days since 1970 of the horizontal axis as dates and times of day."""
        first, last = self.axes.get_xlim()
        # The locator warns of parts of a second, which no log of dates is about.
        self.axes.set_xlim(first - SECOND, last + SECOND)
        # Six labels fit; two as the minimum, so that the steps of every unit reach up to the next unit.
        locator = AutoDateLocator(minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
        self.axes.xaxis.set_major_locator(locator)
        self.axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]

    def svg(self, words: str, classes: str = "chart") -> Markup:
        """An SVG element that scales with the page; `words` are its text alternative."""
        for artist in self._figure.findobj():
            artist.set_clip_on(False)
        written = StringIO()
        # The ids of shapes are hashes with this salt: the same in every run, and others in every chart of a page.
        with matplotlib.rc_context({"svg.hashsalt": words}):
            self._figure.savefig(written, format="svg", transparent=True)
        drawing = written.getvalue().partition("</defs>")[2].removesuffix("</svg>\n")
        # A tenth of a pixel is enough, and the same on every machine.
        drawing = re.sub(r' (d|x|y|transform)="[^"]+"', _round, drawing)
        drawing = re.sub("#0000([0-9a-f]{2})", lambda found: f"var(--{_COLOURS[int(found[1], 16) - 1]})", drawing)
        drawing = re.sub(r'<a xlink:href="([^"]*)"[^>]*>', r"<g><title>\1</title>", drawing).replace("</a>", "</g>")
        drawing = re.sub(r'<g id="[^"]*">', "<g>", drawing)
        width, height = 72 * self._figure.get_size_inches()
        whole = Markup('<svg class="{}" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}</svg>')
        return whole.format(classes, width, height, words, Markup(drawing))


def unit_chart(x_label: str, y_label: str) -> Chart:
    """A chart from 0 to 1 both ways."""
    chart = Chart(x_label, y_label)
    chart.axes.set(xlim=(0, 1), ylim=(0, 1))
    return chart


def _round(attribute: re.Match[str]) -> str:
    return re.sub(r"\d+\.\d\d+", lambda found: f"{float(found[0]):.1f}", attribute[0])
