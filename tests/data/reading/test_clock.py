"""Clock: units, formats and zones agree with Python's datetime."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.data.reading.clock import UNITS, Clock

ZONES = ("UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
FORMATS = ("%d/%m/%Y %H:%M", "%Y-%m-%d %H:%M:%S.%f", "%m/%d/%y %I:%M %p", "%d %b %Y", "%Y%m%d", "%Y%m%dT%H%M%S%z")
MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2036, 12, 31))


def read(cells, clock):
    values, good = clock.convert(cells, "time")
    assert good.all()
    return values.tolist()


@given(
    moments=st.lists(MOMENTS, min_size=1, max_size=8), zone=st.sampled_from(ZONES), unit=st.sampled_from(list(UNITS))
)
def test_a_local_time_is_what_python_says_in_every_unit_and_spelling(moments, zone, unit):
    clock = Clock(unit, None, zone)
    local = [moment.replace(tzinfo=ZoneInfo(zone)) for moment in moments]
    expected = [(moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1) for moment in local]
    texts = pl.Series([moment.isoformat() for moment in moments])
    for cells in (texts, list(moments), pl.Series(moments, dtype=pl.Datetime("us"))):
        found = [value * UNITS[unit] for value in read(cells, clock)]
        assert found == pytest.approx(expected, rel=1e-14, abs=1e-6)


@given(moment=MOMENTS, hours=st.integers(-11, 13), zone=st.sampled_from(ZONES))
def test_an_offset_counts_more_than_the_zone(moment, hours, zone):
    aware = moment.replace(tzinfo=timezone(timedelta(hours=hours)), microsecond=0)
    assert read([aware.isoformat(), aware], Clock("s", None, zone)) == [aware.timestamp()] * 2
    assert read(pl.Series([aware.isoformat()]), Clock("s", None, zone)) == [aware.timestamp()]


@given(moments=st.lists(MOMENTS, min_size=1, max_size=5), format=st.sampled_from(FORMATS), zone=st.sampled_from(ZONES))
def test_a_format_is_that_of_strptime(moments, format, zone):
    texts = [moment.replace(tzinfo=UTC).strftime(format) for moment in moments]
    parsed = [datetime.strptime(text, format) for text in texts]
    expected = [(each if each.tzinfo else each.replace(tzinfo=ZoneInfo(zone))).timestamp() for each in parsed]
    assert read(pl.Series(texts), Clock("s", format, zone)) == pytest.approx(expected, abs=1e-6)


def test_numbers_are_times_as_they_stand_and_dates_are_converted_to_their_unit():
    assert read(pl.Series(["1709208000000", "2024-02-29T12:00:00Z"]), Clock("ms")) == [1709208000000.0] * 2
    assert read([1709208000000, "2024-02-29T12:00:00Z"], Clock("ms")) == [1709208000000.0] * 2
    assert read(pl.Series(["1.5", "1970-01-03"]), Clock("d")) == [1.5, 2.0]
    assert read(pl.Series([20240229]), Clock("s", "%Y%m%d")) == [1709164800.0]
    assert read(pl.Series([1_700_000_000_000_000_001]), Clock("ns")) == [1.7e18]


def test_a_time_that_does_not_fit_the_format_is_not_good():
    values, good = Clock("s", "%d/%m/%Y").convert(pl.Series(["31/12/2024", "12/31/2024", "soon", None]), "time")
    assert good.tolist() == [True, False, False, False]
    assert values[0] == datetime(2024, 12, 31, tzinfo=UTC).timestamp()
