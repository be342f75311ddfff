"""Cells of a column as they arrive -> arrays as a batch keeps them; a cell that does not fit is named by row and field.

ids         strings and integers
numbers     float64, NaN where missing
categories  strings, None where missing; a number or a boolean is the text that a file would have for it
booleans    1 or 0 in float64, NaN where missing
kept        of columns that no model takes: as they came, in the types of JSON, None where missing
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tapgnn.data.reading.cells import is_unicode, plain_value
from tapgnn.data.reading.values import shorten
from tapgnn.errors import EventError
from tapgnn.events import Floats, Ints
from tapgnn.vocabulary import Id

ID_LENGTH = TEXT_LENGTH = 1_000
# Beyond this, an encoded number might leave the range of float64.
NUMBER_LIMIT = 1e100


def numbered_ids(name: str, cells: Any) -> tuple[list[Id], Ints]:
    """The distinct ids of one side in order of appearance, each checked, and the place [E] of each cell among them."""
    given = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
    place: dict[Any, int] = {}
    try:
        numbers = np.array([place.setdefault(value, len(place)) for value in given], dtype=np.int64)
        # True equals 1 and 1.0 equals 1 as keys: types are looked at one by one.
        fine = {*map(type, given)} <= {int, str}
    except TypeError:
        fine = False
    if not fine:
        plain = [_plain_id(name, value, row) for row, value in enumerate(given)]
        place = {}
        numbers = np.array([place.setdefault(value, len(place)) for value in plain], dtype=np.int64)
    for id, number in place.items():
        fault = id_fault(id)
        if fault is not None:
            row = int(np.flatnonzero(numbers == number)[0])
            raise EventError(f"row {row}: {name} {fault}; send a short name or a hash of it")
    return list(place), numbers


def _plain_id(name: str, value: Any, row: int) -> Id:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    if value is None:
        raise EventError(f"row {row}: {name!r} is missing; an event has both ends")
    raise EventError(f"row {row}: {name} {shown(value)} is neither a string nor an integer; convert it first")


def id_fault(name: Id) -> str | None:
    if not isinstance(name, str):
        return "is an integer of more than 512 bits" if name.bit_length() > 512 else None
    if len(name) > ID_LENGTH:
        return f"{name[:40]!r}... is longer than {ID_LENGTH:,} characters"
    return None if is_unicode(name) else f"{name[:40]!r} is not valid Unicode"


def _numbers(name: str, cells: Any) -> Floats:
    """Numbers [E], NaN where missing."""
    values = as_cells(name, cells)
    if not holds_only(values, (int, float, type(None)), "iuf"):
        values = [_plain_number(name, value, row) for row, value in enumerate(values)]
    numbers = to_floats(name, values)
    bad = np.flatnonzero(np.abs(numbers) > NUMBER_LIMIT)
    if len(bad):
        raise EventError(
            f"row {bad[0]}: {name} {shown(values[bad[0]])} is too large; expected a number up to {NUMBER_LIMIT:g}"
        )
    # One NaN stands for a gap, whatever bits came.
    numbers[np.isnan(numbers)] = np.nan
    return numbers


def to_floats(name: str, values: Any) -> Floats:
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:
        row = next(row for row, value in enumerate(values) if isinstance(value, int) and abs(value) > 2**1000)
        raise EventError(f"row {row}: {name} is too large; expected a finite number") from None


def _plain_number(name: str, value: Any, row: int) -> float | int | None:
    plain = plain_value(value)
    if type(plain) in (int, float, type(None)):
        return plain  # type: ignore[no-any-return]
    if type(plain).__name__ == "Decimal":
        return float(plain)
    raise EventError(f"row {row}: {name} {shown(plain)} is not a number; send a number, or null where it is missing")


def _booleans(name: str, cells: Any) -> Floats:
    """1 or 0 [E], NaN where missing."""
    values = as_cells(name, cells)
    if not holds_only(values, (bool, type(None)), "b"):
        values = list(map(plain_value, values))
        for row, value in enumerate(values):
            if value is not None and not (isinstance(value, int | float) and value in (0, 1)):
                raise EventError(f"row {row}: {name} {shown(value)} is not true or false, or null where it is missing")
    numbers = np.array(values, dtype=np.float64)
    numbers[np.isnan(numbers)] = np.nan
    return numbers


def _texts(name: str, cells: Any) -> NDArray[Any]:
    """Texts [E], None where missing; a number or a boolean is the text that a file would have for it."""
    values = as_cells(name, cells)
    given = values.tolist() if isinstance(values, np.ndarray) else values
    if not {*map(type, given)} <= {str, type(None)}:
        given = [_plain_text(name, value, row) for row, value in enumerate(given)]
    for text in set(given):
        if text is not None and (not text or len(text) > TEXT_LENGTH or not is_unicode(text)):
            if not text:
                given = [value or None for value in given]
                continue
            fault = "is longer than 1,000 characters" if len(text) > TEXT_LENGTH else "is not valid Unicode"
            raise EventError(f"row {given.index(text)}: {name} {shown(text)} {fault}; shorten or fix it")
    found = np.empty(len(given), dtype=object)
    found[:] = given
    return found


def _plain_text(name: str, value: Any, row: int) -> str | None:
    plain = plain_value(value)
    if plain is None:
        return None
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, str):
        return str(plain)
    if type(plain) in (int, float) and abs(plain) < 2**63:
        return repr(plain)
    raise EventError(f"row {row}: {name} {shown(plain)} is not a string or a number; send one, or null if missing")


def kept_cells(cells: Any) -> list[Any]:
    """Cells [E] of any kind as JSON has them, None where missing; dates are ISO texts."""
    given = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
    return given if {*map(type, given)} <= {str, int, bool, type(None)} else list(map(_kept_cell, given))


def _kept_cell(value: Any) -> Any:
    plain = plain_value(value)
    if plain is None or isinstance(plain, (str, int, float)):
        return plain
    if isinstance(plain, (Mapping, list, tuple)):
        return json.loads(json.dumps(plain, default=str))
    return plain.isoformat() if hasattr(plain, "isoformat") else str(plain)


CONVERT: dict[str, Callable[[str, Any], NDArray[Any]]] = {
    "number": _numbers,
    "category": _texts,
    "boolean": _booleans,
}


def is_missing(column: NDArray[Any]) -> bool:
    """Whether a column has no value at all."""
    if column.dtype == object:
        return not any(cell is not None for cell in column.tolist())
    return bool(np.isnan(column[0])) and bool(np.isnan(column).all())


def holds_only(values: Any, kinds: tuple[type, ...], letters: str) -> bool:
    """Whether cells are of these types only."""
    if isinstance(values, np.ndarray):
        return values.dtype.kind in letters
    return {*map(type, values)} <= set(kinds)


def as_cells(name: str, cells: Any) -> Any:
    """A column as a list or an array [E]."""
    if isinstance(cells, list):
        return cells
    if isinstance(cells, (str, bytes, Mapping)) or not isinstance(cells, Iterable):
        raise EventError(f"{name} is {shown(cells)}; expected one value per event")
    if isinstance(cells, pl.Series):
        return cells.to_list()
    if hasattr(cells, "to_numpy"):
        cells = cells.to_numpy()
    if isinstance(cells, np.ndarray):
        if cells.ndim != 1:
            raise EventError(f"{name} has shape {cells.shape}; expected one value per event")
        return cells.tolist() if cells.dtype.kind in "OU" else cells
    return list(cells)


def sized_cells(name: str, cells: Any, size: int) -> Any:
    """A column that must have one cell per event."""
    table = name == "features" and isinstance(cells, np.ndarray) and cells.ndim == 2
    values = cells if table else as_cells(name, cells)
    if len(values) != size:
        raise EventError(f"{name} has {len(values)} values, but there are {size} times; columns must be equally long")
    return values


def shown(value: Any) -> str:
    """A cell for a message."""
    return shorten(value.item() if isinstance(value, np.generic) else value)
