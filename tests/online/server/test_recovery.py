"""What breaks behind a server heals without a restart: nothing acknowledged is lost, nothing is taken twice."""

import tempfile
import threading
from itertools import count
from pathlib import Path

import pytest

from tapgnn.errors import ServerError
from tapgnn.online import Engine
from tapgnn.online.engine.live_state import LiveState
from tapgnn.online.engine.reorder_buffer import ReorderBuffer
from tapgnn.online.server import ingest_queue
from tests.online.losable_postgres import LosablePostgres
from tests.online.server.failing import (
    Full,
    apply_fails,
    checkpoint_fails,
    commit_outcome_unknown,
    fragile,
    let_the_writer_finish,
    not_ready,
    ready_again,
)
from tests.online.server.running import running

LOSSES = ["kill", "stop", "terminate_sessions"]


@pytest.fixture(scope="module")
def postgres_to_lose():
    with tempfile.TemporaryDirectory(prefix="tapgnn-postgres-", ignore_cleanup_errors=True) as folder:
        server = LosablePostgres(Path(folder))
        yield server
        server.close()


@pytest.fixture
def schema_to_lose(postgres_to_lose, numbers=count()):  # noqa: B008
    return f"{postgres_to_lose.address}&schema=lost{next(numbers)}"


def send(client, rows, number):
    """Send the batch of this number again and again until it is acknowledged, as a client with a number may."""
    while True:
        try:
            return client.observe(rows[5 * number : 5 * number + 5], sequence=number)
        except ServerError as error:
            if error.status not in (429, 503):
                raise


def check_whole(model, place, path, rows, batches):
    """The journal holds these batches once, and the state is that of a server on which nothing failed."""
    with Engine.open(model, place) as engine, Engine.open(model, path) as whole:
        for number in range(batches):
            whole.observe(rows[5 * number : 5 * number + 5], "till", number)
        assert engine.status()["accepted"] == 5 * batches
        assert engine.state_digest() == whole.state_digest()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_postgresql_is_found_again_without_a_restart(
    model, rows, postgres_to_lose, schema_to_lose, tmp_path, caplog, loss
):
    caplog.set_level("INFO", logger="tapgnn.online")
    with (
        running(model, schema_to_lose) as server,
        server.http() as http,
        server.client(producer="till", patience=0) as client,
    ):
        for number in range(3):
            send(client, rows, number)
        getattr(postgres_to_lose, loss)()
        with pytest.raises(ServerError, match="503") as refused:
            client.observe(rows[15:20], sequence=3)
        assert "connection was lost" in str(refused.value)
        if loss != "terminate_sessions":
            not_ready(http, "cannot be reached, or the connection was lost")
            assert http.get("/healthz").status_code == 200
            # What is known is still told.
            assert len(client.score([rows[0][:2]])) == 1
        postgres_to_lose.start()
        ready_again(http)
        for number in range(2, 6):
            assert send(client, rows, number).duplicate == (number == 2)
    said = [record.message for record in caplog.records]
    assert said.count("ready again") == 1
    assert 1 <= said.count("not ready") <= 4
    check_whole(model, schema_to_lose, tmp_path / "whole.db", rows, 6)


def test_a_connection_lost_while_nothing_is_written_is_noticed(model, rows, postgres_to_lose, schema_to_lose):
    with running(model, schema_to_lose) as server, server.http() as http, server.client(producer="till") as client:
        send(client, rows, 0)
        postgres_to_lose.kill()
        while http.get("/readyz").status_code == 200:
            pass
        not_ready(http, "cannot be reached, or the connection was lost")
        postgres_to_lose.start()
        ready_again(http)
        assert send(client, rows, 1).accepted == 5


