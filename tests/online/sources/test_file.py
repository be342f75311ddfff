"""Files and streams: every line once and in order, whatever the file goes through."""

import io
import logging
import os
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapgnn.online.sources.file import FileSource, StreamSource

from .sink import ROWS, Sink, event, line

PAUSE = 0.005


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(0, 400), max_size=5), stops=st.sets(st.integers(0, 4)))
def test_a_file_that_grows_is_read_once_wherever_writing_and_reading_are_cut(cuts, stops, tmp_path_factory):
    path = tmp_path_factory.mktemp("tail") / "events.jsonl"
    text = "".join(line(number) for number in range(8)).encode()
    borders = sorted({min(cut, len(text)) for cut in cuts} | {len(text)})
    sink, written = Sink(), 0
    for place, border in enumerate(borders):
        with open(path, "ab") as stream:
            stream.write(text[written:border])
        written = border
        if place in stops:
            with sink.following(FileSource(path, pause=PAUSE)):
                sink.wait(text[:written].count(b"\n"))
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(8)
    assert sink.rows == [event(number) for number in range(8)]


def test_a_table_has_its_header_once_and_the_names_of_the_schema(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("src,dst,time\nann,7,2020-01-01\n")
    sink = Sink()
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(1)
        with open(path, "a") as stream:
            stream.write('"bob, jr",8,1577836801\n')
        sink.wait(2)
    assert sink.rows == [("ann", 7, 1577836800.0), ("bob, jr", 8, 1577836801.0)]
    with sink.following(FileSource(path, pause=PAUSE)):
        with open(path, "a") as stream:
            stream.write("cat,9,1577836802\n")
        sink.wait(3)
    assert sink.rows[2:] == [("cat", 9, 1577836802.0)]


def test_a_file_that_is_not_there_yet_is_waited_for(tmp_path):
    path, sink = tmp_path / "events.jsonl", Sink()
    with sink.following(FileSource(path, pause=PAUSE)):
        path.write_text(line(0))
        sink.wait(1)


@pytest.mark.parametrize("watched", [True, False])
def test_a_rotated_file_is_read_from_its_start_and_said_so(tmp_path, caplog, watched):
    path, sink = tmp_path / "events.jsonl", Sink()
    path.write_text(line(0) + line(1))
    caplog.set_level(logging.WARNING)

    def rotate():
        os.rename(path, tmp_path / "events.1")
        path.write_text(line(2) + line(3))

    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(2)
        if watched:
            rotate()
            sink.wait(4)
    if not watched:
        rotate()
        with sink.following(FileSource(path, pause=PAUSE)):
            sink.wait(4)
    assert sink.rows == [event(number) for number in range(4)]
    assert any("from its start" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("watched", [True, False])
def test_a_file_that_was_cut_is_read_anew(tmp_path, watched):
    path, sink = tmp_path / "events.jsonl", Sink()
    path.write_text(line(0) + line(1) + line(2))
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(3)
        if watched:
            path.write_text(line(5))
            sink.wait(4)
    if not watched:
        path.write_text(line(5))
        with sink.following(FileSource(path, pause=PAUSE)):
            sink.wait(4)
    assert sink.rows == [event(number) for number in (0, 1, 2, 5)]


def test_a_file_that_begins_with_the_same_event_but_is_shorter_was_cut(tmp_path, caplog):
    path, sink = tmp_path / "events.jsonl", Sink()
    path.write_text(line(0) + line(1) + line(2))
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(3)
    path.write_text(line(0))
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(4)
    assert sink.rows[3:] == [event(0)]
    assert any("was truncated" in record.getMessage() for record in caplog.records)


def test_a_bad_row_stops_a_source_and_names_it_unless_rows_may_be_skipped(tmp_path):
    path, sink = tmp_path / "events.jsonl", Sink()
    path.write_text(line(0) + '{"src": "a", "dst": "b", "time": "soon"}\n' + line(1))
    with sink.following(FileSource(path, pause=PAUSE)) as failure:
        said = str(failure.get(timeout=20))
    assert "events.jsonl line 2" in said
    assert "--skip-bad-rows" in said
    assert sink.rows == []
    with sink.following(FileSource(path, skip_bad_rows=True, pause=PAUSE)):
        sink.wait(2)
    assert sink.rows == [event(0), event(1)]


def test_standard_input_is_read_to_its_end_with_or_without_a_last_line_end():
    sink = Sink()
    StreamSource(io.BytesIO((line(0) + line(1)).encode().rstrip())).run(sink.deliver, {}, threading.Event(), ROWS)
    table = io.BytesIO(b"src,dst,time\nn2,m,2\n\nn3,m,3")
    StreamSource(table, "csv").run(sink.deliver, {}, threading.Event(), ROWS)
    assert sink.rows == [event(number) for number in range(4)]
    assert sink.offsets == {}


def test_a_pipe_that_stays_open_is_read_as_it_fills_and_left_when_told():
    reading, writing = os.pipe()
    sink = Sink()
    with (
        open(reading, "rb") as stream,
        open(writing, "wb", buffering=0) as pipe,
        sink.following(StreamSource(stream)),
    ):
        for number in range(3):
            pipe.write(line(number).encode())
            sink.wait(number + 1)
    assert sink.rows == [event(number) for number in range(3)]
