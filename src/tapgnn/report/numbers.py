"""Formatting of numbers, times and names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

UNKNOWN = "\N{EN DASH}"
_MINUS, _TIMES, _INFINITY = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}", "\N{INFINITY}"
_WORDS = {word: word.upper() for word in ("auc", "ap", "mrr", "roc", "f1", "id")}
_WORDS |= {"std": "SD", "hits10": "Hits@10", "valid": "validation"}
# 1980 to 2100: a log in Unix seconds. Smaller numbers are in a unit of their own.
_UNIX_FROM, _UNIX_TO = 315_532_800.0, 4_102_444_800.0


def number(value: Any) -> str:
    """A value with sensible precision: three significant digits below ten, and thousands separators.

    >>> [number(value) for value in (33720, 12.3456, 0.08312, 0.0000123, True, None)]
    ['33,720', '12.3', '0.0831', '1.23 × 10⁻⁵', 'yes', '–']
    """
    if value is None or (isinstance(value, Real) and math.isnan(value)):
        return UNKNOWN
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return minus(f"{int(value):,}")
    if isinstance(value, Real):
        return _real(float(value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {number(item)}" for key, item in value.items()) or UNKNOWN
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return ", ".join(number(item) for item in value) or UNKNOWN
    return str(value)


def _real(value: float) -> str:
    if math.isinf(value):
        return _INFINITY if value > 0 else _MINUS + _INFINITY
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-4:
        mantissa, exponent = f"{value:.2e}".split("e")
        power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return minus(f"{mantissa} {_TIMES} 10{power}")
    return minus(f"{value:,.0f}" if size >= 1000 else f"{value:.1f}" if size >= 10 else f"{value:.3g}")


def minus(text: str) -> str:
    """A number with a typographic minus sign."""
    return text.replace("-", _MINUS)


def decimal(value: float, digits: int = 3) -> str:
    """A number with fixed decimals, so that columns align.

    >>> decimal(0.03456), decimal(-0.5), decimal(float("nan"))
    ('0.035', '−0.500', '–')
    """
    return UNKNOWN if math.isnan(value) else minus(f"{value:.{digits}f}").replace("inf", _INFINITY)


def span(values: Iterable[float], digits: int = 3) -> str:
    """The range of some values.

    >>> span([0.91, 0.95]), span([0.5, 0.5001])
    ('0.910 to 0.950', '0.500')
    """
    held = list(values)
    low, high = decimal(min(held), digits), decimal(max(held), digits)
    return low if low == high else f"{low} to {high}"


def percent(share: Any) -> str:
    """A fraction as a percentage.

    >>> percent(0.2082), percent(None)
    ('20.8 %', '–')
    """
    return f"{100 * share:.1f} %" if isinstance(share, Real) and math.isfinite(share) else number(share)


def count(size: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "seed"), count(4000, "query")
    ('1 seed', '4,000 queries')
    """
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{size:,} {noun if size == 1 else plural}"


def label(key: str) -> str:
    """A key as a heading.

    >>> label("valid_auc"), label("message_links")
    ('Validation AUC', 'Message links')
    """
    text = " ".join(_WORDS.get(word, word) for word in str(key).replace("_", " ").split())
    return text[:1].upper() + text[1:]


def is_unix(times: ArrayLike) -> bool:
    """Whether times are Unix seconds: judged by the median, as a log may have a stray row at time 0, and the maximum.

    >>> is_unix([0.0, 1133377860.0, 1133048580.0]), is_unix([0.0, 2678373.0])
    (True, False)
    """
    values = np.asarray(times, dtype=np.float64)
    values = values[np.isfinite(values)]
    return bool(len(values)) and np.abs(values).max() <= _UNIX_TO and float(np.median(values)) >= _UNIX_FROM


def moment(time: float, unix: bool) -> str:
    """A time as date and minute if times are Unix seconds, otherwise as a number.

    >>> moment(1084585996.0, True), moment(12.5, False)
    ('2004-05-15 01:53', '12.5')
    """
    if not unix or not math.isfinite(time):
        return number(time)
    return str(np.datetime64(int(time), "s").astype("M8[m]")).replace("T", " ")