def test_a_postgresql_that_lost_what_was_acknowledged_is_refused(model, rows, postgres_to_lose, schema_to_lose):
    from psycopg import connect

    address, _, schema = schema_to_lose.partition("&schema=")
    with running(model, schema_to_lose) as server, server.http() as http, server.client(producer="till") as client:
        for number in range(3):
            send(client, rows, number)
        postgres_to_lose.kill()
        while http.get("/readyz").status_code == 200:
            pass
        postgres_to_lose.start()
        with connect(address, autocommit=True) as other:
            taken = other.execute(f"DELETE FROM {schema}.log WHERE position = 3 RETURNING *").fetchall()
        while "position 3 was acknowledged" not in http.get("/readyz").text:
            pass
        with connect(address, autocommit=True) as other:
            other.execute(f"INSERT INTO {schema}.log VALUES (%s, %s, %s, %s, %s, %s)", taken[0])
        ready_again(http)
        assert send(client, rows, 2).duplicate


@pytest.mark.parametrize("fail", [commit_outcome_unknown, apply_fails, checkpoint_fails])
def test_a_failure_in_a_batch_is_resolved_from_the_journal(model, rows, tmp_path, monkeypatch, caplog, fail):
    caplog.set_level("INFO", logger="tapgnn.online")
    with (
        fragile(model, tmp_path / "state.db", monkeypatch) as server,
        server.http() as http,
        server.client(producer="till", patience=0) as client,
    ):
        send(client, rows, 0)
        fail(server)
        answers = [send(client, rows, number) for number in range(1, 4)]
        assert [answer.position for answer in answers] == [2, 3, 4]
        ready_again(http)
        assert any(record.message == "ready again" for record in caplog.records)
    check_whole(model, tmp_path / "state.db", tmp_path / "whole.db", rows, 4)


def test_a_failure_that_stays_is_told_until_it_goes(model, rows, tmp_path, monkeypatch):
    """A batch that is in the journal and cannot be applied: the state is replayed again and again."""
    monkeypatch.setattr(ingest_queue, "LONGEST_PAUSE", 0.1)
    steps, broken = LiveState.steps, True

    def breaking(live, record, batch):
        if broken and record.position == 2:
            raise ZeroDivisionError
        return steps(live, record, batch)

    monkeypatch.setattr(LiveState, "steps", breaking)
    with (
        running(model, tmp_path / "state.db") as server,
        server.http() as http,
        server.client(producer="till", patience=0) as client,
    ):
        send(client, rows, 0)
        with pytest.raises(ServerError, match="503"):
            client.observe(rows[5:10], sequence=1)
        not_ready(http, "the engine failed")
        with pytest.raises(ServerError, match="503"):
            client.score([rows[0][:2]])
        broken = False
        ready_again(http)
        assert client.observe(rows[5:10], sequence=1).duplicate
        assert len(client.score([rows[0][:2]])) == 1


def test_a_full_disk_is_told_and_heals_when_there_is_room(model, rows, tmp_path, monkeypatch, caplog):
    with (
        fragile(model, tmp_path / "state.db", monkeypatch, Full) as server,
        server.http() as http,
        server.client(producer="till", patience=0) as client,
    ):
        send(client, rows, 0)
        connection = server.engine._journal.connection
        connection.full = True
        with pytest.raises(ServerError, match="the disk is full"):
            client.observe(rows[5:10], sequence=1)
        not_ready(http, "the disk is full")
        with pytest.raises(ServerError, match="the disk is full"):
            client.observe(rows[5:10], sequence=1)
        connection.full = False
        ready_again(http)
        assert send(client, rows, 1).accepted == 5
    assert [record.fields["reason"] for record in caplog.records if record.message == "not ready"]
    check_whole(model, tmp_path / "state.db", tmp_path / "whole.db", rows, 2)


def test_a_stop_on_a_full_disk_says_so_in_one_line(model, rows, tmp_path, monkeypatch, caplog):
    with fragile(model, tmp_path / "state.db", monkeypatch, Full) as server, server.client() as client:
        client.observe(rows[:5])
        let_the_writer_finish(server)
        # There is something to write.
        server.engine._writer.checkpoints.position = 0
        server.engine._journal.connection.full = True
    assert "stopped without a last checkpoint" in str(server.service.failure)
    assert "the disk is full" in str(server.service.failure)
    assert not [record for record in caplog.records if record.exc_info]
    with Engine.open(model, tmp_path / "state.db") as engine:
        assert engine.status()["accepted"] == 5


