"""Readers: every spelling of a log gives the same events, and an error or a report tells what the events do not."""

import gzip
import logging
import os
import tracemalloc

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Events, Vocabulary
from tapgnn.data import ReadReport, Schema, read_events, write_events
from tapgnn.data.reading import formats, text_blocks
from tapgnn.errors import DataError
from tapgnn.events import UNLABELLED
from tests.data.logs import put, same, table

EXPECTED = [("ann", "bob", 1.0, 0, (0.5, 2.0)), (7, "ann", 2.5, 1, (1.0, -3.0))]
SAME_EVENTS = {
    "any order.csv": "label,time,f0,dst,f1,src\n0,1,0.5,bob,2,ann\n1,2.5,1,ann,-3,7\n",
    "no header.csv": "ann,bob,1,0,0.5,2\n7,ann,2.5,1,1.0,-3\n",
    "aliases.csv": "From,To,Timestamp,state_label,feature_0,feature_1\nann,bob,1,0,0.5,2\n7,ann,2.5,1,1,-3\n",
    "blanks.csv": "src, dst, time, label, f0, f1\nann, bob, 1, 0, 0.5, 2\n 7,ann ,2.5,1,1,-3\n",
    "semicolons.csv": "src;dst;time;label;f0;f1\nann;bob;1;0;0.5;2\n7;ann;2.5;1;1;-3\n",
    "quotes.csv": 'src,dst,time,label,memo,f0,f1\n"ann",bob,"1",0,"two\nlines, a comma",0.5,2\n7,ann,2.5,1,"",1,-3\n',
    "windows.csv": b"\xef\xbb\xbfsrc,dst,time,label,f0,f1\r\nann,bob,1,0,0.5,2\r\n7,ann,2.5,1,1,-3\r\n",
    "no last newline.csv": "src,dst,time,label,f0,f1\nann,bob,1,0,0.5,2\n7,ann,2.5,1,1,-3",
    "blank lines.csv": "\nsrc,dst,time,label,f0,f1\n\nann,bob,1,0,0.5,2\n\n7,ann,2.5,1,1,-3\n\n",
    "unsorted.tsv": "src\tdst\ttime\tlabel\tf0\tf1\n7\tann\t2.5\t1\t1\t-3\nann\tbob\t1\t0\t0.5\t2\n",
    "packed.csv.gz": gzip.compress(b"src,dst,time,label,f0,f1\nann,bob,1,0,0.5,2\n7,ann,2.5,1,1,-3\n"),
    "objects.jsonl": '{"src":"ann","dst":"bob","time":1,"label":0,"f0":0.5,"f1":2}\n\n'
    '{"dst":"ann","src":7,"time":"2.5","label":true,"f0":1,"f1":-3}\n',
    "packed.jsonl.gz": gzip.compress(
        b'{"src":"ann","dst":"bob","time":1,"label":0,"f0":0.5,"f1":2}\n'
        b'{"dst":"ann","src":7,"time":2.5,"label":1,"f0":1,"f1":-3}\n'
    ),
}


@pytest.mark.parametrize("name", SAME_EVENTS)
def test_every_spelling_of_a_log_gives_the_same_events(tmp_path, name):
    events = read_events(put(tmp_path, name, SAME_EVENTS[name]))
    assert table(events) == EXPECTED


@given(
    rows=st.lists(st.tuples(st.sampled_from(["ann", 7, "bob"]), st.integers(0, 4), st.integers(0, 9)), min_size=1),
    known=st.lists(st.sampled_from(["bob", 3, "eve"]), unique=True),
    block=st.sampled_from([16, 1 << 20]),
)
def test_an_unsorted_file_is_sorted_and_numbered_like_its_rows(tmp_path_factory, rows, known, block):
    lines = [f"{src},{dst},{time},{place}" for place, (src, dst, time) in enumerate(rows)]
    path = put(tmp_path_factory.mktemp("rows"), "log.csv", "src,dst,time,f0\n" + "\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK", block)
        found = read_events(path, vocabulary=Vocabulary(known))
    src, dst, time = (list(column) for column in zip(*rows, strict=True))
    same(found, Events.from_arrays(src, dst, time, np.arange(len(rows)), vocabulary=Vocabulary(known)))


def test_a_column_is_held_hardly_more_than_once_while_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BATCH_ROWS", 1 << 12)
    number = np.arange(50_000)
    names = np.array([f"node {row}" for row in range(500)], dtype=object)
    columns = {f"f{place}": number % (place + 2) for place in range(6)}
    log = Events.from_arrays(names[number % 500], names[number % 377], number, labels=number % 2, columns=columns)
    write_events(log, tmp_path / "log.parquet")
    own = sum(column.nbytes for column in (log.src, log.dst, log.time, log.labels, *log.columns.values()))
    tracemalloc.start()
    try:
        read_events(tmp_path / "log.parquet")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.2 * own


def test_an_option_that_no_reader_has_is_refused(tmp_path):
    with pytest.raises(TypeError, match="no option 'sep'; it has format, schema, src"):
        read_events(put(tmp_path, "log.csv", "a,b,1\n"), sep=",")


def test_a_label_can_be_left_unread(tmp_path):
    named = put(tmp_path, "log.csv", "src,dst,time,label,f0\na,b,1,,2\n")
    plain = put(tmp_path, "plain.csv", "a,b,1,,2\n")
    for path in (named, plain):
        assert table(read_events(path, label="")) == [("a", "b", 1.0, None, (2.0,))]
        assert table(read_events(path)) == [("a", "b", 1.0, UNLABELLED, (2.0,))]


