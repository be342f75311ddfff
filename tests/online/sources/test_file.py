"""Files and streams: every line once and in order, whatever the file goes through."""

import io
import logging
import os
import threading
import zlib

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


def write(path, numbers, mode="w"):
    with open(path, mode) as stream:
        stream.write("".join(line(number) for number in numbers))


def cut_and_write_anew(path, numbers):
    """What copytruncate and a writer that goes on make of a file: the same inode with other content."""
    with open(path, "r+") as stream:
        stream.truncate(0)
        stream.write("".join(line(number) for number in numbers))


@pytest.mark.parametrize("watched", [True, False])
def test_a_file_that_was_cut_and_has_grown_past_its_old_size_is_read_from_its_start(tmp_path, watched):
    path, sink = tmp_path / "events.jsonl", Sink()
    write(path, range(50))
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(50)
        if watched:
            cut_and_write_anew(path, range(50, 150))
            sink.wait(150)
    if not watched:
        cut_and_write_anew(path, range(50, 150))
        with sink.following(FileSource(path, pause=PAUSE)):
            sink.wait(150)
    assert sink.rows == [event(number) for number in range(150)]


def test_a_file_that_was_cut_between_two_looks_is_read_from_its_start(tmp_path, caplog):
    """The reader is held up in the delivery, so that it never sees the file empty."""
    path, sink = tmp_path / "events.jsonl", Sink()
    write(path, range(10))
    deliver = sink.deliver

    def delivered(batch, reached):
        if not sink.rows:
            cut_and_write_anew(path, range(10, 40))
        deliver(batch, reached)

    sink.deliver = delivered
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(40)
    assert sink.rows == [event(number) for number in range(40)]
    assert any("from its start" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("watched", [True, False])
def test_a_rotated_file_that_begins_with_the_same_event_is_read_from_its_start(tmp_path, watched):
    path, sink = tmp_path / "events.jsonl", Sink()
    write(path, [0, *range(1, 10)])

    def rotate():
        path.rename(tmp_path / "events.1")
        write(path, [0, *range(10, 59)])

    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(10)
        if watched:
            rotate()
            sink.wait(60)
    if not watched:
        rotate()
        with sink.following(FileSource(path, pause=PAUSE)):
            sink.wait(60)
    assert sink.rows == [event(number) for number in (*range(10), 0, *range(10, 59))]


def test_the_rest_of_a_file_that_was_renamed_while_nothing_ran_is_read_first(tmp_path, caplog):
    path, sink = tmp_path / "events.jsonl", Sink()
    write(path, range(5))
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(5)
    write(path, range(5, 9), "a")
    path.rename(tmp_path / "events.1")
    write(path, range(9, 12))
    for _ in range(2):
        with sink.following(FileSource(path, pause=PAUSE)):
            sink.wait(12)
    write(tmp_path / "events.1", [99], "a")
    with sink.following(FileSource(path, pause=PAUSE)):
        write(path, [12], "a")
        sink.wait(13)
    assert sink.rows == [event(number) for number in range(13)], "later lines of the old file would be late"
    assert any("is now events.1: the rest of it is read first" in record.getMessage() for record in caplog.records)


def test_a_file_that_was_copied_to_its_place_is_gone_on_with(tmp_path):
    path, sink = tmp_path / "events.jsonl", Sink()
    write(path, range(500))
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(500)
    text = path.read_bytes()
    (tmp_path / "copy").write_bytes(text)
    path.unlink()
    (tmp_path / "copy").rename(path)
    with sink.following(FileSource(path, pause=PAUSE)):
        write(path, range(500, 600), "a")
        sink.wait(600)
    assert sink.rows == [event(number) for number in range(600)]


def test_an_offset_of_earlier_versions_is_gone_on_with(tmp_path):
    """It was kept under a hash of the first event, and only as a number of bytes."""
    path, sink = tmp_path / "events.jsonl", Sink()
    write(path, range(9))
    source = FileSource(path, pause=PAUSE)
    sink.offsets = {(source.name, zlib.crc32(line(0).encode().rstrip(b"\n"))): len(line(0) * 4)}
    with sink.following(source):
        sink.wait(5)
    assert sink.rows == [event(number) for number in range(4, 9)]
    with sink.following(FileSource(path, pause=PAUSE)):
        write(path, [9], "a")
        sink.wait(6)
    assert sink.rows[5:] == [event(9)]


def test_a_bad_line_is_named_by_its_number_after_a_restart(tmp_path):
    path, sink = tmp_path / "events.csv", Sink()
    path.write_text("src,dst,time\n" + "".join(f"n{n},m,{n}\n" for n in range(700)))
    with sink.following(FileSource(path, pause=PAUSE)):
        sink.wait(700)
    with open(path, "a") as stream:
        stream.write("n700,m,700\nn701,m,soon\n")
    with sink.following(FileSource(path, pause=PAUSE)) as failure:
        assert "events.csv line 703" in str(failure.get(timeout=20))
