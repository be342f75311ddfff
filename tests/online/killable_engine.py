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
from dataclasses import replace
from pathlib import Path

import numpy as np
from numba.np.ufunc import parallel

from tapgnn.errors import JournalError
from tapgnn.online import Engine
from tapgnn.online.journal.postgres import PostgresJournal
from tapgnn.online.journal.sqlite import SqliteJournal
from tapgnn.online.journal.undo_and_migrate import migrate

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
# What replaces history, and the points within: statements of its transaction, its commit, and the wiping afterwards.
CHANGES = {
    "erase": lambda engine: engine.erase(5),
    "retract": lambda engine: engine.retract(3, 0),
    "trim": lambda engine: engine.trim(15),
}
REWRITING = ("DELETE FROM blocks", "in checkpoint", "before position", "INSERT INTO facts")
COMMITTING = ("at commit", "after commit", "before wiping")
POINTS_OF = {
    "erase": ("UPDATE log SET", *REWRITING, *COMMITTING),
    "retract": ("UPDATE log SET", *REWRITING, *COMMITTING),
    "trim": ("UPDATE producers SET", "DELETE FROM log", "DELETE FROM answers", "INSERT INTO facts", *COMMITTING),
    "migrate": (*REWRITING, *COMMITTING),
}


class KillSwitch:
    """Kills the process when a point is reached for the n-th time, once it is armed."""

    def __init__(self, point, times, armed=True):
        self.point, self.times, self.armed = point, times, armed

    def at(self, point):
        if self.armed and point == self.point:
            self.times -= 1
            if self.times == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class KillableJournal:
    """A journal with points at which to die, mixed into one of the library's.

    A broken one cuts checkpoints in two ('rows first', 'position first'), or writes what it was given only when it is
    closed ('acknowledges first').
    """

    def __init__(self, place, kill_switch, broken):
        self.kill_switch, self.broken, self.waiting = kill_switch, broken, []
        super().__init__(place)

    def run(self, statement, values=()):
        found = super().run(statement, values)
        self.kill_switch.at(" ".join(statement.split()[:3]))
        if statement.startswith("INSERT INTO log"):
            self.kill_switch.at("before commit")
        return found

    def _commit(self):
        self.kill_switch.at("at commit")
        super()._commit()
        self.kill_switch.at("after commit")

    def rewrite(self, changed, metadata, blocks):
        self.kill_switch.armed = True
        super().rewrite(changed, metadata, blocks)

    def trim(self, position):
        self.kill_switch.armed = True
        super().trim(position)

    def blocks(self):
        for block in super().blocks():
            self.kill_switch.at("in opening")
            yield block

    def write_blocks(self, blocks, gone):
        blocks = list(blocks)
        super().write_blocks(blocks[: len(blocks) // 2], gone)
        self.kill_switch.at("in checkpoint")
        super().write_blocks(blocks[len(blocks) // 2 :], ())
        self.kill_switch.at("before position")

    def save(self, checkpoint, blocks, gone):
        if self.broken not in ("rows first", "position first"):
            super().save(checkpoint, blocks, gone)
        else:
            self.save_in_two(checkpoint, blocks, gone)
        self.kill_switch.at("after checkpoint")

    def save_in_two(self, checkpoint, blocks, gone):
        steps = [lambda: self.write_blocks(blocks, gone), lambda: self._write_metadata({"checkpoint": checkpoint})]
        for step in steps if self.broken == "rows first" else steps[::-1]:
            with self._lock, self.transaction():
                step()
            self.kill_switch.at("between")

    def finish_wiping(self):
        if self.metadata().get("wipe"):
            self.kill_switch.at("before wiping")
        super().finish_wiping()

    def append(self, entries):
        if self.broken != "acknowledges first":
            records = super().append(entries)
            self.kill_switch.at("after append")
            return records
        first = self.head + 1 + len(self.waiting)
        self.waiting += entries
        return [replace(entry, position=first + place) for place, entry in enumerate(entries)]

    def close(self):
        if self.waiting:
            super().append(self.waiting)
            self.waiting = []
        super().close()


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


def killable_journal(life, kill_switch):
    kind = KillablePostgres if "://" in life["place"] else KillableSqlite
    return kind(life["place"], kill_switch, life.get("broken"))


def open_engine(life, kill_switch):
    journal = killable_journal(life, kill_switch)
    policy = life.get("policy", {"late": "buffer", "lateness": 2.0, "ttl": 40.0})
    engine = Engine.open(life["model"], journal, checkpoint_every=life["every"], verify="verify" in life, **policy)
    apply = engine._writer.apply

    def applied(*arguments):
        found = apply(*arguments)
        kill_switch.at("after apply")
        return found

    engine._writer.apply = applied
    return engine


def live(life):
    """One life; gives what it has to say at its end."""
    change = life.get("change")
    kill_switch = KillSwitch(life.get("point"), life.get("times", 1), armed=change is None)
    acknowledged = Acknowledgements(life["acknowledged"])
    if change == "migrate":
        journal = killable_journal(life, kill_switch)
        try:
            migrate(journal, life["to"])
        finally:
            journal.close()
        return {}
    with open_engine(life, kill_switch) as engine:
        told = acknowledged.all()
        if max(told.values(), default=0) > engine.status()["position"]:
            return {"lost": max(told.values())}
        if change is not None:
            CHANGES[change](engine)
        # A client that never heard of its last batches sends some of them again.
        start = max(0, max(told, default=-1) - 1)
        for number in range(start, life["until"]):
            receipt = engine.observe(batch(number), "client", number, ("source", 0, number))
            if receipt.duplicate != (receipt.position in told.values()) and number in told:
                return {"lost": number}
            kill_switch.at("before acknowledgement")
            acknowledged.note(number, receipt)
        first = next(engine.records())[0].position
        told = {"digest": engine.state_digest(), "first": first, "offsets": engine.offsets()["source", 0]}
        return {**told, **engine.status()}


def forget_shared_lock():
    """Numba's lock is shared with the siblings, one of which may have been killed while it held it."""
    parallel._backend_init_process_lock = threading.RLock()


def serve():
    """Fork a child for each line of standard input, kill it when asked to, and say how it ended."""
    for line in sys.stdin:
        life = json.loads(line)
        said = Path(life["acknowledged"] + ".said")
        child = os.fork()
        if child == 0:
            forget_shared_lock()
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
