"""TableSource: a file of events as column names and tables of raw values, whatever its format.

A table knows the position of each row in the file. Every row of the file is either in a table or among its `rejected`
rows, never lost. `values` interprets the values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from tapgnn.data.reading.cells import Cells
from tapgnn.errors import DataError
from tapgnn.events import Ints


@dataclass(frozen=True)
class RawTable:
    """Raw columns [E] (series, or lists of JSON values), the place [E] of each row in the file, and rejected rows."""

    columns: dict[str, Any]
    places: Ints
    rejected: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class TableSource:
    """A table of events. `read(names)` yields its rows; `place` says what positions count, lines or rows.

    by_position   the columns have no names but their numbers
    typed         cells keep the types of the table: 7 and '7' are different ids
    repeatable    `read` may be called again, otherwise once
    numbers       columns that are numbers by the format of the file
    skips         rows that cannot be read may be skipped
    """

    name: str
    format: str
    columns: list[str]
    read: Callable[[Sequence[str]], Iterator[RawTable]]
    place: str = "line"
    by_position: bool = False
    typed: bool = False
    repeatable: bool = False
    numbers: tuple[str, ...] = ()
    skips: bool = True

    def fault(self, place: int, reason: str, cure: str = "; fix the row") -> DataError:
        """The error of a row that cannot be read."""
        return DataError(f"{self.name} {self.place} {place}: {reason}{cure}")

    def renamed(self, names: Sequence[str]) -> TableSource:
        """The same table under other names of the columns."""
        old = dict(zip(names, self.columns, strict=True))

        def read(wanted: Sequence[str]) -> Iterator[RawTable]:
            for table in self.read([old[name] for name in wanted]):
                yield replace(table, columns={name: table.columns[old[name]] for name in wanted})

        return replace(self, columns=list(names), read=read)


def joined_cells(tables: Sequence[RawTable], names: Sequence[str]) -> dict[str, Cells]:
    """The cells of these columns in all tables, one after the other."""
    cells: dict[str, Cells] = {}
    for name in names:
        parts = [table.columns[name] for table in tables]
        as_lists = not parts or isinstance(parts[0], list)
        cells[name] = [cell for part in parts for cell in part] if as_lists else pl.concat(parts)
    return cells


def checked_names(file: str, names: Sequence[str]) -> list[str]:
    """The column names of a file, which must be distinct; an empty name becomes 'column' and its number."""
    named = [name or f"column {place + 1}" for place, name in enumerate(names)]
    name, count = Counter(named).most_common(1)[0] if named else ("", 1)
    if count > 1:
        raise DataError(f"{file}: {count} columns are named {name[:40]!r}; give each column its own name")
    return named
