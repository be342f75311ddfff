"""A server that cannot take events says so: on /readyz, in its metrics, and once in its log."""

from contextlib import nullcontext

import pytest

from tapgnn.errors import ServerError
from tapgnn.online import Engine
from tests.online.server.failing import (
    apply_fails,
    checkpoint_fails,
    commit_in_doubt,
    fragile,
    let_the_writer_finish,
    witness_lost,
)
from tests.online.server.running import running

# What goes wrong, the reason that is told, and whether the batch on which it went wrong is acknowledged.
FAILURES = {
    "a commit in doubt": (commit_in_doubt, "unknown whether the last commit", False),
    "a commit without its witness": (witness_lost, "the engine failed", False),
    "a batch that cannot be applied": (apply_fails, "the engine failed", False),
    "a writer that ends": (checkpoint_fails, "the writer ended in an error (MemoryError)", True),
}


def gauge(http):
    (line,) = (line for line in http.get("/metrics").text.splitlines() if line.startswith("tapgnn_ready "))
    return float(line.split()[1])


def check_not_ready(http, reason):
    answer = http.get("/readyz")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"]
    assert reason in answer.json()["detail"]
    assert gauge(http) == 0


def check_said_once(caplog, reason):
    said = [record.fields["reason"] for record in caplog.records if record.message == "not ready"]
    assert len(said) == 1
    assert reason in said[0]


@pytest.mark.parametrize("failure", FAILURES)
def test_what_breaks_behind_a_server_is_told_until_it_is_started_again(
    model, rows, tmp_path, monkeypatch, caplog, failure
):
    fail, reason, acknowledged = FAILURES[failure]
    with fragile(model, tmp_path / "state.db", monkeypatch) as server, server.http() as http:
        with server.client(patience=0) as client:
            assert client.observe(rows[:5]).accepted == 5
            assert http.get("/readyz").status_code == 200
            assert gauge(http) == 1
            let_the_writer_finish(server)
            fail(server)
            with nullcontext() if acknowledged else pytest.raises(ServerError, match="/v1/events: 503"):
                client.observe(rows[5:9])
            let_the_writer_finish(server)
            for _ in range(3):
                check_not_ready(http, reason)
            assert http.get("/healthz").status_code == 200
            with pytest.raises(ServerError, match="503") as refused:
                client.observe(rows[9:12])
            assert reason in str(refused.value)
        check_said_once(caplog, reason)
    with Engine.open(model, tmp_path / "state.db") as engine:
        assert engine.status()["accepted"] == 9


def test_a_journal_that_can_no_longer_be_reached_is_told_too(model, rows, fresh_schema, caplog):
    with running(model, fresh_schema) as server, server.http() as http, server.client(patience=0) as client:
        client.observe(rows[:5])
        from psycopg import connect

        with connect(fresh_schema.split("&schema")[0], autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (server.engine._journal.connection.info.backend_pid,))
        with pytest.raises(ServerError, match="connection was lost"):
            client.observe(rows[5:9])
        check_not_ready(http, "the connection was lost")
        # What is known is still told.
        assert len(client.score([rows[0][:2]])) == 1
        check_said_once(caplog, "the connection was lost")
    with Engine.open(model, fresh_schema) as engine:
        assert engine.status()["accepted"] == 5
