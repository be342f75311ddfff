"""A real server on a free port of this machine, in threads of this process."""

import contextlib
import io
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
from fastapi import FastAPI

from tapgnn import Events
from tapgnn.model import load_model
from tapgnn.online import Client, Engine
from tapgnn.online.server.service import ServerSettings, Service
from tapgnn.online.server.serving import address, listen, make_server

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"


def random_log(size=600, accounts=40, merchants=12, seed=0, start=1_000_000.0):
    """A bipartite log with two features and a rare positive label, times a few seconds apart."""
    rng = np.random.default_rng(seed)
    time = start + np.cumsum(rng.choice([0.0, 5.0, 20.0, 60.0], size))
    src = [f"a{number}" for number in rng.integers(0, accounts, size)]
    dst = [f"m{number}" for number in (rng.random(size) ** 2 * merchants).astype(int)]
    label = (rng.random(size) < 0.05).astype(int)
    vectors = np.column_stack([rng.normal(size=size) + label, rng.normal(size=size)])
    return Events.from_arrays(src, dst, time, vectors, label)


def rows_of(log):
    """The rows of a log as a client sends them."""
    ids = log.vocabulary.ids
    columns = zip(log.src.tolist(), log.dst.tolist(), log.time.tolist(), log.features.tolist(), strict=True)
    return [(ids[src], ids[dst], time, features) for src, dst, time, features in columns]


def body_of(rows):
    """Rows as a JSON body."""
    return {"events": [dict(zip(("src", "dst", "time", "features"), row, strict=True)) for row in rows]}


def as_lines(rows):
    """Rows as one JSON object per line."""
    return "\n".join(json.dumps(event) for event in body_of(rows)["events"]).encode()


def as_arrow(rows, **changes):
    """Rows as an Arrow stream, with some columns changed."""
    src, dst, time, features = zip(*rows, strict=True)
    columns = {"src": src, "dst": dst, "time": pa.array(time), "features": pa.array(features, pa.list_(pa.float32()))}
    table = pa.table(columns | changes)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def send(http, content, kind, **query):
    """Post events."""
    return http.post("/v1/events", content=content, headers={"Content-Type": kind}, params=query)


@dataclass
class Running:
    """A server that runs: where, and what is behind it."""

    url: str
    service: Service
    app: FastAPI
    connections: set
    stop: Callable[[], None]

    @property
    def engine(self):
        return self.service.queue.engine

    def client(self, **options):
        return Client(self.url, **options)

    def http(self, **options):
        return httpx.Client(base_url=self.url, timeout=30, **options)


@contextlib.contextmanager
def running(model: Path, journal, settings=None, sources=(), port=0, opening=lambda url: None, **options):
    """Serve a model until the block ends; the server then stops as on SIGTERM.

    `opening` is called with the address while the engine waits to be opened.
    """
    looked = threading.Event()

    def open_engine():
        looked.wait()
        return Engine.open(model, journal, **options)

    service = Service(open_engine, settings or ServerSettings(window=500), sources)
    server, socket = make_server(service, load_model(model).config), listen("127.0.0.1", port)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
    thread.start()
    found = Running(
        address(socket),
        service,
        server.config.app.app,
        server.server_state.connections,
        lambda: setattr(server, "should_exit", True),
    )
    try:
        opening(found.url)
        looked.set()
        with found.client() as client:
            while not client.is_ready():
                if service.failure is not None:
                    raise service.failure
        yield found
    finally:
        looked.set()
        found.stop()
        thread.join()
        socket.close()
