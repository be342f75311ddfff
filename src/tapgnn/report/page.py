"""The pages: page.html or comparison.html with style.css as one file, without scripts or network requests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tapgnn.file_integrity import write_atomically
from tapgnn.report.content import MODEL, Report, as_float

if TYPE_CHECKING:
    from tapgnn.experiments.tables import ResultTable

# Every value is escaped except the charts, which escape their own text.
_TEMPLATES = Environment(
    loader=PackageLoader("tapgnn.report", package_path=""),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def write_report(path: str | Path, report: Report) -> Path:
    """Write the report as one HTML file, whole or not at all, and return its path."""
    write_atomically(path, render_report(report))
    return Path(path)


def render_report(report: Report) -> str:
    """The page as text."""
    # matplotlib takes long to import, and a command that writes no report does without it.
    from tapgnn.report.charts import DASHES, chart_style
    from tapgnn.report.headline import headline, tiles
    from tapgnn.report.sections import sections

    page = _TEMPLATES.get_template("page.html")
    with chart_style():
        parts = {"headline": headline(report), "tiles": tiles(report), "sections": sections(report)}
    return page.render(report=report, dashes=DASHES, **parts)


def render_comparison(title: str, found: ResultTable, settings: Mapping[str, Any]) -> str:
    """The page of a comparison as text: its first measure as bars, its table, what is said below it, the settings."""
    from tapgnn.experiments.tables import Value
    from tapgnn.report.charts import chart_style
    from tapgnn.report.headline import method_bars
    from tapgnn.report.layout import Cell, Table
    from tapgnn.report.tables import settings_table

    rows = [
        (label, [Cell(mean, f"± {spread}" if spread else "", best) for mean, spread, _, best in cells])
        for label, cells in found.parts()
    ]
    table = Table("Results by method", list(found.header), rows)
    firsts = {
        label: (as_float(cells[0].mean), cells[0].std) for label, cells in found.rows if isinstance(cells[0], Value)
    }
    with chart_style():
        figure = method_bars(MODEL, firsts, found.header[1])
    page = _TEMPLATES.get_template("comparison.html")
    given = {"title": title, "figure": figure, "table": table, "notes": found.note.splitlines()}
    return page.render(**given, settings=settings_table(settings))
