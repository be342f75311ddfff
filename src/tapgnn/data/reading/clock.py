"""Clock: raw times -> numbers in the unit of a log, by unit, format and time zone.

A number is a time as it stands. A date or datetime is the time since 1970 in the unit: read by `format` (as Python's
strptime) where one is given, else as ISO 8601; without an offset it is in `zone`. As in Python, a local time that
exists twice is the first of the two, and one that a change of clocks skips is read with the offset before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tapgnn.data.reading.cells import Cells, as_text
from tapgnn.errors import ConfigError, DataError
from tapgnn.events import Bools, Floats

LARGEST_TIME = 2.0**53
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0, "d": 86_400.0}
# Dates are counted from 1970: those of a log are later than this many seconds.
EARLIEST_DATE = 1e8
_TICKS = {"s": (1, 1_000_000), "ms": (1, 1000), "us": (1, 1), "ns": (1000, 1)}
_TICKS |= {"min": (1, 60_000_000), "h": (1, 3_600_000_000), "d": (1, 86_400_000_000)}
_ISO = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M")
_ISO_WITH_OFFSET = ("%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z")
_DIRECTIVES = frozenset("YymdHIMSfpbBaAjz%")


@dataclass(frozen=True)
class Clock:
    """The unit of the times of a log, and how its dates are written."""

    unit: str = "s"
    format: str | None = None
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ConfigError(f"unknown unit of time {self.unit!r}; expected one of {', '.join(UNITS)}")
        try:
            ZoneInfo(self.zone)
        except (ValueError, OSError, KeyError, TypeError):
            raise ConfigError(f"unknown time zone {self.zone!r}; expected a name such as Europe/Paris") from None
        if self.format is not None:
            _check_format(self.format)

    @property
    def largest(self) -> float:
        """The times that are read lie below; nanoseconds since 1970 are rounded to the float64 next to them."""
        return 2.0**63 if self.unit == "ns" else LARGEST_TIME

    def convert(self, raw: Cells, what: str) -> tuple[Floats, Bools]:
        """Times [E] from numbers, dates, or either written as text, and which of them are good."""
        cells = as_text(raw) if isinstance(raw, list) else raw
        if cells.dtype.is_numeric() and self.format is not None and cells.dtype.is_integer():
            found = self._formatted(cells.cast(pl.String))
            values = found.zip_with(found.is_not_null(), cells.cast(pl.Float64))
        elif cells.dtype == pl.String:
            values = self._of_text(cells)
        elif cells.dtype.is_numeric():
            values = cells.cast(pl.Float64)
        elif cells.dtype in (pl.Date, pl.Datetime):
            values = self._of_moments(cells)
        else:
            raise DataError(f"{what} has type {cells.dtype}, but times must be numbers or dates; convert the column")
        numbers = values.fill_null(np.nan).to_numpy()
        return numbers, np.abs(numbers) < self.largest

    def _of_text(self, cells: pl.Series) -> pl.Series:
        readings: tuple[Callable[[pl.Series], pl.Series], ...] = (_number, self._iso)
        if self.format is not None:
            readings = (self._formatted, self._iso, _number)
        values, unread = readings[0](cells), cells.null_count()
        for read in readings[1:]:
            if values.null_count() > unread:
                values = values.zip_with(values.is_not_null(), read(cells))
        return values

    def _iso(self, text: pl.Series) -> pl.Series:
        tidy = text.str.replace(" ", "T", literal=True)
        values = self._of_moments(tidy.str.to_date("%Y-%m-%d", strict=False))
        for pattern in (*_ISO, *_ISO_WITH_OFFSET):
            if values.null_count() > text.null_count():
                moments = tidy.str.to_datetime(pattern, strict=False, time_unit="us")
                values = values.zip_with(values.is_not_null(), self._of_moments(moments))
        return values

    def _formatted(self, text: pl.Series) -> pl.Series:
        format = self.format or ""
        pattern = format.replace(".%f", "%.f").replace("%f", "%6f").replace("%z", "%#z")
        if re.search("%[HIMSf]", format):
            moments = text.str.to_datetime(pattern, strict=False, time_unit="us")
        else:
            moments = text.str.to_date(pattern, strict=False)
        return self._of_moments(moments)

    def _of_moments(self, moments: pl.Series) -> pl.Series:
        """The time since 1970 of dates and datetimes, those without an offset in the zone."""
        if moments.dtype == pl.Date or getattr(moments.dtype, "time_zone", None) is None:
            local = moments.cast(pl.Datetime("us")).dt.replace_time_zone(None)
            moments = local if self.zone == "UTC" else _utc(local, self.zone)
        ticks = moments.cast(pl.Datetime("us", getattr(moments.dtype, "time_zone", None))).dt.timestamp("us")
        factor, divisor = _TICKS[self.unit]
        return ticks.cast(pl.Float64) * factor / divisor

    def of_microseconds(self, ticks: NDArray[np.int64]) -> Floats:
        """Times [E] from microseconds since 1970."""
        factor, divisor = _TICKS[self.unit]
        return ticks.astype(np.float64) * factor / divisor


def _number(cells: pl.Series) -> pl.Series:
    return cells.cast(pl.Float64, strict=False)


def _utc(local: pl.Series, zone: str) -> pl.Series:
    """Local times in UTC; those that do not exist are rare and are computed one by one."""
    moments = local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null").dt.convert_time_zone("UTC")
    skipped = moments.is_null() & local.is_not_null()
    if skipped.any():
        gap = local.filter(skipped).to_list()
        found = [moment.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) for moment in gap]
        filled = pl.Series(found, dtype=pl.Datetime("us", "UTC"))
        moments = moments.scatter(skipped.arg_true(), filled)
    return moments


def _check_format(format: Any) -> None:
    """Refuse a format that does not tell a day, or with a directive that is not read here."""
    if not isinstance(format, str):
        raise ConfigError(f"the format of times must be a text such as '%d/%m/%Y %H:%M', not {format!r}")
    used = re.findall("%(.?)", format)
    odd = [mark for mark in used if mark not in _DIRECTIVES or not mark]
    if odd:
        known = ", ".join(f"%{mark}" for mark in sorted(_DIRECTIVES))
        raise ConfigError(f"the format of times {format!r} has %{odd[0]}; expected {known}")
    has = partial(set.__contains__, set(used))
    if not ((has("Y") or has("y")) and (has("j") or (has("d") and any(map(has, "mbB"))))):
        raise ConfigError(f"the format of times {format!r} gives no day; expected a year, a month and a day")


def is_date(time: float, unit: str) -> bool:
    """Whether a time is a date of our age, counted from 1970 in its unit, and no count from the start of a log."""
    return EARLIEST_DATE <= time * UNITS[unit] < 1e11


def looks_like(time: float, expected: float, unit: str) -> str | None:
    """The unit in which a time would be far nearer to an expected date, in `unit`, than it is; None for no such unit.

    >>> looks_like(1_772_366_400_000.0, 1_772_000_000.0, "s")
    'ms'
    """
    if not is_date(expected, unit):
        return None
    away = {name: abs(time * size / UNITS[unit] - expected) for name, size in UNITS.items()}
    nearest = min(away, key=away.__getitem__)
    return nearest if away[nearest] < away[unit] / 100 else None


def other_unit(times: Floats, unit: str) -> str | None:
    """That the latest of the times may be in another unit than most are; None where they may not."""
    usual, latest = float(np.median(times)), float(times.max())
    found = looks_like(latest, usual, unit)
    if found is None:
        return None
    count = int((times - usual > (latest - usual) / 2).sum())
    return (
        f"{count:,} of the times look like {found} where the others are in {unit}, such as {latest:.0f}; convert them: "
        "an event far in the future makes every event after it late"
    )
