"""No batch is taken twice: the server tells whether one may be in its journal, and the client goes by that."""

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from tapgnn.errors import OutcomeUnknownError, ServerError, UnavailableError
from tapgnn.online import Request
from tapgnn.online.client import NOTHING_TAKEN, OUTCOME_UNKNOWN, Client
from tests.online.server.failing import (
    Full,
    Unreadable,
    apply_fails,
    commit_outcome_unknown,
    fragile,
    let_the_writer_finish,
)
from tests.online.server.running import running


def accepted(server):
    return server.engine.status()["accepted"]


def send_through_a_failure(model, rows, path, monkeypatch, fail, **options):
    """Send a batch on which a server fails and is started again; what became of it, and the events in the journal."""
    with ThreadPoolExecutor(1) as thread:
        with fragile(model, path, monkeypatch, late="merge") as server:
            client, port = server.client(**options), urlsplit(server.url).port
            client.observe(rows[:5])
            let_the_writer_finish(server)
            fail(server)
            sending = thread.submit(client.observe, rows[5:9])
            journal = server.engine._journal
            while journal.head < 2 and not journal.outcome_unknown and not sending.done():
                pass
        # Who still tries to send the batch finds a server that is well.
        with running(model, path, port=port, late="merge") as server, client:
            return sending.exception() or sending.result(), accepted(server)


@pytest.mark.parametrize("fail", [commit_outcome_unknown, apply_fails])
def test_a_batch_without_a_number_is_not_sent_again_where_the_server_may_have_it(
    model, rows, tmp_path, monkeypatch, fail
):
    told, events = send_through_a_failure(model, rows, tmp_path / "state.db", monkeypatch, fail)
    assert events == 9
    assert isinstance(told, ServerError)
    assert (told.status, told.type) == (503, OUTCOME_UNKNOWN)
    assert "only if it has a producer and a sequence" in str(told)


def test_a_batch_with_a_number_is_sent_again_and_taken_once(model, rows, tmp_path, monkeypatch):
    told, events = send_through_a_failure(
        model, rows, tmp_path / "state.db", monkeypatch, commit_outcome_unknown, producer="till"
    )
    assert events == 9
    assert told.duplicate


def test_a_batch_without_a_number_is_sent_again_where_nothing_of_it_was_taken(model, rows, tmp_path):
    refused = []

    def observe(url, patience):
        with Client(url, patience=patience) as client:
            return client.observe(rows[:5])

    with ThreadPoolExecutor(1) as thread:

        def opening(url):
            with pytest.raises(ServerError, match="being replayed") as error:
                observe(url, 0)
            refused.append((error.value.status, error.value.type))
            refused.append(thread.submit(observe, url, 60))

        with running(model, tmp_path / "state.db", opening=opening) as server:
            told, sending = refused
            assert told == (503, NOTHING_TAKEN)
            assert sending.result().accepted == accepted(server) == 5


def test_a_full_disk_takes_nothing_and_says_so(model, rows, tmp_path, monkeypatch):
    with (
        fragile(model, tmp_path / "state.db", monkeypatch, Full) as server,
        server.client(patience=0) as client,
    ):
        client.observe(rows[:5])
        let_the_writer_finish(server)
        connection = server.engine._journal.connection
        connection.full = True
        with pytest.raises(ServerError, match="the disk is full") as refused:
            client.observe(rows[5:9])
        assert (refused.value.status, refused.value.type) == (503, NOTHING_TAKEN)
        connection.full = False
        client.wait_until_ready()
        client.observe(rows[5:9])
        assert accepted(server) == 9


def test_a_journal_that_cannot_tell_a_duplicate_takes_nothing_and_says_so(model, rows, tmp_path, monkeypatch):
    with (
        fragile(model, tmp_path / "state.db", monkeypatch, Unreadable) as server,
        server.client(producer="p", patience=0) as client,
    ):
        client.observe(rows[:5], sequence=1)
        server.engine._journal.connection.unreadable = True
        with pytest.raises(ServerError, match="disk I/O error") as refused:
            client.observe(rows[5:9], sequence=0)
        assert (refused.value.status, refused.value.type) == (503, NOTHING_TAKEN)
        server.engine._journal.connection.unreadable = False
        assert client.observe(rows[5:9], sequence=0).accepted == 4


def test_batches_behind_one_with_an_unknown_outcome_were_certainly_not_taken(model, rows, tmp_path, monkeypatch):
    def request(row):
        src, dst, time, features = row
        return Request(server.engine.rows.read({"src": [src], "dst": [dst], "time": [time], "features": [features]}))

    with fragile(model, tmp_path / "state.db", monkeypatch) as server:
        first, second = request(rows[0]), request(rows[1])
        with server.engine._writing:
            commit_outcome_unknown(server)
            server.service.queue.submit(first)
            while server.service.queue.queued_batches:
                pass
            server.service.queue.submit(second)
        assert isinstance(first.answer.exception(), OutcomeUnknownError)
        assert isinstance(second.answer.exception(), UnavailableError)
