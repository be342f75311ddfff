"""Figures of results: lines with their deviation, or points on a plane, in panels, drawn by matplotlib.

They stand on white, whatever the page around them has. The bytes of a figure depend on its numbers alone.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tapgnn.experiments.tables import ResultTable, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLE: Any = {"font.size": 8.0, "svg.hashsalt": "tapgnn", "axes.spines.top": False, "axes.spines.right": False}
MARKS, DASHES = "os^Dv*Px", ("-", "--", "-.", ":")
# Points of a line up to which each has a mark.
MARKED = 20
# From early to late.
SHADES = ("#1b2a7a", "#5b8bd9", "#9a9a9a", "#f08a6a", "#a01321")


@dataclass(frozen=True)
class Panel:
    """One pair of axes: for every line, its values at the places along the x axis; without an order, points alone."""

    title: str
    x: Sequence[str | float]
    lines: Mapping[str, Sequence[Value]]
    x_label: str = ""
    y_label: str = "AUC"
    log_y: bool = False
    ordered: bool = True


@dataclass(frozen=True)
class Scatter:
    """Points [n, 2] on a plane, of groups [n] in an order."""

    title: str
    points: Sequence[Sequence[float]]
    groups: Sequence[int]
    names: Sequence[str]


@dataclass(frozen=True)
class ResultFigure:
    """Panels side by side, with one legend for all, which may have a title."""

    name: str
    panels: Sequence[Panel | Scatter]
    legend: str = ""

    def drawn(self, form: str) -> bytes:
        """As SVG or PNG."""
        # matplotlib takes long to import, and most commands draw nothing.
        from matplotlib import rc_context
        from matplotlib.figure import Figure as Drawing

        with rc_context(STYLE):
            count = len(self.panels)
            columns = 2 if count == 4 else min(count, 3)
            rows = -(-count // columns)
            size = (7.2, 3.4) if count == 1 else (3.4 * columns, 2.8 * rows)
            drawing = Drawing(figsize=size, layout="constrained")
            places = [drawing.add_subplot(rows, columns, place + 1) for place in range(count)]
            for axes, panel in zip(places, self.panels, strict=True):
                if isinstance(panel, Panel):
                    _draw_lines(axes, panel)
                else:
                    _draw_points(axes, panel)
            named = {
                label: mark for axes in places for mark, label in zip(*axes.get_legend_handles_labels(), strict=True)
            }
            if named:
                placing: Any = {"loc": "outside right center", "frameon": False, "title": self.legend or None}
                scale = 3.0 if isinstance(self.panels[0], Scatter) else 1.0
                drawing.legend(named.values(), named.keys(), markerscale=scale, **placing)
            stream = io.BytesIO()
            stamp = {"Date": None} if form == "svg" else {"Software": None}
            drawing.savefig(stream, format=form, dpi=160, metadata=stamp)
        return stream.getvalue()


def lines_figure(name: str, table: ResultTable) -> ResultFigure:
    """A table as one panel: points of their own for each row, its columns along the x axis."""
    lines = {label: [cell for cell in cells if isinstance(cell, Value)] for label, cells in table.rows}
    return ResultFigure(name, [Panel(table.title, table.header[1:], lines, y_label="", ordered=False)])


def _draw_points(axes: Axes, panel: Scatter) -> None:
    """The points of a panel, a colour for each group."""
    points, groups = np.array(panel.points), np.array(panel.groups)
    for group, (name, shade) in enumerate(zip(panel.names, SHADES, strict=True)):
        x, y = points[groups == group].T
        axes.scatter(x, y, s=4, color=shade, linewidths=0, label=name)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set(visible=True, color="#cccccc")
    axes.set_title(panel.title)


def _draw_lines(axes: Axes, panel: Panel) -> None:
    """The lines of a panel; words along the x axis stand at equal distances."""
    words = any(isinstance(place, str) for place in panel.x)
    places = np.arange(len(panel.x)) if words else np.array(panel.x, dtype=float)
    for number, (label, values) in enumerate(panel.lines.items()):
        # Without an order, the points of a place stand side by side.
        aside = 0.0 if panel.ordered else 0.5 * ((number + 0.5) / len(panel.lines) - 0.5)
        shown = [
            (at + aside, value.mean, value.std)
            for at, value in zip(places, values, strict=True)
            if value.mean is not None
        ]
        if shown:
            at, mean, std = zip(*shown, strict=True)
            dashes = DASHES[number % len(DASHES)] if panel.ordered else "none"
            mark = MARKS[number % len(MARKS)] if len(shown) <= MARKED else ""
            look: Any = {"marker": mark, "markersize": 4, "linestyle": dashes, "linewidth": 1.2, "capsize": 2}
            axes.errorbar(at, mean, yerr=std if any(std) else None, label=label, **look)
    if words:
        axes.set_xticks(places, [str(place) for place in panel.x], rotation=20, ha="right")
    if panel.log_y:
        axes.set_yscale("log")
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
