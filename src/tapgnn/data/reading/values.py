"""Values: raw columns -> ids, times, labels and features, each with a mask of the good ones.

    ids    in text (CSV, TSV, edges, SNAP) an id written as a plain integer is an integer, any other is a string; the
           rule applies to each id separately, so that files, chunks and queries agree. Parquet and JSON keep their
           types. JODIE numbers users and items separately: user 7 becomes 'u7', item 7 'i7'
    time   a finite number below 2^53, or an ISO date or datetime, converted to seconds since 1970 (UTC unless it has
           an offset)
    label  an integer; true and false are 1 and 0
    f0...  finite float32 numbers

A raw column is a series, or a list of JSON values; a bad value is masked, a column of the wrong type is an error.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tapgnn.errors import DataError
from tapgnn.events import Floats, Ints

LARGEST_TIME = 2.0**53
INTEGER = re.compile(r"^(0|-?[1-9][0-9]{0,18})$")
_ISO = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z")

_TRUTH = {"false": "0", "False": "0", "FALSE": "0", "true": "1", "True": "1", "TRUE": "1"}

Bools = NDArray[np.bool_]


def convert_text_ids(raw: pl.Series, what: str) -> tuple[NDArray[Any], Bools]:
    """Plain integers as integers, anything else as a string."""
    good = (raw.is_not_null() & ~raw.str.contains("\n", literal=True).fill_null(False)).to_numpy()
    plain = raw.str.contains(INTEGER.pattern).fill_null(False)
    numbers = raw.zip_with(plain, pl.Series([None], dtype=pl.String)).cast(pl.Int64, strict=False)
    if not numbers.null_count():
        return numbers.to_numpy(), good
    values = _strings(raw)
    if plain.any():
        some = numbers.is_not_null().to_numpy()
        values[some] = numbers.drop_nulls().to_list()
    return values, good


def convert_typed_ids(raw: pl.Series | list[Any], what: str) -> tuple[NDArray[Any], Bools]:
    """Integers and strings unchanged; nothing else is an id."""
    if isinstance(raw, list):
        good = np.array([is_id(value) for value in raw], dtype=np.bool_)
        if good.all() and not any(isinstance(value, str) for value in raw):
            return np.array(raw, dtype=np.int64), good
        values = np.empty(len(raw), dtype=object)
        values[:] = [value if fine else None for value, fine in zip(raw, good, strict=True)]
        return values, good
    if raw.dtype.is_integer():
        numbers = raw.cast(pl.Int64, strict=False)
        return numbers.fill_null(0).to_numpy(), numbers.is_not_null().to_numpy()
    if raw.dtype not in (pl.String, pl.Categorical, pl.Enum):
        raise DataError(f"{what} has type {raw.dtype}, but ids must be integers or strings; convert the column")
    names = raw.cast(pl.String)
    return _strings(names), (names.is_not_null() & (names != "").fill_null(False)).to_numpy()


def is_id(value: Any) -> bool:
    """Whether a value can be an id: a string that UTF-8 can encode, or a 64-bit integer."""
    if isinstance(value, str):
        return value != "" and _is_unicode(value)
    return type(value) is int and -(2**63) <= value < 2**63


def _is_unicode(text: str) -> bool:
    """False for half a surrogate pair, which JSON can express but UTF-8 cannot."""
    return text.isascii() or not re.search("[\ud800-\udfff]", text)


def _strings(names: pl.Series) -> NDArray[Any]:
    """Strings as objects, shared between equal ones: a log often repeats its ids."""
    values = np.empty(len(names), dtype=object)
    values[:] = [None if name is None else sys.intern(name) for name in names.to_list()]
    return values


def convert_times(raw: pl.Series | list[Any], what: str) -> tuple[Floats, Bools]:
    """Seconds [E], from numbers, dates, or either written as text."""
    cells = _text(raw) if isinstance(raw, list) else raw
    if cells.dtype == pl.String:
        seconds = cells.cast(pl.Float64, strict=False)
        if seconds.null_count() > cells.null_count():
            seconds = seconds.zip_with(seconds.is_not_null(), _iso_seconds(cells))
    elif cells.dtype.is_numeric():
        seconds = cells.cast(pl.Float64)
    elif cells.dtype in (pl.Date, pl.Datetime):
        seconds = _seconds(cells)
    else:
        raise DataError(f"{what} has type {cells.dtype}, but times must be numbers or dates; convert the column")
    values = seconds.fill_null(np.nan).to_numpy()
    return values, np.abs(values) < LARGEST_TIME


def _iso_seconds(text: pl.Series) -> pl.Series:
    """Seconds since 1970 of ISO dates and datetimes, null for any other text."""
    tidy = text.str.replace(" ", "T", literal=True)
    seconds = _seconds(tidy.str.to_date("%Y-%m-%d", strict=False))
    for pattern in _ISO:
        moment = tidy.str.to_datetime(pattern, strict=False, time_unit="us")
        seconds = seconds.zip_with(seconds.is_not_null(), _seconds(moment))
    return seconds


def _seconds(moments: pl.Series) -> pl.Series:
    return moments.cast(pl.Datetime("us")).dt.timestamp("us") / 1e6


def convert_labels(raw: pl.Series | list[Any], what: str) -> tuple[Ints, Bools]:
    """Integers [E], also from text, floats or booleans."""
    cells = _text([int(cell) if isinstance(cell, bool) else cell for cell in raw]) if isinstance(raw, list) else raw
    if not (cells.dtype in (pl.String, pl.Boolean) or cells.dtype.is_numeric()):
        raise DataError(f"{what} has type {cells.dtype}, but labels must be integers; convert the column")
    if cells.dtype == pl.String:
        cells = cells.replace(_TRUTH)
    values = cells.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    good = (np.abs(values) < LARGEST_TIME) & (np.floor(values) == values)
    return np.where(good, values, 0).astype(np.int64), good


def convert_numbers(raw: pl.Series | list[Any], what: str) -> tuple[NDArray[np.float32], Bools]:
    """Features [E] in float32, also from text."""
    cells = _text(raw) if isinstance(raw, list) else raw
    if not (cells.dtype in (pl.String, pl.Boolean) or cells.dtype.is_numeric()):
        raise DataError(
            f"{what} has type {cells.dtype}, but features must be numbers; give each feature its own column"
        )
    values = cells.cast(pl.Float32, strict=False).fill_null(np.nan).to_numpy()
    return values, np.isfinite(values)


def _text(values: list[Any]) -> pl.Series:
    """JSON numbers and strings as text, null for anything else."""
    texts = (repr(value) if type(value) in (int, float) else value for value in values)
    return pl.Series([text if isinstance(text, str) and _is_unicode(text) else None for text in texts], dtype=pl.String)


def is_number(text: str) -> bool:
    """Whether a text is a number as written in files."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def explain(role: str, value: Any) -> str:
    """Why a value is not valid for its role."""
    if value is None or value == "":
        return f"{role} is empty"
    too_large = "finite and below 2^53, the limit of exact integers in float64"
    expected = {"label": "an integer", "time": too_large if is_number(str(value)) else "a number or an ISO date"}
    expected |= dict.fromkeys(("src", "dst"), "a 64-bit integer or a one-line string")
    return f"{role} {shorten(value)} is not {expected.get(role, 'a finite float32 number')}"


def shorten(value: Any) -> str:
    """A value for a message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:40]}...{text[-1]}"
