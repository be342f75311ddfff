"""The server under load: a process of its own, its journal on this disk, the load generator beside it.

    durable_events_per_s   events acknowledged (journalled, committed, applied) over HTTP, JSON, batches of 200
    table_events_per_s     the same with events of seven numbers and three categories, some of them missing, in the
                           words of a table with ISO times, by form: JSON, NDJSON and Arrow
    score_p50_ms ...       one question about one pair, over HTTP, asked again and again while 20,000 events a second
                           stream in (--rate); durable_events_per_s_while_asked is what the server then took in
    first_request_ms ...   the first request of every kind from a cold cache of compiled loops: see first_requests.py
    memory_growth          by how much of itself the resident memory of the server grows in the second half of the
                           events, on a fixed set of nodes: the slope of a line fitted to it; memory_mb is that after
                           each tenth of them
    stop_s, open_s         seconds from SIGTERM to the end of the process, and from the start of a process until /readyz
                           answers 200, with a million nodes, after 20,000 events between any of them; by_nodes: the
                           same for other numbers, with the memory and disk that they take (--nodes); killed_open_s:
                           after SIGKILL instead

The model is the default preset (d = 64, two layers) with random weights: they cost what trained ones cost. The load
comes from threads of one process, each with a connection that it keeps: a request is sent, its whole answer is read
and checked, then the next one is sent. Requests of the timed parts are written beforehand, because the generator
shares the cores with what it measures. Prints one JSON object as the last line.

    python benchmarks/server.py                        all of it, ten million events
    python benchmarks/server.py --events 0 --nodes --no-cold     only load, about a minute
    python benchmarks/server.py --measured 0 --nodes --no-cold   only memory
    python benchmarks/server.py --events 0 --nodes 100000 1000000 --measured 0 --no-cold   only stop and start
"""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

NODES = 10_000


def make_model(folder, width):
    """Save an untrained model that knows the nodes."""
    import torch

    from tapgnn import Config, Events, Model, save_model

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, NODES, 50_000), rng.integers(0, NODES, 50_000)
    log = Events.from_arrays(np.concatenate([np.arange(NODES), src]), np.concatenate([np.arange(NODES), dst]),
                             np.arange(NODES + 50_000.0))  # fmt: skip
    save_model(Model(Config.preset("adaptive", width=width).fitted_to(log), log.vocabulary).eval(), folder)


NUMBERS = [f"number_{place}" for place in range(7)]
CATEGORIES = ["channel", "currency", "country"]
KINDS = {"json": "application/json", "ndjson": "application/x-ndjson", "arrow": "application/vnd.apache.arrow.stream"}


def make_table_model(folder, width, classify=False):
    """Save an untrained model of a table of payments; one with a classifier is trained a little."""
    import torch

    from tapgnn import TAPGNN, Config, Model, Vocabulary, save_model
    from tapgnn.data.fitted_schema import FittedSchema
    from tapgnn.data.frames import frame_events
    from tapgnn.data.schema import Schema
    from tapgnn.model.files import SCHEMA

    torch.manual_seed(0)
    kinds = dict.fromkeys(NUMBERS, "number") | dict.fromkeys(CATEGORIES, "category")
    schema = Schema("card_id", "merchant_id", "timestamp", "is_fraud", columns=kinds, bipartite=True)
    rows, vocabulary = TableStream(seed=0).rows(20_000), Vocabulary()
    if classify:
        for number, row in enumerate(rows):
            row["is_fraud"] = int(number % 20 == 0)
        estimator = TAPGNN(width=width, epochs=1).fit(rows[:2_000], schema=schema)
        log, _ = frame_events(rows[:2_000], schema=schema, vocabulary=estimator.vocabulary)
        estimator.fit_classifier(log)
        estimator.save(folder)
        return
    log, _ = FittedSchema(schema, None).read(rows, vocabulary)
    table = FittedSchema.fit(log, schema)
    config = Config.preset("adaptive", width=width).fitted_to(table.encode(log), table.categories)
    save_model(Model(config, vocabulary).eval(), folder, more={SCHEMA: table.to_json()})


