"""ColumnPreview: what the first rows of a column hold, for people who check how their table was read."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from tapgnn.data.reading.cells import Cells, without_missing

EXAMPLES = 3
_LONGEST = 24


class ColumnPreview(NamedTuple):
    """The share of empty cells among the first rows, and a few different values."""

    missing: float
    examples: tuple[str, ...]


def preview(cells: Cells) -> ColumnPreview:
    """The preview of a column.

    >>> preview(["ecom", "", "ecom", "card"])
    ColumnPreview(missing=0.25, examples=('ecom', 'card'))
    """
    series = pl.Series([_text(cell) for cell in cells], dtype=pl.String) if isinstance(cells, list) else cells
    if series.dtype in (pl.String, pl.Categorical, pl.Enum):
        series = without_missing(series.cast(pl.String))
    elif series.dtype.is_float():
        series = series.fill_nan(None)
    known = series.drop_nulls()
    values = known.unique(maintain_order=True).head(EXAMPLES) if not known.dtype.is_nested() else known.head(EXAMPLES)
    share = 1 - len(known) / len(series) if len(series) else 0.0
    return ColumnPreview(share, tuple(_short(str(value)) for value in values))


def _text(cell: Any) -> str | None:
    return None if cell is None else str(cell).encode("utf-8", "replace").decode()


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
