"""An engine to be killed: a program that forks a child for each life, warm, and reports how it ended.

Each line of standard input is a life as a JSON object; each line of standard output says how it ended. In its life the
child opens the engine, makes sure that nothing which was acknowledged is missing, and sends batches from the first one
that was not acknowledged. It notes every acknowledgement in a file, and dies by SIGKILL at the point it was given, or
whenever its parent pleases. The hooks are here alone: journals and engines are the library's own.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numba.np.ufunc import parallel

from tapgnn.errors import JournalError
from tapgnn.online import Engine
from tapgnn.online.journal.postgres import PostgresJournal
from tapgnn.online.journal.sqlite import SqliteJournal

POINTS = (
    "before commit",
    "after append",
    "after apply",
    "in checkpoint",
    "before position",
    "after checkpoint",
    "before acknowledgement",
    "in opening",
)
ERASED = 5


class KillSwitch:
    """Kills the process when a point is reached for the n-th time."""

    def __init__(self, point, times):
        self.point, self.times = point, times

    def at(self, point):
        if point == self.point:
            self.times -= 1
            if self.times == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class KillableJournal:
    """A journal with points at which to die, mixed into one of the library's; `broken` cuts checkpoints in two."""

    def __init__(self, place, kill_switch, broken):
        self.kill_switch, self.broken = kill_switch, broken
        super().__init__(place)

    def run(self, statement, values=()):
        found = super().run(statement, values)
        if statement.startswith("INSERT INTO log"):
            self.kill_switch.at("before commit")
        return found

    def append(self, entries):
        records = super().append(entries)
        self.kill_switch.at("after append")
        return records

    def nodes(self):
        for page in super().nodes():
            self.kill_switch.at("in opening")
            yield page

    def write_nodes(self, nodes, gone):
        rows = list(nodes)
        super().write_nodes(rows[: len(rows) // 2], gone)
        self.kill_switch.at("in checkpoint")
        super().write_nodes(rows[len(rows) // 2 :], ())
        self.kill_switch.at("before position")

    def save(self, checkpoint, nodes, gone):
        if self.broken is None:
            super().save(checkpoint, nodes, gone)
        else:
            self.save_in_two(checkpoint, nodes, gone)
        self.kill_switch.at("after checkpoint")

    def save_in_two(self, checkpoint, nodes, gone):
        steps = [lambda: self.write_nodes(nodes, gone), lambda: self._write_metadata({"checkpoint": checkpoint})]
        for step in steps if self.broken == "rows first" else steps[::-1]:
            with self._lock, self.transaction():
                step()
            self.kill_switch.at("between")

    def finish_wiping(self):
        if self.metadata().get("wipe"):
            self.kill_switch.at("before wiping")
        super().finish_wiping()


class KillableSqlite(KillableJournal, SqliteJournal):
    pass


class KillablePostgres(KillableJournal, PostgresJournal):
    pass


def batch(number):
    """The batch of that number: ties within and across batches, events out of order, nodes that come back."""
    rng = np.random.default_rng(number)
    size = int(rng.integers(2, 6))
    src, dst = rng.integers(0, 12, (2, size)).tolist()
    return {"src": src, "dst": dst, "time": (1e9 + number + rng.choice([-1.5, -0.5, 0.0, 0.5], size)).tolist()}


class Acknowledgements:
    """A file to which a line is added for every batch that was acknowledged."""

    def __init__(self, path):
        self.path = Path(path)
        self.handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, number, receipt):
        os.write(self.handle, f"{number} {receipt.position}\n".encode())

    def all(self):
        return dict(tuple(map(int, line.split())) for line in self.path.read_text().splitlines())


@contextmanager
def opened(life, kill_switch):
    kind = KillablePostgres if "://" in life["place"] else KillableSqlite
    policy = {"late": "buffer", "lateness": 2.0, "ttl": 40.0}
    journal = kind(life["place"], kill_switch, life.get("broken"))
    with Engine.open(life["model"], journal, checkpoint_every=life["every"], **policy) as engine:
        apply = engine._writer.apply

        def applied(*arguments):
            found = apply(*arguments)
            kill_switch.at("after apply")
            return found

        engine._writer.apply = applied
        yield engine


def live(life):
    """One life; gives what it has to say at its end."""
    kill_switch, acknowledged = (
        KillSwitch(life.get("point"), life.get("times", 1)),
        Acknowledgements(life["acknowledged"]),
    )
    with opened(life, kill_switch) as engine:
        told = acknowledged.all()
        if max(told.values(), default=0) > engine.status()["position"]:
            return {"lost": max(told.values())}
        if life.get("erase"):
            engine.erase(ERASED)
            return {"digest": engine.state_digest(), **engine.status()}
        # A client that never heard of its last batches sends some of them again.
        start = max(0, max(told, default=-1) - 1)
        for number in range(start, life["until"]):
            receipt = engine.observe(batch(number), "client", number, ("source", 0, number))
            if receipt.duplicate != (receipt.position in told.values()) and number in told:
                return {"lost": number}
            kill_switch.at("before acknowledgement")
            acknowledged.note(number, receipt)
        return {"digest": engine.state_digest(), "offsets": engine.offsets()["source", 0], **engine.status()}


def serve():
    """Fork a child for each line of standard input, kill it when asked to, and say how it ended."""
    for line in sys.stdin:
        life = json.loads(line)
        said = Path(life["acknowledged"] + ".said")
        child = os.fork()
        if child == 0:
            # Numba's lock is shared with the siblings, one of which may have been killed while it held it.
            parallel._backend_init_process_lock = threading.RLock()
            try:
                said.write_text(json.dumps(live(life)))
            except JournalError as error:
                said.write_text(json.dumps({"error": str(error)}))
            finally:
                os._exit(0)
        if "kill after" in life:
            time.sleep(random.Random(life["kill after"]).uniform(0.0, life["within"]))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        words = json.loads(said.read_text()) if ended == 0 and said.exists() else {}
        said.unlink(missing_ok=True)
        print(json.dumps({"signal": ended, **words}), flush=True)


if __name__ == "__main__":
    warm = json.loads(sys.argv[1])
    live(warm)
    print("warm", flush=True)
    serve()
