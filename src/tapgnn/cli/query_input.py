"""The input of embed, score and rank: nodes and times from the command line or from a file, in the given order.

A node written as a plain integer is that integer, as in a file of events, unless the model knows the string of digits
instead (from Parquet or JSON). A time is a number in the unit of the log, or an ISO date.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tapgnn.cli.output import say
from tapgnn.data.reading.columns import ALIASES
from tapgnn.data.reading.formats import open_source
from tapgnn.data.reading.table_source import RawTable, TableSource
from tapgnn.data.reading.values import INTEGER, convert_times, explain, is_id, shorten
from tapgnn.errors import DataError, QueryError
from tapgnn.estimator import TAPGNN
from tapgnn.vocabulary import Id, Vocabulary

NAMES = {**ALIASES, "node": ("node", "id", "node_id", "name")}


def parse_time(text: str) -> float:
    """A time in the unit of the log: a number, or an ISO date in seconds since 1970 (UTC unless it has an offset).

    >>> parse_time("12.5"), parse_time("1970-01-02")
    (12.5, 86400.0)
    """
    values, good = convert_times(pl.Series([text]), "--time")
    if not good[0]:
        raise QueryError(explain("time", text))
    return float(values[0])


def as_id(text: str, known: Vocabulary) -> Id:
    """The id that a model knows a node by."""
    return int(text) if INTEGER.match(text) and text not in known else text


def queried(
    path: Path | None, roles: Sequence[str], given: Sequence[Sequence[str]], model: TAPGNN, time: float
) -> list[tuple[Any, ...]]:
    """The nodes and the time of each query, from a file or as given; warns of unknown nodes, which may be typos."""
    known = model.model_.vocabulary
    if path is None:
        rows: list[tuple[Any, ...]] = [(*(as_id(name, known) for name in names), time) for names in given]
    else:
        rows = _read_queries(path, roles, model, time)
    ids = (row[place] for place in range(len(roles) - 1) for row in rows)
    new = list(dict.fromkeys(name for name in ids if name not in known))
    if new:
        shown = ", ".join(map(repr, new[:5])) + (", ..." if len(new) > 5 else "")
        say(f"the model has never seen {shown}; the answer is for a new node")
    return rows


def _read_queries(path: Path, roles: Sequence[str], model: TAPGNN, time: float) -> list[tuple[Any, ...]]:
    """The rows of a file with these columns, found by their usual names; without a header, in this order.

    The last role is the time; if the file has no such column, it is `time` for all.
    """
    source = open_source(path, None, lambda cells: any(cell.lower() in NAMES[role] for cell in cells for role in roles))
    names = _columns(source, roles)
    rows: list[tuple[Any, ...]] = []
    for table in source.read(names):
        if table.rejected:
            raise _bad_row(source, *table.rejected[0])
        nodes = [_nodes(source, table, name, model.model_.vocabulary) for name in names[: len(roles) - 1]]
        times = [time] * len(table.places) if len(names) < len(roles) else _times(source, table, names[-1])
        rows += zip(*nodes, times, strict=True)
    if not rows:
        raise DataError(f"{source.name} has no rows; at least one is needed")
    return rows


def _columns(source: TableSource, roles: Sequence[str]) -> list[str]:
    if source.by_position:
        if len(source.columns) not in (len(roles), len(roles) - 1):
            raise DataError(
                f"{source.name} has {len(source.columns)} columns and no header; expected {','.join(roles)}"
            )
        return source.columns
    found = [next((name for name in source.columns if name.lower() in NAMES[role]), None) for role in roles]
    for role, name in zip(roles[:-1], found, strict=False):
        if name is None:
            raise DataError(f"{source.name} has no column {role!r}; expected the columns {','.join(roles)}")
    return [name for name in found if name is not None]


def _nodes(source: TableSource, table: RawTable, name: str, known: Vocabulary) -> list[Id]:
    cells = list(table.columns[name])
    for cell, place in zip(cells, table.places, strict=True):
        if not is_id(cell):
            raise _bad_row(source, place, f"{name} {shorten(cell)} is not an integer or a string")
    return cells if source.typed else [as_id(cell, known) for cell in cells]


def _times(source: TableSource, table: RawTable, name: str) -> list[float]:
    values, good = convert_times(table.columns[name], f"{source.name}: column {name!r}")
    for row in (~good).nonzero()[0]:
        raise _bad_row(source, table.places[row], explain("time", table.columns[name][int(row)]))
    return [float(value) for value in values]


def _bad_row(source: TableSource, place: int, reason: str) -> DataError:
    return DataError(f"{source.name} {source.place} {place}: {reason}; fix the row")
