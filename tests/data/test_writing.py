"""Writers: what is written comes back exactly, and what a format cannot hold is refused."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Events
from tapgnn.data import read_events, write_events
from tapgnn.data.simulation.payment_stream import simulate, simulate_stream
from tapgnn.data.writing import write_stream
from tapgnn.errors import DataError
from tests.data.logs import same

SIZE = {"events": 2_000, "accounts": 200, "merchants": 30, "days": 9.0}


@st.composite
def logs(draw):
    """Events with ids of every kind, ties, labels and features."""
    size = draw(st.integers(1, 30))
    safe = st.text(string.printable.replace("\r", "").replace("\n", ""), min_size=1, max_size=5).filter(
        lambda name: name == name.strip(" \t") and not name.lstrip("-").isdecimal()
    )
    pool = draw(st.lists(st.one_of(safe, st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=6, unique=True))
    pick = st.lists(st.sampled_from(pool), min_size=size, max_size=size)
    times = st.floats(-(2.0**52), 2.0**52, allow_nan=False)
    width = draw(st.integers(0, 2))
    vector = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=width, max_size=width)
    return Events.from_arrays(
        draw(pick),
        draw(pick),
        draw(st.lists(times, min_size=size, max_size=size)),
        draw(st.lists(vector, min_size=size, max_size=size)) if width else None,
        draw(st.none() | st.lists(st.integers(-5, 5), min_size=size, max_size=size)),
    )


@given(events=logs(), ending=st.sampled_from([".csv", ".tsv", ".jsonl", ".csv.gz", ".jsonl.gz", ".parquet"]))
def test_what_is_written_comes_back_exactly(tmp_path_factory, events, ending):
    path = tmp_path_factory.mktemp("round") / f"log{ending}"
    if ending == ".parquet" and len({type(name) for name in events.vocabulary.ids}) > 1:
        with pytest.raises(DataError, match="a Parquet column has one type"):
            write_events(events, path)
    else:
        write_events(events, path)
        same(read_events(path), events)
    assert not [left for left in path.parent.iterdir() if left != path]


@pytest.mark.parametrize("name", ["7", "-12", " ann", "bob\t", "two\nlines", "a\rb", "nul\0", "", "\ud800"])
def test_an_id_that_text_cannot_hold_is_refused_not_changed(tmp_path, name):
    events = Events.from_arrays([name], ["other"], [1.0])
    with pytest.raises(DataError, match="cannot store the id"):
        write_events(events, tmp_path / "log.csv")
    assert list(tmp_path.iterdir()) == []
    if name not in ("", "\ud800"):
        write_events(events, tmp_path / "log.parquet")
        same(read_events(tmp_path / "log.parquet"), events)


def test_a_name_of_no_writable_format_is_refused(tmp_path):
    events = Events.from_arrays([1], [2], [3.0])
    for name in ("log.xlsx", "log", "log.parquet.gz"):
        with pytest.raises(DataError, match="the file name must end in"):
            write_events(events, tmp_path / name)
    with pytest.raises(DataError, match="cannot be written"):
        write_events(events, tmp_path / "missing" / "log.csv")


@pytest.mark.parametrize("ending", ["csv", "jsonl.gz", "parquet"])
def test_a_stream_is_written_piece_by_piece(ending, tmp_path):
    path = tmp_path / f"log.{ending}"
    pieces = write_stream(simulate_stream(**SIZE, chunk=300), path)
    next(pieces)
    assert not path.exists()
    assert len(list(pieces)) == 6
    same(read_events(path), simulate(**SIZE))


def test_a_stream_that_breaks_leaves_nothing(tmp_path):
    def broken():
        yield from simulate_stream(**SIZE, chunk=300)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(write_stream(broken(), tmp_path / "log.csv"))
    assert not list(tmp_path.iterdir())


def test_pieces_that_come_with_ids_of_another_kind_are_refused_where_the_format_holds_one(tmp_path):
    first = Events.from_arrays([1], [2], [1.0])
    second = Events.from_arrays([1], ["ann"], [2.0], vocabulary=first.vocabulary)
    list(write_stream([first, second], tmp_path / "log.jsonl"))
    same(read_events(tmp_path / "log.jsonl"), first.append(second))
    with pytest.raises(DataError, match="a Parquet column has one type"):
        list(write_stream([first, second], tmp_path / "log.parquet"))
    third = Events.from_arrays(["bob"], ["ann"], [2.0], vocabulary=first.vocabulary)
    with pytest.raises(DataError, match="id types"):
        list(write_stream([first, third], tmp_path / "log.parquet"))
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]
