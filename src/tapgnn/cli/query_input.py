"""The input of embed, score and rank: nodes and times from the command line or from a file, in the given order.

A file may have the names of the model's own table in its header, or the usual ones. A node written as a plain integer
is that integer, as in a file of events, unless the model knows the string of digits instead (from Parquet or JSON).
Times are read as in the log: a number in its unit, or a date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tapgnn.cli.output import say
from tapgnn.data.reading.cells import without_missing
from tapgnn.data.reading.columns import ALIASES, BUSINESS_ALIASES, columns_of
from tapgnn.data.reading.table_source import RawTable, TableSource
from tapgnn.data.reading.values import INTEGER, explain, is_id, shorten
from tapgnn.errors import DataError, QueryError
from tapgnn.fitted_queries import FittedQueries, Side
from tapgnn.vocabulary import Id

NODE = ("node", "node_id", "id", "name")
# The role of a node by the name of its option; a node of 'embed' may be on either side.
SIDES: Mapping[str, Side | None] = {"src": "src", "dst": "dst", "node": None}


@dataclass(frozen=True)
class QueryRows:
    """Queries in the order asked: the ids of each role, the times, and the cells that the answer repeats, by name."""

    ids: dict[str, list[Id]]
    times: list[float]
    shown: dict[str, Sequence[Any]]


def parse_time(text: str, model: FittedQueries) -> float:
    """A time in the unit of the log: a number, or a date as the log writes it."""
    values, good = model.schema.clock.convert(pl.Series([text]), "--time")
    if not good[0]:
        raise QueryError(explain("time", text))
    return float(values[0])


def as_id(text: str, model: FittedQueries, side: Side | None) -> Id:
    """The id that a model knows a node by."""
    return int(text) if INTEGER.match(text) and not is_known(text, model, side) else text


def is_known(name: Id, model: FittedQueries, side: Side | None) -> bool:
    """Whether a model knows a node on a side, or on either."""
    schema = model.schema
    sides = {
        "src": [schema.internal_src],
        "dst": [schema.internal_dst],
        None: [schema.internal_src, schema.internal_dst],
    }
    return any(internal([name])[0] in model.vocabulary for internal in sides[side])


def given_queries(
    given: Mapping[str, Sequence[str]], model: FittedQueries, time: float, side: Side | None = None
) -> QueryRows:
    """Queries from the command line: texts by role, all at one time."""
    ids = {role: [as_id(text, model, SIDES[role] or side) for text in texts] for role, texts in given.items()}
    times = [time] * len(next(iter(ids.values())))
    shown: dict[str, Sequence[Any]] = {_name(role, model): names for role, names in ids.items()}
    return QueryRows(ids, times, shown | {model.schema.time: times})


def read_queries(
    path: Path,
    roles: Sequence[str],
    model: FittedQueries,
    time: float,
    keep: Sequence[str] = (),
    side: Side | None = None,
) -> QueryRows:
    """Queries from a file with a column for each role and, optionally, for the time, which otherwise is `time`.

    Columns are found by the model's own names, then by the usual ones; without a header they are in this order.
    """
    from tapgnn.data.reading.formats import open_source
    from tapgnn.data.reading.typed_rows import convert_column

    usual = {cell.lower() for role in (*roles, "time") for cell in _names(role, model)}
    own = {*model.schema.read_columns, *model.schema.dropped}
    source = open_source(path, None, lambda cells: any(cell in own or cell.lower() in usual for cell in cells))
    columns = _columns(source, roles, model)
    named = [model.schema.id] if model.schema.id in source.columns and not source.by_position else []
    repeated = [name for name in dict.fromkeys([*named, *keep]) if name not in columns.values()]
    for name in repeated:
        if name not in source.columns:
            raise DataError(f"{source.name} has no column {name!r} to keep; {columns_of(source)}")
    ids: dict[str, list[Id]] = {role: [] for role in roles}
    times, cells = list[float](), dict[str, Any]()
    when, clock = columns.get("time"), model.schema.clock.convert
    for table in source.read([*columns.values(), *repeated]):
        if table.rejected:
            raise source.fault(*table.rejected[0])
        for role in roles:
            ids[role] += _nodes(source, table, columns[role], model, SIDES[role] or side)
        if when is None:
            times += [time] * len(table.places)
        else:
            times += convert_column(source, when, table.columns[when], table.places, clock, "time").tolist()
        for name in repeated if when is None else [*repeated, when]:
            cells.setdefault(name, []).extend(table.columns[name])
    if not times:
        raise DataError(f"{source.name} has no rows; at least one is needed")
    if not source.typed:
        cells = {name: typed_cells(name, pl.Series(column), model) for name, column in cells.items()}
    shown: dict[str, Sequence[Any]] = {name: cells[name] for name in named if name in repeated}
    shown |= {_name(role, model): ids[role] for role in roles}
    shown[model.schema.time] = times if when is None else cells[when]
    return QueryRows(ids, times, shown | {name: cells[name] for name in repeated})


def typed_cells(name: str, cells: pl.Series, model: FittedQueries) -> pl.Series:
    """A column of text as integers where all cells are, as numbers where the schema says so; otherwise as it is.

    An answer can then be joined to a table whose reader has found the same types.
    """
    if cells.dtype != pl.String:
        return cells
    known = without_missing(cells)
    if known.str.contains(INTEGER.pattern).all():
        kind: Any = pl.Int64
    elif model.schema.columns.get(name) == "number":
        kind = pl.Float64
    else:
        return cells
    values = known.cast(kind, strict=False)
    return cells if values.null_count() > known.null_count() else values


def warn_of_unknown(queries: QueryRows, model: FittedQueries, side: Side | None = None) -> None:
    """Mention nodes that the model has never seen, which may be typos."""
    asked = {role: dict.fromkeys(ids) for role, ids in queries.ids.items()}
    strange = (name for role, ids in asked.items() for name in ids if not is_known(name, model, SIDES[role] or side))
    new = list(dict.fromkeys(strange))
    if new:
        shown = ", ".join(map(repr, new[:5])) + (", ..." if len(new) > 5 else "")
        say(f"the model has never seen {shown}; the answer is for a new node")


def _name(role: str, model: FittedQueries) -> str:
    """The column of a role in an answer: as in the model's own table."""
    return "node" if role == "node" else str(getattr(model.schema, role))


