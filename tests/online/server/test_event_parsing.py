"""Bodies of events: three formats, what is refused and why, and limits after decompression."""

import io
import json
import re
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from tapgnn.data.schema import Schema
from tapgnn.errors import EventError
from tapgnn.model import Config
from tapgnn.online.journal.event_rows import RowReader
from tapgnn.online.server.arrow_messages import check_messages
from tapgnn.online.server.event_parsing import EventParser
from tapgnn.online.server.http_errors import HTTPProblemError
from tapgnn.online.server.json_size import value_count
from tapgnn.online.server.limits import Limits
from tapgnn.online.server.service import ServerSettings
from tests.online.server.running import ARROW, JSON, NDJSON, as_arrow, as_lines, body_of, running, send


def test_three_forms_of_one_stream_end_in_the_same_state(model, rows, tmp_path):
    digests = []
    forms = [(JSON, lambda part: json.dumps(body_of(part)).encode()), (NDJSON, as_lines), (ARROW, as_arrow)]
    for kind, form in forms:
        with running(model, tmp_path / f"{len(digests)}.db") as server, server.http() as http:
            for start in range(0, 60, 20):
                answer = send(http, form(rows[start : start + 20]), kind)
                assert answer.status_code == 200, answer.text
                assert answer.json()["accepted"] == 20
            digests.append(server.engine.state_digest())
    assert digests[0] == digests[1] == digests[2]


BAD = {
    "not JSON": (JSON, b"{", 400),
    "not UTF-8": (JSON, b'{"events": [{"src": "\xff", "dst": "b", "time": 1}]}', 400),
    "deep": (JSON, b"[" * 100_000, 400),
    "deep object": (JSON, b'{"events":' * 5_000, 400),
    "no events": (JSON, b'{"events": []}', 422),
    "nothing": (JSON, b"", 400),
    "NaN": (JSON, b'{"events":[{"src":"a","dst":"b","time":NaN,"features":[0,0]}]}', 422),
    "infinity": (JSON, b'{"events":[{"src":"a","dst":"b","time":1e999,"features":[0,0]}]}', 422),
    "huge time": (JSON, b'{"events":[{"src":"a","dst":"b","time":1e300,"features":[0,0]}]}', 422),
    "far time": (JSON, b'{"events":[{"src":"a","dst":"b","time":-9e15,"features":[0,0]}]}', 422),
    "huge id": (JSON, b'{"events":[{"src":1' + b"0" * 400 + b',"dst":"b","time":2e6,"features":[0,0]}]}', 422),
    "huge feature": (JSON, b'{"events":[{"src":"a","dst":"b","time":2e6,"features":[1e300,0]}]}', 422),
    "truth value": (JSON, b'{"events":[{"src":true,"dst":"b","time":2e6,"features":[0,0]}]}', 422),
    "number as text": (JSON, b'{"events":[{"src":"a","dst":"b","time":"2","features":[0,0]}]}', 422),
    "empty id": (JSON, b'{"events":[{"src":"","dst":"b","time":2e6,"features":[0,0]}]}', 422),
    "half a surrogate": (JSON, b'{"events":[{"src":"\\ud800","dst":"b","time":2e6,"features":[0,0]}]}', 422),
    "unknown field": (JSON, b'{"events":[{"src":"a","dst":"b","time":2e6,"features":[0,0],"amount":3}]}', 422),
    "unknown envelope": (JSON, b'{"events":[{"src":"a","dst":"b","time":2e6,"features":[0,0]}],"x":1}', 422),
    "missing field": (JSON, b'{"events":[{"src":"a","time":2e6,"features":[0,0]}]}', 422),
    "wrong width": (JSON, b'{"events":[{"src":"a","dst":"b","time":2e6,"features":[0,0,0]}]}', 422),
    "10 MB id": (JSON, b'{"events":[{"src":"' + b"x" * 10_000_000 + b'","dst":"b","time":2e6,"features":[0,0]}]}', 422),
    "label of text": (NDJSON, b'{"src":1,"dst":2,"time":2e6,"features":[0,0],"label":"1"}', 422),
    "two on a line": (NDJSON, b'{"src":1,"dst":2,"time":2e6,"features":[0,0]},{"src":1,"dst":2,"time":2e6,'
                              b'"features":[0,0]}', 422),
    "line breaks out": (NDJSON, b'{"src":1,"dst":2,"time":2e6,"features":[0,0]}]}', 400),
    "late": (JSON, b'{"events":[{"src":"a","dst":"b","time":5,"features":[0,0]}]}', 409),
    "no Arrow": (ARROW, b"ARROW1" + b"\0" * 50, 400),
    "form": ("application/x-www-form-urlencoded", b"src=a", 415),
    "no type": ("", b"{}", 415),
}  # fmt: skip


