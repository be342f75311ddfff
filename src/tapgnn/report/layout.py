"""The parts of a page: tables, legends, sections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tapgnn.errors import QueryError
from tapgnn.report.figures import Curve, Figure


@dataclass(frozen=True)
class Cell:
    """A value in a table, and a secondary one after it."""

    text: str
    aside: str = ""
    strong: bool = False


@dataclass(frozen=True)
class Table:
    """A caption, the column headings, and rows of a name and its cells; `wordy` cells are text, not numbers."""

    caption: str
    head: list[str]
    rows: list[tuple[str, list[Cell]]]
    wordy: bool = False


@dataclass
class Section:
    """A section of the page: text and legend (methods and their values) left, charts right, tables below."""

    name: str
    title: str
    words: list[str] = field(default_factory=list)
    terms: list[tuple[str, str]] = field(default_factory=list)
    legend_head: list[str] = field(default_factory=list)
    legend: list[tuple[Curve, list[str]]] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    folded: bool = False

    def draw(self, what: str, figure: Callable[..., Figure], *given: Any) -> bool:
        """Add a figure, or a note on why there is none; returns whether it was drawn."""
        try:
            self.figures.append(figure(*given))
        except QueryError as problem:
            self.notes.append(f"{what} is not shown: {problem}.")
            return False
        return True
