"""Columns: which column of a file plays which role, src, dst, time, label or a feature.

A role goes to the column that the caller names; without a header, to a place; else to the column with a usual name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tapgnn.data.reading.table_source import Source
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
class Wanted:
    """The columns that the caller names; None where they are to be found, and an empty label where there is none."""

    src: str | None = None
    dst: str | None = None
    time: str | None = None
    label: str | None = None
    features: Sequence[str] | None = None

    def names(self) -> list[str]:
        """Every column that the caller names."""
        return [name for name in (self.src, self.dst, self.time, self.label, *(self.features or ())) if name]


@dataclass(frozen=True)
class Layout:
    """Which column plays which role."""

    src: str
    dst: str
    time: str
    label: str | None = None
    features: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Every column that is read."""
        return [self.src, self.dst, self.time, *([] if self.label is None else [self.label]), *self.features]


def is_header(cells: Sequence[str], wanted: Wanted) -> bool:
    """Whether a first row names columns: it has no number or date in it, or it names what is looked for."""
    if not any(_is_number_or_date(cell) for cell in cells):
        return True
    asked = wanted.names()
    if asked and all(name in cells for name in asked) and not all(name.isdecimal() for name in asked):
        return True
    return all(any(cell.lower() in ALIASES[role] for cell in cells) for role in ("src", "dst", "time"))


def _is_number_or_date(text: str) -> bool:
    try:
        return is_number(text) or bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def find_layout(source: Source, wanted: Wanted) -> Layout:
    """The roles of the columns: as asked for, else by position where there is no header, else by their usual names."""
    if source.by_position:
        layout = _layout_by_position(source, wanted)
    else:
        src, dst, time = (_column(source, role, getattr(wanted, role)) for role in ("src", "dst", "time"))
        label = (_by_name(source, "label") if wanted.label is None else wanted.label) or None
        taken = {src, dst, time, label}
        usual = [name for name in source.columns if FEATURE_NAME.fullmatch(name.lower()) and name not in taken]
        layout = Layout(src, dst, time, label, tuple(usual if wanted.features is None else wanted.features))
    for name in layout.columns:
        if name not in source.columns:
            raise DataError(f"{source.name} has no column {name!r}; {_columns_of(source)}")
        if layout.columns.count(name) > 1:
            raise DataError(f"{source.name}: column {name!r} is asked for in two roles; give each role its own column")
    return layout


def _column(source: Source, role: str, asked: str | None) -> str:
    found = asked or _by_name(source, role)
    if found is None:
        hint = "" if source.typed else " (or --no-header if the first line is an event)"
        raise DataError(
            f"{source.name}: no column has a usual name of {role}; {_columns_of(source)}; "
            f"pass --{role} with one of them{hint}"
        )
    return found


def _by_name(source: Source, role: str) -> str | None:
    found = [name for name in source.columns if name.lower() in ALIASES[role]]
    if len(found) > 1:
        raise DataError(f"{source.name}: {' and '.join(map(repr, found))} could each be {role}; pass --{role} with one")
    return found[0] if found else None


def _columns_of(source: Source) -> str:
    shown = source.columns[:12] + ["..."] * (len(source.columns) > 12)
    return f"its columns are {', '.join(shorten(name)[1:-1] for name in shown)}"


def _layout_by_position(source: Source, wanted: Wanted) -> Layout:
    width, plain = len(source.columns), source.format not in ("edges", "snap")
    if wanted.src or wanted.dst or wanted.time:
        return Layout(
            wanted.src or "1", wanted.dst or "2", wanted.time or "3", wanted.label or None, tuple(wanted.features or ())
        )
    if width < 3 or (width > 4 and not plain):
        expected = "src, dst, time[, label[, features...]]" if plain else "src dst [weight] time"
        raise DataError(
            f"{source.name} has {width} columns and no header; expected {expected}; "
            "pass --format, or --src, --dst and --time with the numbers of the columns"
        )
    if plain:
        layout = Layout("1", "2", "3", "4" if width > 3 else None, tuple(source.columns[4:]))
    else:
        layout = Layout("1", "2", source.columns[-1], None, tuple(source.columns[2:-1]))
    return replace(
        layout,
        label=(layout.label if wanted.label is None else wanted.label) or None,
        features=layout.features if wanted.features is None else tuple(wanted.features),
    )
