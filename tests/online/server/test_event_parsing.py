"""Bodies of events: three formats, what is refused and why, and limits after decompression."""

import io
import json
import re

import numpy as np
import pyarrow as pa

from tapgnn.online.server.middleware import Limits
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
