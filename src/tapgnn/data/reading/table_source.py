"""Source: what every file of events becomes, whatever its format.

A source has the names of its columns, and its rows as tables that know where in the file each row stands. A row of the
file is either in a table or among its `rejected`, never lost. What the values mean is decided in `values`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tapgnn.errors import DataError
from tapgnn.events import Ints


@dataclass(frozen=True)
class Table:
    """Some rows: raw columns [E] (series, or lists of JSON values), the place [E] of each, and what is no row."""

    columns: dict[str, Any]
    places: Ints
    rejected: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Source:
    """A file of events. `read(names)` gives its rows; places count lines of text, or rows of Parquet."""

    name: str
    format: str
    columns: list[str]
    read: Callable[[Sequence[str]], Iterator[Table]]
    place: str = "line"
    by_position: bool = False
    typed: bool = False


def checked_names(file: str, names: Sequence[str]) -> list[str]:
    """The names of the columns of a file, each of them once; an empty one becomes its place."""
    named = [name or f"column {place + 1}" for place, name in enumerate(names)]
    name, count = Counter(named).most_common(1)[0] if named else ("", 1)
    if count > 1:
        raise DataError(f"{file}: {count} columns are called {name[:40]!r}; give each its own name")
    return named
