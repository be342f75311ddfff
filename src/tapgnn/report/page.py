"""The page: page.html with style.css as one file, without scripts or network requests."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tapgnn.file_integrity import write_atomically
from tapgnn.report.content import Report
from tapgnn.report.headline import headline, tiles
from tapgnn.report.sections import sections

# Everything is escaped except the style sheet and the charts, which escape their own text.
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
    return _TEMPLATES.get_template("page.html").render(
        report=report,
        headline=headline(report),
        tiles=tiles(report),
        sections=sections(report),
        style=Markup(files("tapgnn.report").joinpath("style.css").read_text(encoding="utf-8")),
    )
