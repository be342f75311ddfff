"""Values: ids keep their kind, and times of every spelling are seconds."""

import json

import polars as pl
import pytest

from tapgnn.data import read_events
from tests.data.logs import put, table


def test_an_id_is_an_integer_only_where_it_is_written_as_one(tmp_path):
    path = put(tmp_path, "ids.csv", "7,007,1\n-3,+3,2\n9223372036854775807,9223372036854775808,3\n0,-0,4\n1.0,1e3,5\n")
    ids = [(src, dst) for src, dst, *_ in table(read_events(path))]
    assert ids == [(7, "007"), (-3, "+3"), (2**63 - 1, str(2**63)), (0, "-0"), ("1.0", "1e3")]
    path = put(tmp_path, "ids.jsonl", '{"src": "7", "dst": 7, "time": 0}\n')
    assert table(read_events(path)) == [("7", 7, 0.0, None, ())]


TIMES = {
    "0": 0.0,
    "-1.5": -1.5,
    "1e3": 1000.0,
    "1970-01-02": 86_400.0,
    "1970-01-01T00:01": 60.0,
    "1970-01-01 00:00:01.25": 1.25,
    "1970-01-01T00:00:01Z": 1.0,
    "1970-01-01T02:00:00+02:00": 0.0,
    "1969-12-31T23:59:59.5": -0.5,
    "2024-02-29T12:00:00.123456": 1_709_208_000.123456,
}


@pytest.mark.parametrize("text", TIMES)
def test_times_are_numbers_or_iso_dates(tmp_path, text):
    path = put(tmp_path, "log.csv", f"src,dst,time\na,b,{text}\n")
    assert read_events(path).time.tolist() == [TIMES[text]]
    path = put(tmp_path, "log.jsonl", json.dumps({"src": "a", "dst": "b", "time": text}) + "\n")
    assert read_events(path).time.tolist() == [TIMES[text]]


def test_times_of_all_kinds_may_stand_in_one_column(tmp_path):
    path = put(tmp_path, "log.csv", "src,dst,time\n" + "".join(f"a,b,{text}\n" for text in TIMES))
    assert read_events(path).time.tolist() == sorted(TIMES.values())


@pytest.mark.parametrize("kind", [pl.Date, pl.Datetime("ms"), pl.Datetime("ns", "UTC"), pl.Int32, pl.Decimal(12, 2)])
def test_parquet_times_of_every_type_become_seconds(tmp_path, kind):
    time = pl.Series([0, 86_400]) if kind in (pl.Int32, pl.Decimal(12, 2)) else pl.Series([0, 1]).cast(pl.Date)
    pl.DataFrame({"src": [1, 2], "dst": [2, 1], "time": time.cast(kind)}).write_parquet(tmp_path / "log.parquet")
    assert read_events(tmp_path / "log.parquet").time.tolist() == [0.0, 86_400.0]
