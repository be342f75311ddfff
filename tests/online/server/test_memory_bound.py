"""What a request can take of the memory of a server: no request more than the documentation says, nor many at once.

A real server in a process of its own; the peak of its resident memory is read from the kernel after each request.
"""

import io
import json
import re
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import psutil
import pyarrow as pa
import pytest

from tapgnn.online import Client
from tests.cli.command import started
from tests.online.server.running import ARROW, JSON, NDJSON

MB = 1_000_000
DOCS = Path(__file__).parents[3] / "docs" / "server.md"
ROWS, LIMIT = 10_000, 16 * MB


def documented(pattern):
    """A number of megabytes that the documentation promises."""
    return int(re.search(pattern, " ".join(DOCS.read_text().split()))[1].replace(",", "")) * MB


def stream(table, codec="zstd"):
    """A table as a compressed stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as out:
        out.write_table(table)
    return sink.getvalue()


def long_ids(length=750):
    """As many long ids as decompress to the limit."""
    names = [f"{number:07d}".ljust(length, "x") for number in range(ROWS)]
    times = pa.array(np.full(ROWS, 2e9))
    features = pa.array([[0.0, 0.0]] * ROWS, pa.list_(pa.float32()))
    return pa.table({"src": names, "dst": names[::-1], "time": times, "features": features})


def wide(columns=30_000):
    return pa.table({f"c{number}": [1.0] for number in range(columns)})


def repeated_text():
    return pa.table(
        {"src": pa.array(["x" * 1_000] * ROWS).dictionary_encode(), "dst": ["b"] * ROWS, "time": [2e9] * ROWS}
    )


def numbers(count):
    return b"[" + b"1," * count + b"1]"


def event(**changes):
    return {"src": "a", "dst": "b", "time": 2e9, "features": [0.0, 0.0], **changes}


def hostile():
    """Requests by name: path, content type, body. None is taken in, so that none may leave anything behind."""
    many = LIMIT // 2 - 100
    yield "numbers", "/v1/events", JSON, b'{"events": ' + numbers(many) + b"}"
    yield "nested lists", "/v1/events", JSON, b'{"events": ' + b"[" * many + b"}"
    yield "empty objects", "/v1/classify", JSON, b'{"events": [' + b"{}," * (LIMIT // 3 - 20) + b"{}]}"
    yield "unknown fields", "/v1/classify", JSON, json.dumps({"events": [{str(n): 1 for n in range(900_000)}]}).encode()
    yield "one long text", "/v1/classify", JSON, json.dumps({"events": [event(src="x" * (LIMIT - 200))]}).encode()
    yield "escapes", "/v1/classify", JSON, b'{"events": "' + b"\\u0041" * (LIMIT // 6 - 10) + b'"}'
    yield "lines", "/v1/classify", NDJSON, b"{}\n" * (LIMIT // 3)
    yield "long ids", "/v1/classify", JSON, json.dumps({"events": [event(src="y" * 1_000)] * 10_000}).encode()
    yield "pairs", "/v1/score", JSON, json.dumps({"pairs": [{"src": "z" * 1_000, "dst": "b"}] * 10_000}).encode()
    yield "too many pairs", "/v1/score", JSON, b'{"pairs": ' + numbers(many) + b"}"
    yield "nodes", "/v1/embed", JSON, json.dumps({"nodes": [f"n{n}" for n in range(10_000)]}).encode()
    yield (
        "candidates",
        "/v1/rank",
        JSON,
        json.dumps({"src": "a", "k": 10_000, "candidates": list(range(10_000))}).encode(),
    )
    yield "node", "/v1/node", JSON, json.dumps({"node": "x" * (LIMIT - 100)}).encode()
    yield "Arrow ids", "/v1/classify", ARROW, stream(long_ids())
    yield "Arrow ids, too long", "/v1/classify", ARROW, stream(long_ids(1_500))
    yield "Arrow columns", "/v1/classify", ARROW, stream(wide())
    yield "Arrow dictionary", "/v1/classify", ARROW, stream(repeated_text())
    yield (
        "Arrow lie",
        "/v1/classify",
        ARROW,
        stream(long_ids()).replace(struct.pack("<q", 8 * ROWS), struct.pack("<q", 2**40)),
    )
    yield "no Arrow", "/v1/classify", ARROW, b"\xff" * (LIMIT - 1)


class Watched:
    """A server, and what its memory rose to beyond what it was at first."""

    def __init__(self, process, url):
        self.url, self._pid = url, process.pid
        self._first = psutil.Process(process.pid).memory_info().rss

    def peak_of(self, work):
        """By how much the memory is more than at first, at most, while something is done."""
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")
        work()
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self._pid}/status").read_text())
        return int(peak[1]) * 1024 - self._first


@pytest.fixture(scope="module")
def watched(model, rows, tmp_path_factory):
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("the peak of the memory of a process is read from /proc, which is not here")
    journal = tmp_path_factory.mktemp("memory") / "state.db"
    process = started("serve", model, "--journal", journal, "--port", 0, "--late", "merge", "--log-level", "error")
    url = process.stdout.readline().split()[-1]
    with Client(url) as client:
        client.wait_until_ready(600)
        client.observe(rows[:50])
        client.score([("a1", "m1")])
    yield Watched(process, url)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "Traceback" not in said


def test_heads_and_tiny_pieces_are_bounded(watched):
    bound = documented(r"raises the memory of the server by at most ([\d,]+) MB")
    place = urlsplit(watched.url)

    def heads():
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            try:
                for number in range(2_000):
                    connection.sendall(b"X-%d: " % number + b"y" * 50_000 + b"\r\n")
            except OSError:
                return

    def pieces():
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            head = f"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {JSON}\r\n"
            connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            for _ in range(5_000):
                connection.sendall(b"1\r\n \r\n" * 20)
            connection.sendall(b"0\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 400")

    assert watched.peak_of(heads) <= bound
    assert watched.peak_of(pieces) <= bound


def test_no_request_takes_more_memory_than_the_documentation_says(watched):
    bound = documented(r"raises the memory of the server by at most ([\d,]+) MB")
    statuses, found = {}, {}

    def send(name, path, kind, body):
        statuses[name] = http.post(path, content=body, headers={"Content-Type": kind}).status_code

    with httpx.Client(base_url=watched.url, timeout=300) as http:
        for request in hostile():
            found[request[0]] = watched.peak_of(partial(send, *request))
        assert http.get("/readyz").status_code == 200
    assert {status for status in statuses.values() if status >= 500} == set()
    assert max(found.values()) <= bound, found


@pytest.mark.parametrize("kind", [JSON, ARROW])
def test_many_bodies_at_once_are_bounded_whatever_they_become(watched, kind):
    bound = documented(r"all requests together by at most ([\d,]+) MB")
    table = long_ids()
    if kind == ARROW:
        body = stream(table)
        assert len(body) < LIMIT / 50
    else:
        body = json.dumps({"events": table.to_pylist()}).encode()[: LIMIT - 1]

    def send(_):
        answer = httpx.post(f"{watched.url}/v1/classify", content=body, headers={"Content-Type": kind}, timeout=600)
        return answer.status_code

    def together():
        with ThreadPoolExecutor(40) as threads:
            statuses.extend(threads.map(send, range(40)))

    statuses = []
    peak = watched.peak_of(together)
    assert set(statuses) <= {200, 413, 422, 429, 503}
    assert peak <= bound, peak
