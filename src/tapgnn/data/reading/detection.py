"""Detection: the schema of a table from its first rows, and suggestions where the table may mean something else.

    boolean   every cell is true or false
    number    every cell is a number, or nearly every one: a stray word is then an error that names its row
    category  text whose values repeat: at most max(50, 5 % of the rows) different ones, 5 times each on average
    dropped   constants, empty columns, free text, dates, and integers that are ids: each with a suggestion

What the caller declares is never questioned. A suggestion is one line in the words of the interface in use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tapgnn.data.reading.cells import Cells, as_text, without_missing
from tapgnn.data.reading.clock import other_unit
from tapgnn.data.reading.columns import EVENT_IDS, FEATURE_NAME, Roles, find_roles
from tapgnn.data.reading.table_source import TableSource
from tapgnn.data.reading.values import NEGATIVE, POSITIVE, convert_labels, shorten
from tapgnn.data.schema import Kind, Schema, SchemaRequest
from tapgnn.data.wording import COMMAND_LINE, OptionSpelling
from tapgnn.errors import DataError
from tapgnn.events import Floats

FEW = 10  # rows, of which nothing is said to be constant
MOSTLY = 0.95  # of the cells that are numbers, for a column of numbers
_ID_NAME = re.compile(
    r"(^|[_\W])(id|code|mcc|zip|zipcode|postcode)$|(user|account|card|customer|device|merchant|item)id$", re.I
)
_ID_IN_CAPITALS = re.compile(r"[a-z0-9]I[Dd]$")
# Names of two ends that are the same kind of thing.
_SAME_KIND = re.compile(r"^(src|dst|source|target|from|to|sender|receiver|payer|payee|u|v|i)(_|$)|account", re.I)
_UNIX = {"ms": (1e11, 1e13, "milliseconds"), "us": (1e14, 1e16, "microseconds"), "ns": (1e17, 1e19, "nanoseconds")}


@dataclass(frozen=True)
class DetectedKind:
    """What the cells of one column are: a kind or None to drop it, and a suggestion or nothing."""

    kind: Kind | None
    suggestion: str = ""


def detect_schema(
    first: Mapping[str, Cells], source: TableSource, wanted: SchemaRequest, wording: OptionSpelling = COMMAND_LINE
) -> tuple[Schema, list[str]]:
    """The schema of a table from its first rows, by column, and suggestions."""
    roles, suggestions = find_roles(source, wanted, wording), list[str]()
    taken: set[str | None] = {roles.src, roles.dst, roles.time}
    label, values = _label(first, source, roles, wanted, wording, suggestions)
    identity = _event_id(first, source, wanted, taken | {label})
    declared, columns, dropped = wanted.kinds, dict[str, Kind](), list[str]()
    chosen = None if wanted.features is None else {*wanted.features, *declared}
    for name in source.columns:
        if name in taken or name in (label, identity):
            continue
        if name in declared:
            columns[name] = declared[name]
            continue
        left_out = name in wanted.drop or (chosen is not None and name not in chosen)
        if left_out or (wanted.label == "" and name in roles.labels):
            dropped.append(name)
            continue
        if name in roles.numbers:
            columns[name] = "number"
            continue
        found = find_kind(name, first[name], source.typed, wording, required=chosen is not None)
        if found.kind is None and chosen is not None:
            raise DataError(f"{source.name}: {found.suggestion}")
        if found.suggestion:
            suggestions.append(found.suggestion)
        elif name in roles.labels:
            suggestions.append(
                f"column {name!r} is named like a label; pass {wording.option('drop', name)} if it is not known when "
                "the event happens"
            )
        if found.kind is None:
            dropped.append(name)
        else:
            columns[name] = found.kind
    order = list(wanted.features or ())
    columns = {name: columns[name] for name in [*order, *(name for name in columns if name not in order)]}
    unit = wanted.time_unit or _unit(first[roles.time], wanted, wording, suggestions)
    if wanted.bipartite is None and _coincide(first, roles):
        suggestions.append(
            f"the ids of {roles.src!r} and {roles.dst!r} coincide without being the same things; "
            f"pass {wording.option('bipartite')} to tell them apart"
        )
    zone, format = wanted.time_zone or "UTC", wanted.time_format
    roles_of = (roles.src, roles.dst, roles.time, label, identity)
    schema = Schema(*roles_of, columns, tuple(dropped), unit, format, zone, bool(wanted.bipartite), label_values=values)
    return schema, suggestions


def find_kind(
    name: str, cells: Cells, typed: bool, wording: OptionSpelling = COMMAND_LINE, required: bool = False
) -> DetectedKind:
    """The kind of a column by its cells; `required` columns are dropped only if they can be nothing else."""
    known = _known(cells)
    if known is None:
        kind = cells.dtype if isinstance(cells, pl.Series) else "lists or objects"
        return DetectedKind(
            None, f"column {name!r} holds {kind}, which are not used; give each value a column of its own"
        )
    size, total, distinct = len(known), len(cells), known.n_unique()
    if not size:
        return DetectedKind("number" if required else None, f"column {name!r} is empty, and is not used")
    if distinct == 1 and size == total >= FEW and not (required or FEATURE_NAME.fullmatch(name.lower())):
        return DetectedKind(None, f"column {name!r} is {shorten(known[0])} in every row, and is not used")
    if _is_boolean(known):
        return DetectedKind("boolean")
    numbers = _numbers(known, typed and not FEATURE_NAME.fullmatch(name.lower()))
    share = 0.0 if numbers is None else 1 - numbers.null_count() / size
    repeated = distinct <= max(50, 0.05 * total) and size >= 5 * distinct
    if share >= MOSTLY or (share > 0 and FEATURE_NAME.fullmatch(name.lower())):
        whole = share == 1 and bool(numbers is not None and (numbers == numbers.floor()).all())
        if whole and (_ID_NAME.search(name) or _ID_IN_CAPITALS.search(name)) and not required:
            kinds = ("numeric", "drop") if repeated else ("categorical", "numeric")
            change = " or ".join(wording.option(kind, name) for kind in kinds)
            use = "used as a category" if repeated else "not used"
            return DetectedKind(
                "category" if repeated else None, f"column {name!r} looks like an id, and is {use}; pass {change}"
            )
        return DetectedKind("number")
    if repeated or required:
        return DetectedKind("category")
    example = shorten(known[0])
    return DetectedKind(
        None,
        f"column {name!r} is text that hardly repeats, such as {example}, and is not used; "
        f"pass {wording.option('categorical', name)} to use it",
    )


def _known(cells: Cells) -> pl.Series | None:
    """The cells that are not missing; None where they cannot be an attribute."""
    if isinstance(cells, list):
        if any(isinstance(cell, dict | list | tuple | set | bytes) for cell in cells):
            return None
        if all(isinstance(cell, bool) or cell is None for cell in cells):
            return pl.Series(cells, dtype=pl.Boolean).drop_nulls()
        if all(type(cell) in (int, float) or cell is None for cell in cells):
            return (
                pl.Series([None if cell is None else float(cell) for cell in cells], dtype=pl.Float64)
                .drop_nulls()
                .drop_nans()
            )
        texts = as_text([str(cell).lower() if isinstance(cell, bool) else cell for cell in cells])
        return without_missing(texts).drop_nulls()
    if cells.dtype.is_numeric():
        return cells.cast(pl.Float64).drop_nulls().drop_nans()
    if cells.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        return without_missing(cells.cast(pl.String)).drop_nulls()
    return cells.drop_nulls() if cells.dtype == pl.Boolean else None


def _is_boolean(known: pl.Series) -> bool:
    if known.dtype == pl.String:
        return bool(known.str.to_lowercase().is_in(["true", "false"]).all())
    return known.dtype == pl.Boolean


def _numbers(known: pl.Series, typed: bool) -> pl.Series | None:
    """The cells as numbers, null where they are none; None for text that is meant as text."""
    if known.dtype.is_numeric():
        return known
    return None if typed or known.dtype != pl.String else known.cast(pl.Float64, strict=False)


def _label(
    first: Mapping[str, Cells],
    source: TableSource,
    roles: Roles,
    wanted: SchemaRequest,
    wording: OptionSpelling,
    suggestions: list[str],
) -> tuple[str | None, tuple[str, str] | None]:
    """The column of the label and, where it is text, the texts of 0 and 1."""
    if wanted.label == "":
        return None, None
    left = {*wanted.drop, *wanted.kinds, *(wanted.features or ()), wanted.id}
    candidates = [name for name in roles.labels if name not in left or name == wanted.label]
    sure = [name for name in candidates if name.lower() in ("label", "state_label", "y", wanted.label)]
    if not sure and not source.by_position and not wanted.label:
        fitting = [name for name in candidates if _label_values(first[name]) is not None]
        suggestions += [
            f"column {name!r} is named like a label, but its values are neither integers nor two words one of which "
            f"says fraud, yes or true; pass {wording.option('label', name)} with such values to use it as one"
            for name in candidates
            if name not in fitting
        ]
        candidates = fitting
    elif sure:
        candidates = sure
    if len(candidates) > 1:
        raise DataError(
            f"{source.name}: {' and '.join(map(repr, candidates))} could each be label; "
            f"choose one with {wording.option('label')}"
        )
    if not candidates:
        return None, None
    values = _label_values(first[candidates[0]])
    if values is None:
        _refuse_words(first[candidates[0]], candidates[0], source)
    return candidates[0], values or None


def _texts(cells: Cells) -> pl.Series | None:
    known = _known(cells)
    return None if known is None or known.dtype != pl.String else known.str.to_lowercase()


def _label_values(cells: Cells) -> tuple[str, str] | tuple[()] | None:
    """The texts of 0 and 1; nothing for integers; None where the cells are no labels."""
    try:
        good = convert_labels(cells, "")[1]
    except DataError:
        return None
    if good.all():
        return ()
    texts = _texts(cells)
    if texts is None:
        return None
    words = sorted(texts.unique().to_list())
    rare = [word for word in words if word in POSITIVE]
    if len(words) == 2 and len(rare) == 1:
        return next(word for word in words if word not in rare), rare[0]
    if len(words) == 1:
        return ("no", rare[0]) if rare else (words[0], "") if words[0] in NEGATIVE else None
    return None


def _refuse_words(cells: Cells, name: str, source: TableSource) -> None:
    """An error for a label of two words that do not tell which is 1; other faults are found row by row."""
    texts = _texts(cells)
    words = [] if texts is None else sorted(texts.unique().to_list())
    if len(words) == 2 and not any(word.lstrip("-").replace(".", "").isdigit() for word in words):
        raise DataError(
            f"{source.name}: label {name!r} is {words[0]!r} or {words[1]!r}, and neither says which is 1; "
            f"write 1 and 0, or one of {', '.join(POSITIVE[:4])} for 1"
        )


def _event_id(
    first: Mapping[str, Cells], source: TableSource, wanted: SchemaRequest, taken: set[str | None]
) -> str | None:
    """The column that names the event: as requested, or by a usual name if its values are distinct."""
    if wanted.id is not None:
        return wanted.id or None
    left = taken | {*wanted.kinds, *wanted.drop, *(wanted.features or ())}
    for name in (name for name in source.columns if name.lower() in EVENT_IDS and name not in left):
        known = _known(first[name])
        if known is not None and len(known) == len(first[name]) == known.n_unique():
            return name
    return None


def _unit(cells: Cells, wanted: SchemaRequest, wording: OptionSpelling, suggestions: list[str]) -> str:
    """The unit of numeric times by their size since 1970; 's' if it cannot be told."""
    series = as_text(cells) if isinstance(cells, list) else cells
    if wanted.time_format is not None or not (series.dtype == pl.String or series.dtype.is_numeric()):
        return "s"
    times = series.cast(pl.Float64, strict=False).drop_nulls().to_numpy()
    if not len(times) or len(times) < MOSTLY * len(series):
        return "s"
    odd = next((said for unit in ("s", *_UNIX) if (said := other_unit(times, unit)) is not None), None)
    if odd is not None:
        suggestions.append(odd)
    for unit, (start, end, words) in _UNIX.items():
        if start <= times.min() and times.max() < end:
            suggestions.append(
                f"the times look like {words} since 1970, and dates are converted to that; "
                f"pass {wording.option('time_unit', 's')} if they are not"
            )
            return unit
    if _are_days(times):
        format = wording.option("time_format", "%Y%m%d")
        suggestions.append(f"the times look like days written as YYYYMMDD; pass {format} to read them so")
    return "s"


def _are_days(times: Floats) -> bool:
    """Whether numbers are dates such as 20240229."""
    if times.min() < 19000101 or times.max() > 21001231 or (times != np.floor(times)).any():
        return False
    days = pl.Series(times.astype(np.int64)).cast(pl.String)
    return days.str.to_date("%Y%m%d", strict=False).null_count() == 0


def _coincide(first: Mapping[str, Cells], roles: Roles) -> bool:
    """Whether both ends are integers that overlap, under names of two things, and are not active together."""
    if _SAME_KIND.search(roles.src) or _SAME_KIND.search(roles.dst):
        return False
    sides = []
    for name in (roles.src, roles.dst):
        cells = first[name]
        if isinstance(cells, list) and not all(type(cell) is int for cell in cells):
            return False
        series = pl.Series(cells, dtype=pl.Int64, strict=False) if isinstance(cells, list) else cells
        numbers = (
            series.cast(pl.Int64, strict=False) if series.dtype == pl.String or series.dtype.is_integer() else None
        )
        if numbers is None or numbers.null_count():
            return False
        sides.append(
            dict(zip(*(part.tolist() for part in np.unique(numbers.to_numpy(), return_counts=True)), strict=True))
        )
    shared = [name for name in sides[0] if name in sides[1]]
    if len(shared) < max(1, 0.05 * min(map(len, sides))):
        return False
    counts = np.log([[side[name] for name in shared] for side in sides])
    if len(shared) < 10 or not counts.std(axis=1).all():
        return True
    return abs(float(np.corrcoef(counts)[0, 1])) < 0.3