def test_bad_input_is_refused_with_a_reason_and_changes_nothing(server, rows):
    arrow = {
        "null": as_arrow(rows[:2], src=["a", None]),
        "empty id": as_arrow(rows[:2], src=["a", ""]),
        "ids of floats": as_arrow(rows[:2], src=pa.array([1.5, 2.5])),
        "text time": as_arrow(rows[:2], time=["1", "2"]),
        "NaN time": as_arrow(rows[:2], time=pa.array([np.nan, 1.0])),
        "ragged": as_arrow(rows[:2], features=pa.array([[1.0], [1.0, 2.0]], pa.list_(pa.float32()))),
        "unknown": as_arrow(rows[:2], amount=[1, 2]),
        "cut": as_arrow(rows[:2])[:-60],
    }
    cases = {**BAD, **{f"Arrow, {name}": (ARROW, content, None) for name, content in arrow.items()}}
    before = server.engine.state_digest()
    with server.http() as http:
        for name, (kind, content, expected) in cases.items():
            for path in ("/v1/events", "/v1/score-then-observe"):
                answer = http.post(path, content=content, headers={"Content-Type": kind})
                assert answer.status_code in ((400, 422) if expected is None else (expected,)), (name, answer.text)
                assert answer.headers["content-type"] == "application/problem+json"
                assert 10 < len(answer.json()["detail"]) < 400, name
                assert not re.search(r"late=|[Ee]ngine|fit_", answer.json()["detail"]), "hints are in words of HTTP"
    assert server.engine.state_digest() == before


def test_a_small_body_that_unpacks_to_a_large_one_is_refused(model, rows, tmp_path):
    ids = np.zeros(50_000, dtype=np.int64)
    table = pa.table({"src": ids, "dst": ids, "time": np.full(50_000, rows[0][2])})
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    settings = ServerSettings(window=100, events=100_000, limits=Limits(body=100_000))
    assert len(sink.getvalue()) < 100_000
    with running(model, tmp_path / "state.db", settings) as server, server.http() as http:
        answer = send(http, sink.getvalue(), ARROW)
        assert answer.status_code == 413
        assert "decompresses" in answer.json()["detail"]


LIMIT = 1_000_000


def arrow_stream(*batches, **options):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return sink.getvalue()


def arrow_batch(size, **columns):
    plain = {"src": pa.array(["a"] * size), "dst": pa.array(["b"] * size), "time": pa.array(np.arange(float(size)))}
    return pa.RecordBatch.from_pydict({**plain, **columns})


