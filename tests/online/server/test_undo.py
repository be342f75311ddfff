"""Taking events back over HTTP: exact, without a trace, and with everybody else served meanwhile."""

import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import pytest

from tapgnn.errors import ServerError
from tapgnn.online import Engine
from tapgnn.online.journal.sqlite import SqliteJournal
from tapgnn.online.server.service import ServerSettings
from tapgnn.online.server.tokens import Tokens
from tests.online.server.running import running

PERSON = "zebra-4711"
BATCH = 10


class Slow(SqliteJournal):
    """A journal whose replay from its start waits for `go`, once it is asked to."""

    def __init__(self, path):
        self.slow, self.begun, self.go = False, threading.Event(), threading.Event()
        super().__init__(path)

    def records(self, first, last=None):
        if self.slow and first == 1 and last is None:
            self.begun.set()
            assert self.go.wait(60)
        yield from super().records(first, last)


@pytest.fixture
def stream(rows):
    """Batches in which a person of a telling name comes up."""
    named = [(PERSON if number % 7 == 3 else src, *rest) for number, (src, *rest) in enumerate(rows[:60])]
    return [named[start : start + BATCH] for start in range(0, 60, BATCH)]


def columns_of(batch):
    src, dst, time, features = zip(*batch, strict=True)
    return {"src": list(src), "dst": list(dst), "time": np.array(time), "features": np.array(features)}


def scores_of_a_log_without(model, folder, stream, keep, pairs, time):
    """What an engine says that never heard of some events."""
    with Engine.open(model, folder / "other.db", start="empty") as engine:
        for batch in stream:
            rest = [row for row in batch if keep(row)]
            if rest:
                engine.observe(columns_of(rest))
        return engine.score(*zip(*pairs, strict=True), time)


def bytes_on_disk(folder):
    return b"".join(path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file())


def test_a_node_is_erased_without_a_trace_while_others_are_served(model, stream, tmp_path):
    (tmp_path / "served").mkdir()
    journal = Slow(tmp_path / "served" / "state.db")
    with (
        running(model, journal, ServerSettings(window=500, queue=1), start="empty") as server,
        server.client(patience=0) as client,
        ThreadPoolExecutor(4) as threads,
    ):
        for batch in stream:
            client.observe(batch)
        assert PERSON.encode() in bytes_on_disk(tmp_path)
        pairs = [(row[0], row[1]) for row in stream[-1] if row[0] != PERSON]
        before = client.score(pairs)
        journal.slow = True
        erased = threads.submit(call, server, "erase", PERSON)
        assert journal.begun.wait(60)
        assert client.score(pairs) == before
        with pytest.raises(ServerError, match="being undone") as refused:
            client.erase("a1")
        assert refused.value.status == 429
        later = [(src, dst, time + 1e5, features) for src, dst, time, features in stream[0] if src != PERSON]
        sent = [threads.submit(call, server, "observe", later) for _ in range(3)]
        (first, *_), _ = wait(sent, return_when=FIRST_COMPLETED)
        assert first.exception().status == 429
        journal.go.set()
        touched = sum(row[0] == PERSON for batch in stream for row in batch)
        assert erased.result() == touched
        assert any(answer.exception() is None for answer in sent)
        check_forgotten(server, client, tmp_path)


def call(server, what, *arguments):
    """Ask for something once, over a connection of its own."""
    with server.client(patience=0) as client:
        return getattr(client, what)(*arguments)


def check_forgotten(server, client, folder):
    assert client.erase(PERSON) == 0
    assert PERSON.encode() not in bytes_on_disk(folder)
    with server.http() as http:
        assert "no node is called" in http.post("/v1/node", json={"node": PERSON}).json()["detail"]
        assert PERSON not in http.get("/v1/live").text + http.get("/v1/map").text


def test_what_was_taken_back_never_happened(model, stream, tmp_path):
    pairs, time = [(row[0], row[1]) for row in stream[-1] if row[0] != PERSON], stream[-1][-1][2] + 5.0
    with running(model, tmp_path / "state.db", start="empty") as server, server.client() as client:
        receipts = [client.observe(batch) for batch in stream]
        assert client.retract(receipts[2].position, 4) == 1
        with pytest.raises(ServerError, match="there is no event 4") as refused:
            client.retract(receipts[2].position, 4)
        assert refused.value.status == 422
        gone = stream[2][4]
        expected = scores_of_a_log_without(model, tmp_path, stream, lambda row: row != gone, pairs, time)
        np.testing.assert_allclose(client.score(pairs, time), expected, rtol=1e-4, atol=1e-6)
        # The window fills up again with what comes now.
        client.observe([(src, dst, when + 1e5, features) for src, dst, when, features in stream[0]])
        found = client.explain(stream[0][0][0], stream[0][0][1])
        assert 0 < found.events_in_window < found.events_in_total
        assert all(cause.time > 1.1e6 for cause in found.causes)


def test_the_past_of_the_model_itself_cannot_be_undone_and_readers_may_not_try(model, stream, tmp_path):
    tokens = Tokens()
    reading, writing = tokens.add("read"), tokens.add("write")
    with running(model, tmp_path / "state.db", ServerSettings(tokens=tokens)) as server:
        with server.client(token=writing) as client:
            digest = server.engine.state_digest()
            with pytest.raises(ServerError, match="saved with the model") as refused:
                client.erase("a1")
            assert refused.value.status == 409
            assert server.engine.state_digest() == digest
        with server.client(token=reading) as client:
            for undo in (lambda: client.erase("a1"), lambda: client.retract(1, 0)):
                with pytest.raises(ServerError, match="scope write") as refused:
                    undo()
                assert refused.value.status == 403