def _names(role: str, model: FittedQueries) -> tuple[str, ...]:
    """The names by which the column of a role is found, the surest first."""
    if role == "node":
        return (*NODE, model.schema.src, model.schema.dst)
    return (getattr(model.schema, role), *ALIASES[role], *BUSINESS_ALIASES[role])


def _columns(source: TableSource, roles: Sequence[str], model: FittedQueries) -> dict[str, str]:
    """The column of each role, and of the time if there is one."""
    wanted = ",".join(_name(role, model) for role in (*roles, "time"))
    if source.by_position:
        if len(source.columns) not in (len(roles), len(roles) + 1):
            raise DataError(f"{source.name} has {len(source.columns)} columns and no header; expected {wanted}")
        return dict(zip((*roles, "time"), source.columns, strict=False))
    lower = {name.lower(): name for name in reversed(source.columns)}
    found: dict[str, str] = {}
    for role in (*roles, "time"):
        names = _names(role, model)
        exact = next((name for name in names if name in source.columns and name not in found.values()), None)
        column = exact or next((lower[name.lower()] for name in names if name.lower() in lower), None)
        if column is not None:
            found[role] = column
        elif role != "time":
            raise DataError(f"{source.name} has no column {_name(role, model)!r}; expected the columns {wanted}")
    return found


def _nodes(source: TableSource, table: RawTable, name: str, model: FittedQueries, side: Side | None) -> list[Id]:
    cells = list(table.columns[name])
    for cell, place in zip(cells, table.places, strict=True):
        if not is_id(cell):
            raise source.fault(place, f"{name} {shorten(cell)} is not an integer or a string")
    if source.typed:
        return cells
    known = {cell: as_id(cell, model, side) for cell in set(cells)}
    return [known[cell] for cell in cells]
