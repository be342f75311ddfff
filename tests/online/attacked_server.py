"""A server under attack: producers that write through HTTP, lives that end by SIGKILL, and an audit of what is left."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
import psutil

from tapgnn.errors import ServerError
from tapgnn.online import Client, Engine, Request

ROOT = Path(__file__).parents[2]
POLICY = {"late": "merge"}
POINTS = ("before commit", "after append", "after apply", "in checkpoint", "before position", "after checkpoint")
PRODUCERS = 4
# Seconds in which a server that can be ready must be.
PATIENCE = 120


def batch(producer, number):
    """The batch of that number: ties, nodes that come back, and clocks of producers that differ."""
    rng = np.random.default_rng([producer, number])
    size = int(rng.integers(2, 8))
    src, dst = rng.integers(0, 30, (2, size)).tolist()
    time = (1e9 + number + producer / 8 + rng.choice([0.0, 0.5], size)).tolist()
    return [{"src": left, "dst": right, "time": when} for left, right, when in zip(src, dst, time, strict=True)]


class AttackedServer:
    """One journal, and the lives of the servers over it; `kills` counts those that ended by SIGKILL, by point."""

    def __init__(self, model, place, folder, broken=None, every=5):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url, self.place, self.kills, self.pid = f"http://127.0.0.1:{port}", place, Counter(), None
        self.life = {"model": str(model), "place": place, "every": every, "policy": POLICY, "port": port}
        self.life |= {} if broken is None else {"broken": broken}
        self._log = (Path(folder) / "log").open("w")
        # One for all questions: to make a client costs more than to ask.
        self._http = httpx.Client(base_url=self.url, verify=False, trust_env=False)
        warm = {**self.life, "place": f"{folder}/warm.db"}
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.online.killable_server", json.dumps(warm)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
        )  # fmt: skip
        if self._program.stdout.readline() != "warm\n":
            raise RuntimeError(f"the server did not start; see {self._log.name}")

    def start(self, **life):
        """Begin a life."""
        self._program.stdin.write(json.dumps({**self.life, **life}) + "\n")
        self._program.stdin.flush()
        self.pid = int(self._program.stdout.readline())

    def end(self):
        """Wait until a life has ended; gives the signal and the exit code."""
        ended, code = map(int, self._program.stdout.readline().split())
        self.pid = None
        return ended, code

    def is_ready(self):
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def wait_until_ready(self):
        """Wait until it is ready, and as long as the process lives."""
        end = time.monotonic() + PATIENCE
        while not self.is_ready():
            if time.monotonic() > end or not psutil.pid_exists(self.pid):
                return False
            time.sleep(0.01)
        return True

    def kill_under(self, producers, batches):
        """A life that is killed when so many batches were acknowledged in it."""
        self.start()
        if self.wait_until_ready():
            producers.wait_for(batches)
            os.kill(self.pid, signal.SIGKILL)
        self._count("at random")

    def kill_at(self, point, times):
        """A life that kills itself when the point is reached for the n-th time."""
        self.start(point=point, times=times)
        self._count(point)

    def _count(self, point):
        ended, code = self.end()
        self.kills[point] += ended == signal.SIGKILL
        # A PostgreSQL that has not yet noticed the death of the writer before lets no other in.
        if ended != signal.SIGKILL and code != 2:
            raise RuntimeError(f"a life ended with signal {ended} and code {code}; see {self._log.name}")

    def stop(self):
        """End a life as on SIGTERM; gives the exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.end()[1]

    def close(self):
        """End the program; no life may be left."""
        self._http.close()
        self._program.stdin.close()
        self._program.wait(30)
        self._program.stdout.close()
        self._log.close()


class Producers:
    """Threads that send numbered batches until they are told to stop; each is resent until it is acknowledged."""

    def __init__(self, url):
        self.acknowledged, self.failures = [], []
        self._stop, self._waits = threading.Event(), [False] * PRODUCERS
        self.threads = [threading.Thread(target=self._send, args=(url, number)) for number in range(PRODUCERS)]
        for thread in self.threads:
            thread.start()

    def _send(self, url, producer):
        # It sends again sooner than the client by itself would, which spares a server that is away.
        with Client(url, producer=f"till-{producer}", patience=0.0) as client:
            number = 0
            while not self._stop.is_set() or self._waits[producer]:
                rows, self._waits[producer] = batch(producer, number), True
                try:
                    # Half of them ask for scores.
                    answer = client.score_then_observe(rows, number) if producer % 2 else client.observe(rows, number)
                except ServerError as error:
                    if error.status not in (None, 429, 503):
                        self.failures.append(str(error))
                        return
                    time.sleep(0.02)
                    continue
                self._waits[producer] = False
                receipt = answer.receipt if producer % 2 else answer
                self.acknowledged.append((producer, number, receipt.position))
                number += 1

    def wait_for(self, count):
        """Wait until so many more batches are acknowledged; gives whether they were."""
        wanted, end = len(self.acknowledged) + count, time.monotonic() + PATIENCE
        while len(self.acknowledged) < wanted and not self.failures and time.monotonic() < end:
            time.sleep(0.005)
        return len(self.acknowledged) >= wanted

    def finish(self):
        """Let each have its last batch acknowledged."""
        self._stop.set()
        for thread in self.threads:
            thread.join()
        if self.failures:
            raise RuntimeError(self.failures[0])


def kill_server(server, producers, kills, points=POINTS, seed=0):
    """Kill a server under producers so often, at points and at random; it then lives on."""
    rng, kills = random.Random(seed), kills + sum(server.kills.values())
    while sum(server.kills.values()) < kills:
        if not points or rng.random() < 0.5:
            server.kill_under(producers, rng.randint(0, 40))
        else:
            point = rng.choice(points)
            server.kill_at(point, rng.randint(1, 6) if "checkpoint" not in point else 1)
    while True:
        server.start()
        if server.wait_until_ready():
            return
        server.end()


def audit(model, place, acknowledged, folder):
    """What became of acknowledged batches (producer, number, position): counts, and whether the state is their fold.

    The fold is made by an engine on which nothing failed, from the batches as they were sent, in the order of the
    journal.
    """
    with Engine.open(model, place, **POLICY) as engine, Engine.open(model, Path(folder) / "fold.db", **POLICY) as fold:
        found = [
            (record.position, record.producer, record.sequence) for record, _ in engine.records() if record.producer
        ]
        sent = [
            Request(batch(int(producer.removeprefix("till-")), number), producer, number)
            for _, producer, number in found
        ]
        for start in range(0, len(sent), 100):
            requests = sent[start : start + 100]
            fold.observe_many(requests)
            for request in requests:
                request.answer.result()
        times, digests = Counter(each[1:] for each in found), (engine.state_digest(), fold.state_digest())
        accepted = engine.status()["accepted"], fold.status()["accepted"]
    places = {(producer, number): position for position, producer, number in found}
    lost = [each for each in acknowledged if places.get((f"till-{each[0]}", each[1])) != each[2]]
    return {
        "acknowledged": len(acknowledged),
        "lost": len(lost),
        "doubled": sum(times.values()) - len(times) + abs(accepted[0] - accepted[1]),
        "digest_equal": digests[0] == digests[1],
    }
