"""The first request of every kind after `/readyz`, from a cold cache of compiled loops, beside the later ones.

    first_request_ms        by kind: the first request after the server said that it is ready
    median_request_ms       by kind: the later ones
    worst_first_to_median   the largest ratio of the two, and its kind (`worst_kind`)
    ready_s                 from the start of the process until `/readyz` is 200: everything is compiled in it
    compiled_in_requests    compiled loops that were added to the cache after that: 0

The server is a process of its own whose cache (`NUMBA_CACHE_DIR`) is an empty folder. Its model is that of a table of
payments with a classifier. Every kind is asked once, then all of them again and again, from one connection. Prints one
JSON object as the last line.

    python benchmarks/first_requests.py                about three minutes of one core
    python benchmarks/first_requests.py --warm         with the cache that is there
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from server import KINDS, Connection, Server, TableStream, make_table_model, post, table_body

SIZES = (1, 33, 64, 65, 500)
PAGES = ("/v1/live", "/v1/map", "/v1/model", "/metrics", "/openapi.json", "/", "/docs")


def get(path):
    """A request without a body."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def ask(path, **body):
    """A request with a JSON object."""
    return post(path, json.dumps(body).encode())


class Asking:
    """All kinds of requests, each as a function that makes the next one of its kind."""

    def __init__(self, seed=5):
        self.stream = TableStream(seed)
        self.position = 0
        self.nodes, self.latest = iter(range(10_000)), 1_000_000

    def kinds(self):
        """(name, function) of every kind; those that take events in come first, as others need some."""
        for form in KINDS:
            for size in SIZES:
                yield f"events {form} {size}", lambda form=form, size=size: self.events("events", form, size)
        for path in ("score-then-observe", "classify"):
            for form, size in [("json", size) for size in SIZES] + [("ndjson", 65), ("arrow", 500)]:
                yield f"{path} {form} {size}", lambda path=path, form=form, size=size: self.events(path, form, size)
        for size in SIZES:
            pairs = [{"src": number, "dst": number % 40} for number in range(size)]
            nodes = [f"card_id:{number}" for number in range(size)]
            yield f"score {size}", lambda pairs=pairs: ask("/v1/score", pairs=pairs)
            yield f"embed {size}", lambda nodes=nodes: ask("/v1/embed", nodes=nodes)
        yield "rank", lambda: ask("/v1/rank", src=self.active(), k=10)
        yield "rank among", lambda: ask("/v1/rank", src=self.active(), k=5, candidates=list(range(8)))
        yield "explain link", lambda: ask("/v1/explain", src=self.active(), dst=3)
        yield "explain event", lambda: ask("/v1/explain", event=self.stream.rows(1)[0])
        yield "explain arrival", lambda: ask("/v1/explain", **self.risky)
        yield "node", lambda: ask("/v1/node", node=self.active(), role="src")
        yield "node destination", lambda: ask("/v1/node", node=3, role="dst")
        for path in PAGES:
            yield path, lambda path=path: get(path)
        yield "retract", lambda: ask("/v1/retract", position=self.position, index=0)
        yield "erase", lambda: ask("/v1/erase", node=f"card_id:{self.fresh}")

    def events(self, path, form, size):
        """Events of the stream, the first of them of a new node."""
        rows = self.stream.rows(size)
        self.latest = rows[0]["card_id"] = self.latest + 1
        if path != "classify":
            self.fresh = self.latest
        return post(f"/v1/{path}", table_body(rows, form), KINDS[form])

    def active(self):
        """A source that has events."""
        return self.known[next(self.nodes) % len(self.known)]

    def look(self, connection):
        """Read what a request may name: recent sources, and the riskiest event that can be explained."""
        status, content = connection.exchange(get("/v1/live"))
        live = json.loads(content)
        self.known = [event["src"] for event in live["newest"]]
        self.position = live["newest"][0]["position"]
        self.risky = next({"position": e["position"], "index": e["index"]} for e in live["riskiest"] if e["explained"])
        return status


def spent_in(connection, request, name):
    """Milliseconds until the answer is read."""
    start = time.perf_counter()
    status, content = connection.exchange(request)
    spent = 1e3 * (time.perf_counter() - start)
    if status != 200:
        raise RuntimeError(f"{name}: {status} {content.decode()[:300]}; sent {request[-300:]!r}")
    return spent


def measure_first_requests(folder, width, rounds=15, warm=False):
    """See the module."""
    make_table_model(folder / "judged", width, classify=True)
    cache = folder / "cache"
    cache.mkdir()
    start = time.perf_counter()
    server = Server(folder / "judged", folder / "judged.db", {} if warm else {"NUMBA_CACHE_DIR": str(cache)})
    ready, compiled = time.perf_counter() - start, len(list(cache.rglob("*.nbc")))
    connection, asking, spent = Connection(server), Asking(), {}
    for _ in range(rounds):
        for name, make in asking.kinds():
            if name == "rank":
                asking.look(connection)
            spent.setdefault(name, []).append(spent_in(connection, make(), name))
    server.stop()
    first = {name: times[0] for name, times in spent.items()}
    median = {name: statistics.median(times[1:]) for name, times in spent.items()}
    worst = max(first, key=lambda name: first[name] / median[name])
    return {
        "first_request_ms": {name: round(value, 2) for name, value in first.items()},
        "median_request_ms": {name: round(value, 2) for name, value in median.items()},
        "worst_first_to_median": round(first[worst] / median[worst], 2),
        "worst_kind": worst,
        "ready_s": round(ready, 1),
        "compiled_in_requests": len(list(cache.rglob("*.nbc"))) - compiled,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--warm", action="store_true", help="use the cache that is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure_first_requests(Path(folder), options.width, options.rounds, options.warm)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