def one_text(size, text):
    """A column that has one text in all rows, and holds it once."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, np.int32)), pa.array([text]))


def views(size, length):
    """Lists that all lie over the same values."""
    ends = np.zeros(size, np.int32), np.full(size, length, np.int32)
    return pa.ListViewArray.from_arrays(*map(pa.array, ends), pa.array(np.zeros(length, np.int8)))


def growing(steps):
    """Batches whose dictionary grows by one text each."""
    texts = ["x" * (LIMIT // 2), *map(str, range(steps))]
    for end in range(1, steps):
        ids = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1, np.int32)), pa.array(texts[: end + 1]))
        yield arrow_batch(1, kind=ids)


def inside(value):
    """A body of an event with a field that nobody knows."""
    return b'{"events":[{"src":"a","dst":"b","time":1.5,"x":' + value + b"}]}"


BOMBS = {
    "an id in every row": (ARROW, arrow_stream(arrow_batch(1_000, src=one_text(1_000, "x" * (LIMIT - 50_000))))),
    "a category in every row": (
        ARROW,
        arrow_stream(arrow_batch(1_000, kind=one_text(1_000, "x" * LIMIT)), compression="zstd"),
    ),
    "a compressed column": (
        ARROW,
        arrow_stream(arrow_batch(1_000, kind=pa.array(["x" * 99_000] * 1_000)), compression="zstd"),
    ),
    "a compressed column, LZ4": (
        ARROW,
        arrow_stream(arrow_batch(1_000, kind=pa.array(["x" * 99_000] * 1_000)), compression="lz4"),
    ),
    "lists over one another": (ARROW, arrow_stream(arrow_batch(1_000, features=views(1_000, LIMIT // 2)))),
    "lists of small numbers": (
        ARROW,
        arrow_stream(arrow_batch(1, features=pa.array([[0] * (LIMIT * 9 // 10)], pa.list_(pa.int8())))),
    ),
    "dictionaries that grow": (ARROW, arrow_stream(*growing(200), emit_dictionary_deltas=True)),
    "columns nobody knows": (ARROW, arrow_stream(arrow_batch(1, **{f"x{n}": pa.array([1]) for n in range(3_000)}))),
    "empty lists": (JSON, inside(b"[" + b"[]," * (LIMIT // 3) + b"1]")),
    "empty objects": (JSON, inside(b"[" + b"{}," * (LIMIT // 3) + b"1]")),
    "numbers": (JSON, inside(b"[" + b"1.5," * (LIMIT // 4) + b"1]")),
    "fields": (JSON, b'{"events":[{' + b",".join(b'"%d":0' % n for n in range(LIMIT // 12)) + b"}]}"),
    "small events": (JSON, b'{"events":[' + b'{"src":1,"dst":1,"time":1},' * (LIMIT // 27) + b"1]}"),
    "empty lines": (NDJSON, b"\n" * LIMIT),
    "digits": (JSON, inside(b"1" * LIMIT)),
    "nesting": (JSON, inside(b"[" * LIMIT)),
    "a text": (JSON, inside(b'"' + b"x" * LIMIT + b'"')),
    "escapes": (JSON, inside(b'"' + b"\\u1234" * (LIMIT // 6) + b'"')),
}  # fmt: skip


@pytest.fixture(scope="module")
def parser():
    plain = Schema("src", "dst", "time", None, columns={"f0": "number", "f1": "number"})
    table = Schema("src", "dst", "time", None, columns={"kind": "category"})
    config = Config.preset("adaptive", width=4, origin=0.0, span=1e6)
    return {
        name: EventParser(RowReader(schema, config), 1_000, LIMIT)
        for name, schema in {"plain": plain, "table": table}.items()
    }


@pytest.mark.parametrize("name", BOMBS)
def test_no_body_becomes_much_larger_than_a_body_may_be(parser, name):
    kind, body = BOMBS[name]
    assert len(body) < 1.1 * LIMIT
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        with pytest.raises((HTTPProblemError, EventError)) as refusal:
            parser["plain" if "lists of" in name or "lists over" in name else "table"].parse(body, kind)
        peak = tracemalloc.get_traced_memory()[1] + pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert peak < 8 * LIMIT, refusal.value


def test_columns_of_every_form_are_read(parser):
    texts = ["one", None, "", "two " * 200]
    ids = pa.array(["a", "b", "a", "c"])
    read = parser["table"].parse
    expected = read(arrow_stream(arrow_batch(4, src=ids, kind=pa.array(texts))), ARROW)
    forms = [pa.array(texts, kind) for kind in (pa.large_string(), pa.string_view())]
    forms += [pa.array(texts).dictionary_encode(), pa.array(["unused", *texts]).dictionary_encode().slice(1)]
    forms += [pa.array(["x" * 2_000, *texts], pa.string_view()).slice(1)]
    for kind in forms:
        for options in ({}, {"compression": "zstd"}, {"compression": "lz4"}):
            found = read(arrow_stream(arrow_batch(4, src=ids.dictionary_encode(), kind=kind), **options), ARROW)
            assert found.ids == expected.ids
            assert found.columns.keys() == expected.columns.keys()
            assert list(found.columns["kind"]) == list(expected.columns["kind"])
    cut = [arrow_batch(4, src=ids, kind=pa.array(texts)).slice(start, 2) for start in (0, 2)]
    assert list(read(arrow_stream(*cut), ARROW).columns["kind"]) == list(expected.columns["kind"])


def test_the_size_that_a_stream_declares_is_what_it_becomes():
    values = pa.array(np.arange(1_000.0))
    plain = arrow_stream(pa.RecordBatch.from_pydict({"time": values}))
    small = arrow_stream(pa.RecordBatch.from_pydict({"time": values}), compression="zstd")
    for body in (plain, small):
        assert check_messages(body, 1_000, 8_000 + 100).names == ["time"]
        with pytest.raises(HTTPProblemError, match="413"):
            check_messages(body, 999, 10_000)
        with pytest.raises(HTTPProblemError, match="413"):
            check_messages(body, 1_000, 7_900)


@pytest.mark.parametrize("piece", [1, 7, 1_000])
def test_values_are_counted_outside_of_texts_only(monkeypatch, piece):
    monkeypatch.setattr("tapgnn.online.server.json_size.PIECE", piece)
    for value in ({"a": [1, [], {}]}, ['"', "\\", '\\"', "a,[{b", '\\\\"'], [{"a,": ",,"}, None, 1.5, [[[]]]]):
        for plain in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
            text = json.loads(plain, object_pairs_hook=list)
            assert value_count(plain.encode()) == values_in(text), plain


def values_in(value):
    """Opening brackets and commas; an object comes as its pairs, which are tuples."""
    if isinstance(value, list):
        return 1 + max(0, len(value) - 1) + sum(map(values_in, value))
    return values_in(value[1]) if isinstance(value, tuple) else 0