def test_a_head_file_that_cannot_be_written_costs_no_batch(model, rows, tmp_path, caplog):
    with Engine.open(model, tmp_path / "state.db") as engine:
        engine._journal._head_file, head_file = -1, engine._journal._head_file
        engine.observe(rows[:5])
        engine.observe(rows[5:10])
        engine._journal._head_file = head_file
        engine.observe(rows[10:15])
        assert caplog.text.count("state.db-head cannot be written") == 1
    with Engine.open(model, tmp_path / "state.db") as engine:
        assert engine.status()["accepted"] == 15


class Repeating:
    """A source without offsets that delivers some batches, one after the other."""

    name, lag = "repeating", None

    def __init__(self, rows, before):
        self.rows, self.before = rows, before

    def run(self, deliver, places, stop, rows):
        for number in range(4):
            self.before(number)
            deliver(rows.read(self.rows[5 * number : 5 * number + 5]), ())


@pytest.mark.parametrize("fail", [commit_outcome_unknown, apply_fails])
def test_a_source_goes_on_after_a_failure_and_delivers_everything_once(model, rows, tmp_path, monkeypatch, fail):
    def before(number):
        if number == 2:
            fail(holder[0])

    holder = []
    with fragile(model, tmp_path / "state.db", monkeypatch) as server:
        holder.append(server)
        done = server.service._followers.submit(server.service._follow, Repeating(rows, before), server.engine)
        done.result()
        assert server.engine.status()["accepted"] == 20
        assert server.service.failure is None


class Poisoned:
    """Lets the writer fail at the batches of a source, as long as it is told to; counts how often it did."""

    def __init__(self, monkeypatch):
        self.harmful, self.failures = True, 0
        add = ReorderBuffer.add

        def adding(buffer, batch, *others, **columns):
            if self.harmful and len(batch) == 5:
                self.failures += 1
                raise ZeroDivisionError
            return add(buffer, batch, *others, **columns)

        monkeypatch.setattr(ReorderBuffer, "add", adding)


def test_a_batch_of_a_source_that_always_fails_is_told_once_and_taken_in_when_it_can_be(
    model, rows, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(ingest_queue, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(ingest_queue, "LONGEST_PAUSE", 0.01)
    caplog.set_level("INFO", logger="tapgnn.online")
    poisoned, ready = Poisoned(monkeypatch), threading.Event()
    source = Repeating(rows, lambda number: ready.wait())
    with running(model, tmp_path / "state.db", sources=[source], late="merge") as server, server.http() as http:
        ready.set()
        while poisoned.failures < 20:
            pass
        not_ready(http, "repeating: the next batch is tried again until it can be taken in: the writer failed (Zero")
        poisoned.harmful = False
        ready_again(http)
        while server.engine.status()["accepted"] < 20:
            pass
        while "ready again" not in [record.message for record in caplog.records]:
            pass
    said = [record.message for record in caplog.records]
    assert [said.count(text) for text in ("the writer failed", "not ready", "ready again")] == [1, 1, 1]


def test_others_are_served_while_a_batch_of_a_source_waits_for_its_next_try(model, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(ingest_queue, "FIRST_PAUSE", 3_600.0)
    poisoned, ready = Poisoned(monkeypatch), threading.Event()
    source = Repeating(rows, lambda number: ready.wait())
    with running(model, tmp_path / "state.db", sources=[source], late="merge") as server, server.http() as http:
        ready.set()
        while server.service.queue.retry_reason is None or server.service.queue.unavailable_reason is not None:
            pass
        with server.client(producer="till") as client:
            for number in range(40):
                assert client.observe(rows[3 * number : 3 * number + 3], sequence=number).accepted == 3
        not_ready(http, "repeating: the next batch is tried again")
    assert poisoned.failures == 1
