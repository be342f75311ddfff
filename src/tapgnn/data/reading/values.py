"""Values: raw columns -> ids, labels and attributes, each with a mask of the good ones; `clock` reads times.

    ids         in text (CSV, TSV, edges, SNAP) an id written as a plain integer is an integer, any other is a string;
                the rule applies to each id separately, so that files, chunks and queries agree. Parquet and JSON keep
                their types. JODIE numbers users and items separately: user 7 becomes 'u7', item 7 'i7'
    labels      integers; true and false are 1 and 0; two texts, where the schema says which of them is 1; -1 if missing
    numbers     finite float64 numbers, NaN if missing
    categories  strings, None if missing
    booleans    1 or 0 for true or false (yes or no, 1 or 0), NaN if missing

A missing cell is null, empty, or in text one of NA, NaN, null and None in any case. A raw column is a series, or a list
of Python values; a bad value is masked, a column of the wrong type is an error.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tapgnn.data.reading.cells import Cells, as_text, is_unicode, without_missing
from tapgnn.errors import DataError
from tapgnn.events import UNLABELLED, Bools, Floats, Ints

INTEGER = re.compile(r"^(0|-?[1-9][0-9]{0,18})$")
LARGEST_LABEL = 2.0**53
_TRUTH = {"false": "0", "False": "0", "FALSE": "0", "true": "1", "True": "1", "TRUE": "1"}
_BOOLEAN = dict.fromkeys(("true", "t", "yes", "y", "1", "1.0"), 1.0)
_BOOLEAN |= dict.fromkeys(("false", "f", "no", "n", "0", "0.0"), 0.0)
# The usual words for a rare event, and for the common one.
POSITIVE = ("fraud", "fraudulent", "yes", "true", "1", "y", "t", "positive", "bad", "chargeback", "anomaly", "illicit")
NEGATIVE = ("legit", "legitimate", "no", "false", "0", "n", "f", "negative", "good", "ok", "normal", "genuine", "licit")


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
        return np.array([value if fine else None for value, fine in zip(raw, good, strict=True)], dtype=object), good
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
        return value != "" and is_unicode(value)
    return type(value) is int and -(2**63) <= value < 2**63


def _strings(names: pl.Series) -> NDArray[Any]:
    """Strings as objects, shared between equal ones: a log often repeats its ids and categories."""
    coded = pa.chunked_array(names.rechunk().to_arrow()).combine_chunks().dictionary_encode()
    distinct = np.empty(len(coded.dictionary) + 1, dtype=object)
    distinct[:-1] = [sys.intern(name) for name in coded.dictionary.to_pylist()]
    which: Ints = coded.indices.fill_null(len(distinct) - 1).to_numpy(zero_copy_only=False)
    return distinct[which]


def _plain(raw: Cells, what: str, rule: str) -> pl.Series:
    """A raw column as text, numbers or booleans (in a list of values, true and false are 1 and 0)."""
    cells = as_text([int(cell) if isinstance(cell, bool) else cell for cell in raw]) if isinstance(raw, list) else raw
    if cells.dtype in (pl.Categorical, pl.Enum):
        cells = cells.cast(pl.String)
    if not (cells.dtype in (pl.String, pl.Boolean, pl.Null) or cells.dtype.is_numeric()):
        raise DataError(f"{what} has type {cells.dtype}, but {rule}")
    return cells


def convert_labels(raw: Cells, what: str, values: tuple[str, str] | None = None) -> tuple[Ints, Bools]:
    """Integers [E], also from text, floats or booleans, -1 where missing; `values` are the texts of 0 and 1."""
    cells = _plain(raw, what, "labels must be integers; convert the column")
    if cells.dtype == pl.String:
        cells = without_missing(cells)
        cells = cells.replace(_TRUTH) if values is None else _truth_of(cells, values)
    numbers = cells.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    missing = _missing(raw, cells)
    good = (np.abs(numbers) < LARGEST_LABEL) & (np.floor(numbers) == numbers)
    return np.where(good, np.nan_to_num(numbers), UNLABELLED).astype(np.int64), good | missing


def _truth_of(cells: pl.Series, values: tuple[str, str]) -> pl.Series:
    """'0' and '1' for the two texts in any case, nothing numeric for any other; an empty text of 1 is any usual one."""
    low = cells.str.to_lowercase()
    positive = [values[1].lower()] if values[1] else [word for word in POSITIVE if word != values[0].lower()]
    found = dict.fromkeys(positive, "1") | {values[0].lower(): "0"}
    other = pl.when(low.is_null()).then(None).otherwise(pl.lit("?"))
    return pl.select(pl.when(low.is_in(list(found))).then(low.replace(found)).otherwise(other)).to_series()


def _missing(raw: Cells, cells: pl.Series) -> Bools:
    """[E] which cells are missing; a Python value that is no text, such as a list, is not missing but wrong."""
    absent = cells.is_null().to_numpy()
    if isinstance(raw, list):
        absent = absent & np.array([cell is None or isinstance(cell, str) or cell != cell for cell in raw], dtype=bool)
        absent &= np.array([not isinstance(cell, str) or is_unicode(cell) for cell in raw], dtype=bool)
    return absent | cells.is_nan().fill_null(False).to_numpy() if cells.dtype.is_float() else absent


def convert_numbers(raw: Cells, what: str) -> tuple[Floats, Bools]:
    """Numbers [E], also from text and booleans, NaN where missing."""
    cells = _plain(raw, what, "it must hold numbers; give each number its own column")
    if cells.dtype != pl.String:
        values = cells.cast(pl.Float64).fill_null(np.nan).to_numpy()
        return values, ~np.isinf(values)
    values = cells.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    good = np.isfinite(values)
    return (
        (values, good) if good.all() else (np.where(good, values, np.nan), good | _missing(raw, without_missing(cells)))
    )


def convert_categories(raw: Cells, what: str, typed: bool = True) -> tuple[NDArray[Any], Bools]:
    """Strings [E], None where missing; numbers and booleans as text. If not `typed`, NA and null are missing, too."""
    given = [str(cell).lower() if isinstance(cell, bool) else cell for cell in raw] if isinstance(raw, list) else raw
    cells = _plain(given, what, "a category must be a string or a number; convert the column")
    cells = (cells.fill_nan(None) if cells.dtype.is_float() else cells).cast(pl.String)
    cells = cells.replace("", None) if typed else without_missing(cells)
    return _strings(cells), _missing(raw, cells) | cells.is_not_null().to_numpy()


def convert_booleans(raw: Cells, what: str) -> tuple[Floats, Bools]:
    """1 or 0 [E] for true or false, NaN where missing."""
    cells = _plain(raw, what, "it must hold true or false; convert the column")
    if cells.dtype == pl.String:
        cells = without_missing(cells)
        known = cells.str.to_lowercase().replace_strict(_BOOLEAN, default=2.0, return_dtype=pl.Float64)
        known = known.zip_with(cells.is_not_null(), pl.Series([None], dtype=pl.Float64))
    else:
        known = cells.cast(pl.Float64)
    values = known.fill_null(np.nan).to_numpy()
    good = (values == 0) | (values == 1)
    return np.where(good, values, np.nan), good | _missing(raw, known if isinstance(raw, pl.Series) else cells)


def is_number(text: str) -> bool:
    """Whether a text is a number as written in files."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def explain(role: str, value: Any, kind: str = "") -> str:
    """Why a value is not valid for its role, or for the kind of its column."""
    if value is None or value == "":
        return f"{role} is empty"
    too_large = "finite and below 2^53, the limit of exact integers in float64"
    expected = {"label": "an integer", "time": too_large if is_number(str(value)) else "a number or an ISO date"}
    expected |= dict.fromkeys(("src", "dst"), "a 64-bit integer or a one-line string")
    kinds = {"number": "a finite number", "category": "a string or a number", "boolean": "true or false"}
    return f"{role} {shorten(value)} is not {kinds[kind] if kind else expected[role]}"


def shorten(value: Any) -> str:
    """A value for a message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:40]}...{text[-1]}"