class Server:
    """`tapgnn serve` in a process of its own."""

    def __init__(self, model, journal, environment=None):
        command = [sys.executable, "-m", "tapgnn.cli", "serve", str(model), "--journal", str(journal), "--port", "0"]
        command += ["--log-level", "warning", "--late", "merge"]
        environment = {**os.environ, **(environment or {})}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.place = urlsplit(self.process.stdout.readline().split()[-1])
        self.address = (self.place.hostname, self.place.port)
        connection = Connection(self)
        while connection.exchange(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")[0] != 200:
            time.sleep(0.1)

    def memory(self):
        """Resident bytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmRSS:\s+(\d+)", text)[1])

    def stop(self, kind=signal.SIGTERM):
        self.process.send_signal(kind)
        return self.process.wait(300)


class Connection:
    """One connection to the server that is kept; as little work for a request as can be."""

    def __init__(self, server):
        self.socket = socket.create_connection(server.address, timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, request):
        """Send a request and read its answer."""
        self.socket.sendall(request)
        return self.answer()

    def answer(self):
        """The status and the content of an answer, read to its end."""
        answer, end = b"", -1
        while end < 0 or len(answer) < end:
            piece = self.socket.recv(65_536)
            if not piece:
                raise RuntimeError("the server closed the connection")
            answer += piece
            if end < 0 and (stop := answer.find(b"\r\n\r\n")) >= 0:
                end = stop + 4 + int(re.search(rb"(?i)content-length: *(\d+)", answer[:stop])[1])
        return int(answer[9:12]), answer[stop + 4 :]


def post(path, body, kind="application/json"):
    """A request with a body."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Stream:
    """Random events on the fixed nodes, in order of time, as requests."""

    def __init__(self, seed=1):
        self.rng, self.time = np.random.default_rng(seed), 1_000_000

    def request(self, size):
        """The next `size` events."""
        src, dst = self.rng.integers(0, NODES, (2, size)).tolist()
        start = self.time
        self.time += size
        rows = ",".join(
            f'{{"src":{u},"dst":{v},"time":{start + i}}}' for i, (u, v) in enumerate(zip(src, dst, strict=True))
        )
        return post("/v1/events", b'{"events":[' + rows.encode() + b"]}")

    def requests(self, events, batch):
        """Requests with so many events in all, one after the other."""
        for start in range(0, events, batch):
            yield self.request(min(batch, events - start))


class TableStream:
    """Random payments in the words of a table, in order of time, as requests."""

    def __init__(self, seed=1):
        self.rng, self.time = np.random.default_rng(seed), np.datetime64("2026-03-01T00:00:00")

    def rows(self, size):
        """The next `size` rows; one cell in a hundred is missing."""
        rng = self.rng
        times = [str(time) + "Z" for time in self.time + np.arange(size)]
        self.time += size
        columns = {
            "card_id": rng.integers(0, NODES, size).tolist(),
            "merchant_id": rng.integers(0, NODES // 10, size).tolist(),
        }
        columns["timestamp"] = times
        columns |= {name: np.round(rng.lognormal(3, 2, size), 2).tolist() for name in NUMBERS}
        columns |= {name: [f"{name}{code}" for code in rng.integers(0, 30, size)] for name in CATEGORIES}
        for name in (*NUMBERS, *CATEGORIES):
            for row in np.flatnonzero(rng.random(size) < 0.01):
                columns[name][row] = None
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def requests(self, events, batch, form):
        """Requests with so many events in all, one after the other."""
        return [post("/v1/events", table_body(self.rows(batch), form), KINDS[form]) for _ in range(events // batch)]


def table_body(rows, form):
    """Rows as a body."""
    if form == "json":
        return json.dumps({"events": rows}).encode()
    if form == "ndjson":
        return "\n".join(map(json.dumps, rows)).encode()
    import io

    import pyarrow as pa

    table, sink = pa.Table.from_pylist(rows), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def measure_table(folder, options):
    """Durable events per second of a table, by form."""
    make_table_model(folder / "table", options.width)
    server, stream, found = Server(folder / "table", folder / "table.db"), TableStream(), {}
    ingest(server, stream.requests(min(options.measured, 20_000), options.batch, "ndjson"), options.connections)
    for form in KINDS:
        requests = stream.requests(options.measured, options.batch, form)
        events, _, seconds = ingest(server, requests, options.connections)
        found[form] = round(events / seconds)
    server.stop()
    return found


def ingest(server, requests, connections, watch=lambda done: None, pause=0.0):
    """Send requests over several connections, leaving in order; gives events acknowledged, those late, and seconds.

    With a pause, the n-th of them does not leave before n pauses have passed.
    """
    turn, totals, source = threading.Lock(), {"accepted": 0, "late": 0}, enumerate(requests)
    start = time.perf_counter()

    def work():
        connection = Connection(server)
        while True:
            with turn:
                number, request = next(source, (0, None))
                if request is None:
                    return
                time.sleep(max(0.0, start + number * pause - time.perf_counter()))
                connection.socket.sendall(request)
            status, content = connection.answer()
            if status != 200:
                raise RuntimeError(f"{status}: {content.decode()}")
            receipt = json.loads(content)
            with turn:
                for name in totals:
                    totals[name] += receipt[name]
            watch(totals["accepted"])

    with ThreadPoolExecutor(connections) as threads:
        for ended in [threads.submit(work) for _ in range(connections)]:
            ended.result()
    return totals["accepted"], totals["late"], time.perf_counter() - start


def ask(server, stop, spent, pause):
    """Ask about one pair again and again."""
    rng, connection = np.random.default_rng(2), Connection(server)
    while not stop.is_set():
        src, dst = rng.integers(0, NODES, 2).tolist()
        request = post("/v1/score", json.dumps({"pairs": [{"src": src, "dst": dst}]}).encode())
        start = time.perf_counter()
        status, _ = connection.exchange(request)
        spent.append(time.perf_counter() - start)
        if status != 200:
            raise RuntimeError(f"a question was answered with {status}")
        time.sleep(pause)


def measure_memory(folder, options):
    """By how much the resident memory grows in the second half of many events, and how much it is after each tenth.

    A line by least squares through all measurements of that half, because a single one moves by a percent or two.
    """
    server, memory = Server(folder / "model", folder / "memory.db"), []
    requests = Stream().requests(options.events, 1_000)
    _, _, seconds = ingest(server, requests, options.connections, lambda at: memory.append((at, server.memory())))
    done, size = np.array(sorted(memory), dtype=float).T
    half = done > options.events / 2
    slope, start = np.polyfit(done[half] - options.events / 2, size[half], 1)
    tenths = np.linspace(0.1, 1.0, 10) * options.events
    return {
        "memory_growth": round(slope * options.events / 2 / start, 4),
        "memory_mb": [round(each / 1e6, 1) for each in np.interp(tenths, done, size)],
        "memory_s": round(seconds),
        "journal_mb": round((folder / "memory.db").stat().st_size / 1e6),
        "exit_code": server.stop(),
    }


class ManyNodes(Stream):
    """Events of so many nodes: first each brings a new one, then they are between any of them."""

    def __init__(self, nodes):
        super().__init__()
        self.first, self.nodes = self.time, nodes

    def request(self, size):
        start = self.time
        self.time += size
        if start < self.first + self.nodes:
            src, dst = range(start, start + size), [f"{time % NODES}" for time in range(start, start + size)]
        else:
            src = self.first + self.rng.integers(0, self.nodes, size)
            dst = [f'"new {node}"' for node in self.first + self.rng.integers(0, self.nodes, size)]
        ends = enumerate(zip(src, dst, strict=True), start)
        rows = ",".join(f'{{"src":"new {u}","dst":{v},"time":{time}}}' for time, (u, v) in ends)
        return post("/v1/events", b'{"events":[' + rows.encode() + b"]}")


def measure_nodes(folder, options, nodes):
    """What many nodes take: memory, disk, and the seconds of a stop and of a start, after SIGTERM and after SIGKILL."""
    model, journal = folder / "model", folder / f"{nodes}.db"
    server, stream = Server(model, journal), ManyNodes(nodes)
    events, _, seconds = ingest(server, stream.requests(nodes, options.batch), options.connections)
    found = {"width": options.width, "events_per_s": round(events / seconds), "memory_mb": round(server.memory() / 1e6)}
    for kind, name in ((signal.SIGKILL, "killed_open_s"), (signal.SIGTERM, "open_s")):
        start = time.perf_counter()
        server.stop(kind)
        if kind == signal.SIGTERM:
            found["stop_s"] = round(time.perf_counter() - start, 2)
            found["disk_mb"] = round(journal.stat().st_size / 1e6)
        start = time.perf_counter()
        server = Server(model, journal)
        found[name] = round(time.perf_counter() - start, 2)
        found["opened_memory_mb"] = round(server.memory() / 1e6)
        ingest(server, stream.requests(options.batch * 100, options.batch), options.connections)
    server.stop()
    return found


def measure_load(folder, options):
    """Throughput and latency."""
    server, stream = Server(folder / "model", folder / "state.db"), Stream()
    ingest(server, stream.requests(min(options.measured, 20_000), options.batch), options.connections)
    load = [list(stream.requests(events, options.batch)) for events in (options.measured, 3 * options.measured)]
    events, late, seconds = ingest(server, load[0], options.connections)
    stop, spent = threading.Event(), []
    with ThreadPoolExecutor(1) as asking:
        asked = asking.submit(ask, server, stop, spent, 0.005)
        pause = options.batch / options.rate
        busy, _, meanwhile = ingest(server, load[1], options.connections, pause=pause)
        stop.set()
        asked.result()
    server.stop()
    by_form = measure_table(folder, options)
    p50, p95, p99 = np.percentile(np.array(spent) * 1e3, (50, 95, 99))
    return {
        "durable_events_per_s": round(events / seconds),
        "durable_events_per_s_while_asked": round(busy / meanwhile),
        "table_events_per_s": by_form,
        "score_p50_ms": round(p50, 2),
        "score_p95_ms": round(p95, 2),
        "score_p99_ms": round(p99, 2),
        "merged_late": late,
        "questions": len(spent),
    }


def main():
    from first_requests import measure_first_requests

    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=10_000_000, help="for memory_growth; 0 leaves it out")
    parser.add_argument("--measured", type=int, default=200_000, help="for each figure of load; 0: none")
    parser.add_argument("--nodes", type=int, nargs="*", default=[1_000_000], help="for stop_s and open_s")
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--rate", type=int, default=20_000, help="events per second while questions are asked")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--cold", action=argparse.BooleanOptionalAction, default=True, help="measure first requests")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        make_model(folder / "model", options.width)
        found = measure_load(folder, options) if options.measured else {}
        found |= measure_memory(folder, options) if options.events else {"memory_growth": None}
        by_nodes = {nodes: measure_nodes(folder, options, nodes) for nodes in options.nodes}
        first = measure_first_requests(folder, options.width) if options.cold else {}
    most = by_nodes[max(by_nodes)] if by_nodes else {}
    found |= {name: most.get(name) for name in ("stop_s", "open_s")} | {"by_nodes": by_nodes} | first | vars(options)
    print(json.dumps(found | {"cores": os.cpu_count()}))


if __name__ == "__main__":
    main()
