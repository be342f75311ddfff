"""The server under load: a process of its own, its journal on this disk, the load generator beside it.

    durable_events_per_s   events acknowledged (journalled, committed, applied) over HTTP, JSON, batches of 200
    score_p50_ms ...       one question about one pair, over HTTP, asked again and again while events stream in
    memory_growth          resident memory of the server in the last tenth of the events over that in the second tenth,
                           on a fixed set of nodes

The model is the default preset (d = 64, two layers) with random weights: they cost what trained ones cost. Prints one
JSON object as the last line.
"""

import argparse
import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
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


class Server:
    """`tapgnn serve` in a process of its own."""

    def __init__(self, model, journal):
        command = [sys.executable, "-m", "tapgnn.cli", "serve", str(model), "--journal", str(journal), "--port", "0"]
        command += ["--log-level", "warning", "--late", "merge"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.place = urlsplit(self.process.stdout.readline().split()[-1])
        connection = self.connect()
        while True:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                return
            time.sleep(0.1)

    def connect(self):
        return http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=120)

    def memory(self):
        """Resident bytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmRSS:\s+(\d+)", text)[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


class Stream:
    """Random events on the fixed nodes, in order of time, as JSON bodies."""

    def __init__(self, seed=1):
        self.rng, self.time = np.random.default_rng(seed), 1_000_000

    def body(self, size):
        src, dst = self.rng.integers(0, NODES, (2, size)).tolist()
        start = self.time
        self.time += size
        rows = ",".join(
            f'{{"src":{u},"dst":{v},"time":{start + i}}}' for i, (u, v) in enumerate(zip(src, dst, strict=True))
        )
        return b'{"events":[' + rows.encode() + b"]}"


def ingest(server, stream, events, batch, connections=2, watch=lambda done: None):
    """Send events over several connections, batches leaving in order; gives the seconds until all are acknowledged."""
    turn, done = threading.Lock(), [0]
    start = time.perf_counter()

    def work():
        connection = server.connect()
        while True:
            with turn:
                size = min(batch, events - done[0])
                if size <= 0:
                    return
                done[0] += size
                connection.request("POST", "/v1/events", stream.body(size), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != 200:
                raise SystemExit(f"{answer.status}: {content.decode()}")
            watch(done[0])

    threads = [threading.Thread(target=work) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def ask(server, stop, spent, pause):
    """Ask about one pair again and again."""
    rng, connection = np.random.default_rng(2), server.connect()
    while not stop.is_set():
        src, dst = rng.integers(0, NODES, 2).tolist()
        body = json.dumps({"pairs": [{"src": src, "dst": dst}]})
        start = time.perf_counter()
        connection.request("POST", "/v1/score", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        spent.append(time.perf_counter() - start)
        if answer.status != 200:
            raise SystemExit(f"a question was answered with {answer.status}")
        time.sleep(pause)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=10_000_000, help="for memory_growth")
    parser.add_argument("--measured", type=int, default=200_000, help="for each of the other figures")
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        make_model(Path(folder) / "model", options.width)
        server, stream = Server(Path(folder) / "model", Path(folder) / "state.db"), Stream()
        ingest(server, stream, min(options.measured, 20_000), options.batch)
        pace = options.measured / ingest(server, stream, options.measured, options.batch)
        stop, spent = threading.Event(), []
        asking = threading.Thread(target=ask, args=(server, stop, spent, 0.005))
        asking.start()
        busy = options.measured / ingest(server, stream, options.measured, options.batch)
        stop.set()
        asking.join()
        memory = []
        ingest(server, stream, options.events, 1_000, watch=lambda done: memory.append((done, server.memory())))
        tenth = options.events / 10
        early = [size for done, size in memory if tenth < done <= 2 * tenth]
        late = [size for done, size in memory if done > 9 * tenth]
        journal = (Path(folder) / "state.db").stat().st_size
        code = server.stop()
    p50, p95, p99 = np.percentile(np.array(spent) * 1e3, (50, 95, 99))
    print(
        json.dumps(
            {
                "durable_events_per_s": round(pace),
                "durable_events_per_s_while_asked": round(busy),
                "score_p50_ms": round(p50, 2),
                "score_p95_ms": round(p95, 2),
                "score_p99_ms": round(p99, 2),
                "memory_growth": round(statistics.median(late) / statistics.median(early), 4),
                "memory_mb": round(statistics.median(late) / 1e6),
                "journal_mb": round(journal / 1e6),
                "events": options.events,
                "batch": options.batch,
                "width": options.width,
                "questions": len(spent),
                "exit_code": code,
                "cores": os.cpu_count(),
            }
        )
    )


if __name__ == "__main__":
    main()
