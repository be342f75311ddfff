"""Cells: the raw cells of a column, a polars series or a list of Python values, and which of them are missing."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import numpy as np
import polars as pl

Cells = pl.Series | list[Any]
# A cell of text that says 'nothing', in lower case.
MISSING = ("", "na", "nan", "null", "none")
_MISSING_IN_PANDAS = ("NAType", "NaTType")


def plain_value(value: Any) -> Any:
    """A value without the types of numpy; None for NaN and for the missing values of pandas."""
    if isinstance(value, np.generic):
        value = value.item()
    missing = (isinstance(value, float) and value != value) or type(value).__name__ in _MISSING_IN_PANDAS
    return None if missing else value


def as_text(values: list[Any]) -> pl.Series:
    """Numbers, strings, booleans and dates as text, null for anything else."""
    return pl.Series([_spelled(value) for value in values], dtype=pl.String)


def _spelled(value: Any) -> str | None:
    if isinstance(value, str):
        return value if is_unicode(value) else None
    if type(value) in (int, float):
        return repr(value)
    return value.isoformat() if isinstance(value, date) else None


def without_missing(text: pl.Series) -> pl.Series:
    """Text with null in place of the words that stand for a missing cell."""
    short = text.str.len_bytes() <= 4
    if not short.any():
        return text
    absent = short & text.str.to_lowercase().is_in(list(MISSING))
    return text.zip_with(~absent.fill_null(True), pl.Series([None], dtype=pl.String))


def is_unicode(text: str) -> bool:
    """False for half a surrogate pair, which JSON can express but UTF-8 cannot."""
    return text.isascii() or not re.search("[\ud800-\udfff]", text)
