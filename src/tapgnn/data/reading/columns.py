"""Columns: which column of a file has which role: src, dst, time, label or feature.

A role is assigned to the column that the caller names; otherwise by position if the file has no header, or by the usual
column names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tapgnn.data.reading.table_source import TableSource
from tapgnn.data.reading.values import is_number, shorten
from tapgnn.errors import DataError

ALIASES = {
    "src": ("src", "source", "from", "from_node_id", "from_id", "user", "user_id", "u", "sender"),
    "dst": ("dst", "destination", "target", "to", "to_node_id", "to_id", "item", "item_id", "i", "v", "receiver"),
    "time": ("time", "timestamp", "ts", "t", "date", "datetime", "unixtime"),
    "label": ("label", "state_label", "y"),
}
FEATURE_NAME = re.compile(r"(f|feature_?)\d+|features?|weight|rating")


@dataclass(frozen=True)
class RequestedColumns:
    """The columns that the caller names; None means to detect the column, an empty label means no label."""

    src: str | None = None
    dst: str | None = None
    time: str | None = None
    label: str | None = None
    features: Sequence[str] | None = None


@dataclass(frozen=True)
class ColumnRoles:
    """The column of each role."""

    src: str
    dst: str
    time: str
    label: str | None = None
    features: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Every column that is read."""
        return [self.src, self.dst, self.time, *([] if self.label is None else [self.label]), *self.features]


def is_header(cells: Sequence[str], wanted: RequestedColumns) -> bool:
    """Whether the first row is a header: it has no number or date, or it names the columns in question."""
    if not any(_is_number_or_date(cell) for cell in cells):
        return True
    named = (wanted.src, wanted.dst, wanted.time, wanted.label, *(wanted.features or ()))
    requested = [name for name in named if name]
    if requested and all(name in cells for name in requested) and not all(name.isdecimal() for name in requested):
        return True
    return all(any(cell.lower() in ALIASES[role] for cell in cells) for role in ("src", "dst", "time"))


def _is_number_or_date(text: str) -> bool:
    try:
        return is_number(text) or bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def find_roles(source: TableSource, wanted: RequestedColumns) -> ColumnRoles:
    """The roles of the columns: as requested, otherwise by position without a header and by usual names with one."""
    if source.by_position:
        roles = _roles_by_position(source, wanted)
    else:
        src, dst, time = (_column(source, role, getattr(wanted, role)) for role in ("src", "dst", "time"))
        label = (_by_name(source, "label") if wanted.label is None else wanted.label) or None
        taken = {src, dst, time, label}
        usual = [name for name in source.columns if FEATURE_NAME.fullmatch(name.lower()) and name not in taken]
        roles = ColumnRoles(src, dst, time, label, tuple(usual if wanted.features is None else wanted.features))
    for name in roles.columns:
        if name not in source.columns:
            raise DataError(f"{source.name} has no column {name!r}; {_columns_of(source)}")
        if roles.columns.count(name) > 1:
            raise DataError(f"{source.name}: column {name!r} was given two roles; give each role its own column")
    return roles


def _column(source: TableSource, role: str, requested: str | None) -> str:
    found = requested or _by_name(source, role)
    if found is None:
        hint = "" if source.typed else " (or pass --no-header if the first line is an event)"
        raise DataError(
            f"{source.name}: no column has a usual name for {role}; {_columns_of(source)}; "
            f"choose one with --{role}{hint}"
        )
    return found


def _by_name(source: TableSource, role: str) -> str | None:
    found = [name for name in source.columns if name.lower() in ALIASES[role]]
    if len(found) > 1:
        raise DataError(
            f"{source.name}: {' and '.join(map(repr, found))} could each be {role}; choose one with --{role}"
        )
    return found[0] if found else None


def _columns_of(source: TableSource) -> str:
    shown = source.columns[:12] + ["..."] * (len(source.columns) > 12)
    return f"its columns are {', '.join(shorten(name)[1:-1] for name in shown)}"


def _roles_by_position(source: TableSource, wanted: RequestedColumns) -> ColumnRoles:
    width, plain = len(source.columns), source.format not in ("edges", "snap")
    named = wanted.src or wanted.dst or wanted.time
    if not named and (width < 3 or (width > 4 and not plain)):
        expected = "src, dst, time[, label[, features...]]" if plain else "src dst [weight] time"
        raise DataError(
            f"{source.name} has {width} columns and no header; expected {expected}; "
            "pass --format, or --src, --dst and --time with the numbers of the columns"
        )
    time = "3" if named or plain else source.columns[-1]
    label = "4" if plain and not named and width > 3 else None
    rest = [] if named else source.columns[4:] if plain else source.columns[2:-1]
    return ColumnRoles(
        wanted.src or "1",
        wanted.dst or "2",
        wanted.time or time,
        (label if wanted.label is None else wanted.label) or None,
        tuple(rest if wanted.features is None else wanted.features),
    )
