"""Columns: which column of a table is src, dst, time, label and id.

A role is assigned to the column that the caller names; otherwise by position if the file has no header, or by the usual
column names: those of event logs first, then those of business tables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tapgnn.data.reading.table_source import TableSource
from tapgnn.data.reading.values import is_number, shorten
from tapgnn.data.schema import SchemaRequest
from tapgnn.data.wording import COMMAND_LINE, OptionSpelling
from tapgnn.errors import DataError

ALIASES = {
    "src": ("src", "source", "from", "from_node_id", "from_id", "user", "user_id", "u", "sender"),
    "dst": ("dst", "destination", "target", "to", "to_node_id", "to_id", "item", "item_id", "i", "v", "receiver"),
    "time": ("time", "timestamp", "ts", "t", "date", "datetime", "unixtime"),
    "label": ("label", "state_label", "y"),
}
_ENDS = ("", "_id", "id", "_no", "_number")
BUSINESS_ALIASES = {
    "src": (
        *(f"{what}{end}" for what in ("payer", "customer", "account", "card", "client") for end in _ENDS),
        *("sender_id", "from_account", "source_account"),
    ),
    "dst": (
        *(f"{what}{end}" for what in ("payee", "merchant", "product", "page") for end in _ENDS),
        *("receiver_id", "to_account", "destination_account", "beneficiary", "shop", "shop_id", "seller", "seller_id"),
    ),
    "time": ("created_at", "event_time", "transaction_time", "occurred_at", "created", "date_time", "time_stamp"),
    "label": ("is_fraud", "isfraud", "fraud", "is_fraudulent", "chargeback", "class", "target"),
}
EVENT_IDS = ("id", "transaction_id", "trans_id", "txn_id", "tx_id", "event_id", "payment_id", "uuid", "guid")
FEATURE_NAME = re.compile(r"(f|feature_?)\d+|features?|weight|rating")


@dataclass(frozen=True)
class Roles:
    """The column of each role, the columns that could be a label, and those whose position makes them numbers."""

    src: str
    dst: str
    time: str
    labels: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


def is_header(cells: Sequence[str], wanted: SchemaRequest) -> bool:
    """Whether the first row is a header: it has no number or date, or it names the columns in question."""
    if not any(_is_number_or_date(cell) for cell in cells):
        return True
    requested = wanted.named
    if requested and all(name in cells for name in requested) and not all(name.isdecimal() for name in requested):
        return True
    return all(any(cell.lower() in _usual(role) for cell in cells) for role in ("src", "dst", "time"))


def _usual(role: str) -> tuple[str, ...]:
    return (*ALIASES[role], *BUSINESS_ALIASES[role])


def _is_number_or_date(text: str) -> bool:
    try:
        return is_number(text) or bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def find_roles(source: TableSource, wanted: SchemaRequest, wording: OptionSpelling = COMMAND_LINE) -> Roles:
    """The roles of the columns: as requested, otherwise by position without a header and by usual names with one."""
    if source.by_position:
        roles = _roles_by_position(source, wanted, wording)
    else:
        src, dst, time = (_column(source, role, wanted, wording) for role in ("src", "dst", "time"))
        taken = [name for name in (src, dst, time) if name]
        usual = [name for name in source.columns if name.lower() in _usual("label") and name not in taken]
        labels = [wanted.label] if wanted.label else usual
        roles = Roles(src, dst, time, tuple(labels), source.numbers)
    _check_names(source, [roles.src, roles.dst, roles.time, *filter(None, [wanted.label, wanted.id])], wanted)
    return roles


def _check_names(source: TableSource, roles: list[str], wanted: SchemaRequest) -> None:
    """Every column that is named must exist, and have one role only."""
    others = wanted.named[len(wanted.roles) :]
    for name in [*roles, *others]:
        if name not in source.columns:
            raise DataError(f"{source.name} has no column {name!r}; {columns_of(source)}")
        if [*roles, *others].count(name) > 1:
            raise DataError(f"{source.name}: column {name!r} was given two roles; give each role its own column")


def _column(source: TableSource, role: str, wanted: SchemaRequest, wording: OptionSpelling) -> str:
    found = getattr(wanted, role) or _by_name(source, role, wanted, wording)
    if not found:
        hint = "" if source.typed else " (or pass --no-header if the first line is an event)"
        raise DataError(
            f"{source.name}: no column has a usual name for {role}; {columns_of(source)}; "
            f"choose one with {wording.option(role)}{hint}"
        )
    return str(found)


def _by_name(source: TableSource, role: str, wanted: SchemaRequest, wording: OptionSpelling) -> str | None:
    low = [name.lower() for name in source.columns]
    others = wanted.named[len(wanted.roles) :]
    free = [name for name in source.columns if name not in others]
    for aliases in (ALIASES[role], BUSINESS_ALIASES[role]):
        # 'target' is a destination beside 'source', and a label in most other tables.
        known = [name for name in aliases if name != "target" or "source" in low]
        found = [name for name in free if name.lower() in known]
        if len(found) > 1:
            raise DataError(
                f"{source.name}: {' and '.join(map(repr, found))} could each be {role}; "
                f"choose one with {wording.option(role)}"
            )
        if found:
            return found[0]
    return next((name for name in free if role == "dst" and name.lower() == "target"), None)


def columns_of(source: TableSource) -> str:
    """The columns of a table, for a message."""
    shown = source.columns[:12] + ["..."] * (len(source.columns) > 12)
    return f"its columns are {', '.join(shorten(name)[1:-1] for name in shown)}"


def positional_names(source: TableSource, wanted: SchemaRequest) -> list[str]:
    """Names for the columns of a file without a header: those of their roles, or numbers where the caller uses them."""
    width, plain = len(source.columns), source.format not in ("edges", "snap")
    if any(name in source.columns for name in wanted.named) or width < 3 or (width > 4 and not plain):
        return source.columns
    if plain:
        return ["src", "dst", "time", "label", *(f"f{place}" for place in range(width - 4))][:width]
    return ["src", "dst", *(["weight"] if width == 4 else []), "time"]


def _roles_by_position(source: TableSource, wanted: SchemaRequest, wording: OptionSpelling) -> Roles:
    width, plain = len(source.columns), source.format not in ("edges", "snap")
    named = bool(wanted.src or wanted.dst or wanted.time)
    if not named and (width < 3 or (width > 4 and not plain)):
        expected = "src, dst, time[, label[, features...]]" if plain else "src dst [weight] time"
        options = [wording.option(name) for name in ("format", "src", "dst", "time")]
        raise DataError(
            f"{source.name} has {width} columns and no header; expected {expected}; "
            f"pass {options[0]}, or {', '.join(options[1:-1])} and {options[-1]} with the numbers of the columns"
        )
    places = source.columns
    time = places[min(2, width - 1)] if named or plain else places[-1]
    label = [places[3]] if plain and not named and width > 3 else []
    rest = [] if named else places[4:] if plain else places[2:-1]
    return Roles(
        wanted.src or places[0],
        wanted.dst or places[min(1, width - 1)],
        wanted.time or time,
        tuple([wanted.label] if wanted.label else label),
        tuple(rest),
    )
