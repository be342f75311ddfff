"""The journal of a running server is copied over HTTP, while it takes events in."""

import threading

import pytest

from tapgnn.errors import JournalError, ServerError
from tapgnn.online import Engine
from tapgnn.online.journal.backup import back_up
from tapgnn.online.server.service import ServerSettings
from tapgnn.online.server.tokens import Tokens
from tests.cli.command import tapgnn
from tests.online.server.running import running


def test_the_command_copies_what_a_server_has_taken_in(server, rows, model, tmp_path):
    done, sent = threading.Event(), []

    def write():
        with server.client(producer="till") as client:
            while not done.is_set() and len(sent) < len(rows):
                client.observe(rows[len(sent) : len(sent) + 1])
                sent.append(True)

    writer = threading.Thread(target=write)
    writer.start()
    before = []
    for number in range(3):
        before.append(len(sent))
        copied = tapgnn("backup", server.url, tmp_path / f"copy{number}.db", "--json")
        assert copied.code == 0, copied.err
        assert before[-1] <= copied.last["position"] <= len(rows)
    done.set()
    writer.join()
    assert "exists; remove it" in tapgnn("backup", server.url, tmp_path / "copy0.db").refusal
    for number in range(3):
        with Engine.open(model, tmp_path / f"copy{number}.db", verify=True) as copy:
            position, digest = copy.status()["position"], copy.state_digest()
        with Engine.open(model, tmp_path / f"calm{number}.db") as calm:
            for step in range(position):
                calm.observe(rows[step : step + 1], "till", step)
            assert calm.state_digest() == digest
    assert not list(tmp_path.glob("*-copy*")), "nothing is left beside the journal"


def test_only_who_may_write_gets_a_copy(model, tmp_path):
    tokens = Tokens()
    reading, writing = tokens.add("read"), tokens.add("write")
    with running(model, tmp_path / "state.db", ServerSettings(tokens=tokens)) as server:
        for token, reason in ((None, "401"), (reading, "403")):
            arguments = () if token is None else ("--token", token)
            assert reason in tapgnn("backup", server.url, tmp_path / "copy.db", *arguments).refusal
            assert not list(tmp_path.glob("copy.db*"))
        assert tapgnn("backup", server.url, tmp_path / "copy.db", "--token", writing).code == 0


def test_one_copy_is_made_at_a_time(server, rows, tmp_path):
    with server.client() as client:
        client.observe(rows[:5])
    engine = server.engine
    started, go = threading.Event(), threading.Event()
    check = engine._journal.check_usable

    def waiting():
        started.set()
        go.wait()
        check()

    engine._journal.check_usable = waiting
    with server.client() as one, server.client() as other:
        first = threading.Thread(target=one.download_backup, args=(tmp_path / "first.db",))
        first.start()
        started.wait()
        with pytest.raises(ServerError, match=r"429.*another copy is being made"):
            other.download_backup(tmp_path / "second.db")
        go.set()
        first.join()
    engine._journal.check_usable = check
    with server.client() as client:
        client.download_backup(tmp_path / "third.db")
    assert (tmp_path / "first.db").read_bytes()[100:] == (tmp_path / "third.db").read_bytes()[100:]


def test_a_copy_of_an_engine_that_closes_meanwhile_is_refused(model, rows, tmp_path):
    engine = Engine.open(model, tmp_path / "s.db")
    engine.observe(rows[:5])
    check = engine._journal.check_usable

    def closing():
        engine.close()
        check()

    engine._journal.check_usable = closing
    with pytest.raises(JournalError, match="connection was lost"):
        back_up(engine._journal, tmp_path / "copy.db")
    assert {path.name for path in tmp_path.iterdir()} == {"s.db", "s.db-head"}


def test_a_server_on_postgresql_names_its_tool(model, fresh_schema, tmp_path):
    with running(model, fresh_schema) as server:
        assert "pg_dump --schema=" in tapgnn("backup", server.url, tmp_path / "copy.db").refusal
        assert not list(tmp_path.iterdir())
