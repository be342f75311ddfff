"""Servers on which something goes wrong: real journals and engines, with the fault let in from outside."""

import contextlib

import apsw

from tapgnn.online.journal.sqlite import SqliteJournal
from tests.online.server.running import running


class Unsure(apsw.Connection):
    """A connection that commits and, when it is told to, says that it could not."""

    unsure = False

    def execute(self, statement, *values):
        found = super().execute(statement, *values)
        if statement == "COMMIT" and self.unsure:
            self.unsure = False
            raise apsw.IOError("disk I/O error")
        return found


class Full(apsw.Connection):
    """A connection whose disk is full, once it is told so."""

    full = False

    def execute(self, statement, *values):
        if statement.startswith("INSERT INTO") and self.full:
            raise apsw.FullError("database or disk is full")
        return super().execute(statement, *values)


class Unreadable(apsw.Connection):
    """A connection that cannot read records, once it is told so."""

    unreadable = False

    def execute(self, statement, *values):
        if statement.startswith("SELECT l.position") and self.unreadable:
            raise apsw.IOError("disk I/O error")
        return super().execute(statement, *values)


class Forgetful(SqliteJournal):
    """A journal that ends a checkpoint with an error nobody expects, when it is told to."""

    failing = False

    def save(self, checkpoint, nodes, gone):
        if self.failing:
            self.failing = False
            raise MemoryError
        super().save(checkpoint, nodes, gone)


def let_the_writer_finish(server):
    """Wait until the writer is done with what was handed to it, the checkpoint after its last batch included."""
    status = server.engine.status
    while status()["checkpoint"] < status()["position"]:
        pass


def gauge(http):
    """What the metrics say of readiness."""
    (line,) = (line for line in http.get("/metrics").text.splitlines() if line.startswith("tapgnn_ready "))
    return float(line.split()[1])


def not_ready(http, reason):
    """The server says that it is not ready, and why."""
    answer = http.get("/readyz")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"]
    assert reason in answer.json()["detail"]
    assert gauge(http) == 0


def ready_again(http):
    """Wait until the server says that it is ready."""
    while http.get("/readyz").status_code != 200:
        pass
    assert gauge(http) == 1


def commit_outcome_unknown(server):
    """The next commit happens, and nobody knows."""
    server.engine._journal.connection.unsure = True


def apply_fails(server):
    """The next batch is committed, and breaks the engine when it is applied for the first time."""

    def listener(events, trace):
        if not failed:
            failed.append(True)
            raise ZeroDivisionError

    failed = []

    server.engine.listen(listener)


def checkpoint_fails(server):
    """The writer ends in an error after the next batch, which is committed, applied and answered."""
    server.engine._journal.failing = True


@contextlib.contextmanager
def fragile(model, path, monkeypatch, connection=Unsure, **options):
    """A server with a journal that can fail, and that closes in peace."""
    monkeypatch.setattr("tapgnn.online.journal.sqlite.apsw.Connection", connection)
    journal = Forgetful(path)
    with running(model, journal, checkpoint_every=1, **options) as server:
        yield server
        journal.failing = False
