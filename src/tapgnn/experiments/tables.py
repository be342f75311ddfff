"""Tables of results: rows of numbers with their deviation and what the paper prints, as Markdown, LaTeX and CSV.

    0.9436 ± 0.0004 [0.815]    mean and standard deviation over the seeds, in brackets the number that the paper prints

The best number of a column is bold.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

import numpy as np

# Stands in a cell without a number.
NOTHING = "\N{EN DASH}"
_ESCAPES = str.maketrans({"_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#"})


@dataclass(frozen=True)
class Value:
    """A number: mean and standard deviation over so many runs, and what the paper prints in its place."""

    mean: float | None
    std: float = 0.0
    runs: int = 1
    printed: float | None = None
    form: str = ".4f"

    @classmethod
    def of(cls, values: Sequence[float], printed: float | None = None, form: str = ".4f") -> Value:
        """The mean of some runs; no number where there are none."""
        if not len(values):
            return cls(None, 0.0, 0, printed, form)
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return cls(float(np.mean(values)), deviation, len(values), printed, form)

    def parts(self) -> tuple[str, str, str]:
        """The mean, the deviation and the printed number as text; empty where there is none.

        >>> Value(0.94361, 0.0004, 5, 0.815).parts()
        ('0.9436', '0.0004', '0.815')
        """
        mean = "" if self.mean is None else format(self.mean, self.form)
        deviation = format(self.std, self.form) if self.runs > 1 else ""
        printed = (
            "" if self.printed is None else f"{self.printed:,.0f}" if self.printed >= 1_000 else f"{self.printed:g}"
        )
        return mean, deviation, printed


@dataclass(frozen=True)
class ResultTable:
    """A table: a label and cells in every row.

    best  'max' or 'min': which number of a column is bold; of all columns, or of each
    note  stands below the table
    """

    name: str
    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, tuple[Value | str, ...]]] = ()
    best: str | tuple[str, ...] = ""
    note: str = ""

    def markdown(self) -> str:
        """As Markdown."""
        lines = [_markdown_row(self.header), "|" + " --- |" * len(self.header)]
        lines += [_markdown_row((label, *texts)) for label, texts in self.texts("**{}**", " ± {}", "[{}]")]
        return "\n".join([*lines, *(["", self.note] if self.note else [])]) + "\n"

    def latex(self) -> str:
        """As a LaTeX table in the style of booktabs."""
        head = " & ".join(name.translate(_ESCAPES) for name in self.header)
        body = []
        for label, texts in self.texts(r"\textbf{{{}}}", r" $\pm$ {}", "[{}]"):
            body.append(" & ".join([label.translate(_ESCAPES), *(text.translate(_ESCAPES) for text in texts)]) + r" \\")
        caption = " ".join(filter(None, (f"{self.title}.", self.note))).translate(_ESCAPES)
        opening = [r"\begin{table}", r"\centering", rf"\caption{{{caption}}}"]
        opening += [rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}", r"\toprule", rf"{head} \\", r"\midrule"]
        return "\n".join([*opening, *body, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"

    def csv(self) -> str:
        """One line a number: row, column, mean, standard deviation, runs, and what the paper prints."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow((self.header[0], "column", "mean", "std", "runs", "printed"))
        for label, cells in self.rows:
            for column, cell in zip(self.header[1:], cells, strict=True):
                numbers = (cell, "", "", "") if isinstance(cell, str) else astuple(cell)[:4]
                writer.writerow((label, column, *numbers))
        return text.getvalue()

    def plain(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        rows = {
            label: {
                column: asdict(cell) if isinstance(cell, Value) else cell
                for column, cell in zip(self.header[1:], cells, strict=True)
            }
            for label, cells in self.rows
        }
        return {"title": self.title, "header": self.header, "best": self.best, "note": self.note, "rows": rows}

    @classmethod
    def from_plain(cls, name: str, values: Mapping[str, Any]) -> ResultTable:
        """The table that gave these plain values."""
        rows = [
            (label, tuple(cell if isinstance(cell, str) else Value(**cell) for cell in cells.values()))
            for label, cells in values["rows"].items()
        ]
        best = values["best"] if isinstance(values["best"], str) else tuple(values["best"])
        return cls(name, values["title"], tuple(values["header"]), rows, best, values["note"])

    def texts(self, bold: str, deviation: str, printed: str) -> list[tuple[str, list[str]]]:
        """The rows as text."""
        texts = []
        for label, cells in self.parts():
            row = []
            for mean, spread, paper, is_best in cells:
                mean = bold.format(mean) if is_best else mean
                spread = deviation.format(spread) if spread else ""
                row.append(f"{mean or NOTHING}{spread} {printed.format(paper) if paper else ''}".strip())
            texts.append((label, row))
        return texts

    def parts(self) -> list[tuple[str, list[tuple[str, str, str, bool]]]]:
        """The rows: of each cell the mean, the deviation and the printed number as text, and whether it is the best."""
        best = [self._best(place) for place in range(len(self.header) - 1)]
        return [
            (
                label,
                [
                    (cell, "", "", False)
                    if isinstance(cell, str)
                    else (*cell.parts(), cell.mean is not None and cell.mean == top)
                    for cell, top in zip(cells, best, strict=True)
                ],
            )
            for label, cells in self.rows
        ]

    def _best(self, place: int) -> float | None:
        """The number of a column that is bold."""
        cells = [cells[place] for _, cells in self.rows]
        found = [cell.mean for cell in cells if isinstance(cell, Value) and cell.mean is not None]
        best = self.best if isinstance(self.best, str) else self.best[place]
        return {"max": max, "min": min}[best](found) if best and found else None


def _markdown_row(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