def test_parquet_keeps_its_types(tmp_path):
    frame = pl.DataFrame({"time": [1, 2], "dst": ["7", "ann"], "src": ["ann", "7"], "label": [True, False]})
    frame.with_columns(pl.col("dst").cast(pl.Categorical)).write_parquet(tmp_path / "log.parquet")
    assert table(read_events(tmp_path / "log.parquet")) == [("ann", "7", 1.0, 1, ()), ("7", "ann", 2.0, 0, ())]


def test_the_report_tells_what_the_events_do_not(tmp_path):
    report = ReadReport()
    read_events(put(tmp_path, "log.csv", "src,dst,time,memo\na,b,2,x\nb,c,1,y\n"), report=report)
    says = "column 'memo' is text that hardly repeats, such as 'x', and is not used; pass --categorical memo to use it"
    expected = ReadReport("csv", rows=2, sorted=False, schema=Schema(dropped=("memo",)), suggestions=[says])
    assert report == expected


def test_skipped_rows_are_counted_and_logged(tmp_path, caplog):
    text = "src,dst,time\na,b,1\na,b\nb,c,soon\n,c,2\nc,d,3\n"
    report = ReadReport()
    with caplog.at_level(logging.WARNING, logger="tapgnn.data"):
        events = read_events(put(tmp_path, "log.csv", text), skip_bad_rows=True, report=report)
    assert [row[:3] for row in table(events)] == [("a", "b", 1.0), ("c", "d", 3.0)]
    assert (report.rows, report.skipped) == (2, 3)
    assert report.first_skipped == "log.csv line 3: it has 2 fields, expected 3"
    assert "3 rows skipped" in caplog.text


def test_an_error_names_the_line_as_an_editor_shows_it(tmp_path):
    message = "payments.csv line 17: time 'soon' is not a number or an ISO date; fix the row or pass --skip-bad-rows"
    rows = ["src,dst,time"] + [f"a,b,{row}" for row in range(30)]
    rows[16] = "a,b,soon"
    with pytest.raises(DataError) as error:
        read_events(put(tmp_path, "payments.csv", "\n".join(rows)))
    assert str(error.value) == message


def test_the_line_is_right_behind_blank_lines_comments_and_fields_of_two_lines(tmp_path):
    with pytest.raises(DataError, match=r"^log.csv line 6: time 'soon'"):
        read_events(put(tmp_path, "log.csv", 'src,dst,time,memo\n\na,b,1,"one\ntwo"\n\na,b,soon,x\n'))
    with pytest.raises(DataError, match=r"^log.edges line 5: time 'soon'"):
        read_events(put(tmp_path, "log.edges", "% one\n\n1 2 3\n% two\n1 2 soon\n"))


@pytest.mark.parametrize("block", [5, 7, 64])
@pytest.mark.parametrize("name", SAME_EVENTS)
def test_where_a_block_ends_does_not_matter(tmp_path, monkeypatch, name, block):
    monkeypatch.setattr(text_blocks, "BLOCK", block)
    assert table(read_events(put(tmp_path, name, SAME_EVENTS[name]))) == EXPECTED


@pytest.mark.parametrize("name", ["fb-forum.edges", "fb-forum.networkrepository.edges"])
def test_both_copies_of_fb_forum_hold_the_same_events(data_folder, name):
    events = read_events(data_folder / name)
    assert (len(events), len(events.vocabulary)) == (33_720, 899)
    other = read_events(data_folder / "fb-forum.edges")
    np.testing.assert_array_equal(events.time, other.time)
    np.testing.assert_array_equal(events.src, other.src)


def test_ratings_of_bitcoinotc_are_its_feature(data_folder):
    events = read_events(data_folder / "soc-sign-bitcoinotc.csv")
    assert (len(events), list(events.columns)) == (35_592, ["feature"])
    assert set(np.unique(events.columns["feature"])) <= set(range(-10, 11))


@pytest.mark.parametrize("name", ["log.txt", "log.edges"])
@pytest.mark.parametrize("comment", ["", "# a remark\n"])
def test_a_date_with_a_blank_is_one_field_between_tabs(name, comment, tmp_path):
    path = put(tmp_path, name, f"{comment}1\t2\t2024-01-01 10:00:00\n2\t3\t2024-01-01 11:00:00\n")
    events = read_events(path)
    assert np.diff(events.time).tolist() == [3600.0]
    assert list(events.vocabulary.ids) == [1, 2, 3]


def test_truth_values_are_labels_in_every_format(tmp_path):
    text = put(tmp_path, "log.csv", "src,dst,time,label\na,b,1,true\nb,c,2,False\n")
    lines = put(
        tmp_path,
        "log.jsonl",
        '{"src":"a","dst":"b","time":1,"label":true}\n{"src":"b","dst":"c","time":2,"label":false}\n',
    )
    assert read_events(text).labels.tolist() == read_events(lines).labels.tolist() == [1, 0]


def test_a_label_that_only_some_rows_have_is_not_known_for_the_others(tmp_path):
    path = put(tmp_path, "log.jsonl", '{"src":1,"dst":2,"time":3,"label":1}\n{"src":1,"dst":2,"time":4}\n')
    assert read_events(path).labels.tolist() == [1, UNLABELLED]
    assert read_events(path, label="").labels is None


def test_a_pipe_is_refused_with_what_to_do(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match=r"is a pipe or a device, .* save its content to a file first"):
        read_events(tmp_path / "pipe.csv")
