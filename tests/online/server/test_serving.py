"""The commands serve and token: a process fed from a file, that ends in order and goes on where it stood."""

import json
import signal
import socket
import threading

import pytest

from tapgnn.errors import ConfigError
from tapgnn.online import Client, Engine
from tapgnn.online.server.serving import listen
from tapgnn.online.server.tokens import Tokens
from tests.cli.command import started, tapgnn


def as_line(row):
    return json.dumps(dict(zip(("src", "dst", "time", "features"), row, strict=True))) + "\n"


def accepted(client, count):
    """Wait until the journal has so many events."""
    for _ in range(600):
        found = client.model()["status"]["accepted"]
        if found >= count:
            return found
        threading.Event().wait(0.05)
    raise AssertionError(f"{found} of {count} events after 30 s")


def test_a_served_file_is_taken_in_once_across_restarts_and_sigterm_ends_in_order(model, rows, tmp_path):
    log, journal = tmp_path / "events.jsonl", tmp_path / "state.db"
    made = tapgnn("token", "new", "--scope", "write", "--file", tmp_path / "tokens.json")
    token = made.out.strip()
    assert token not in made.err
    log.write_text("".join(as_line(row) for row in rows[:30]))
    said = []
    for start, stop in ((30, 60), (60, 90)):
        options = ("--port", 0, "--source", log, "--tokens", tmp_path / "tokens.json", "--window", 200)
        process = started("serve", model, "--journal", journal, *options)
        url = process.stdout.readline().split()[-1]
        with Client(url, token) as client:
            client.wait_until_ready()
            with open(log, "a", encoding="utf-8") as stream:
                stream.write("".join(as_line(row) for row in rows[start:stop]))
            assert accepted(client, stop) == stop
        process.send_signal(signal.SIGTERM)
        said.append(process.communicate(timeout=60)[1])
        assert process.returncode == 0, said[-1]
    lines = [json.loads(line) for text in said for line in text.splitlines()]
    assert {"ready", "request", "closed"} <= {line["message"] for line in lines}
    assert rows[0][0] not in {str(value) for line in lines for value in line.values()}
    assert token not in "".join(said)
    with Engine.open(model, journal) as engine:
        assert engine.status()["accepted"] == 90
        assert engine.status()["checkpoint_age"] == 0
        assert engine.offsets()[f"file:{log}", next(part for _, part in engine.offsets())] == log.stat().st_size


def test_what_cannot_be_served_is_refused_in_one_line(model, tmp_path):
    journal = ("--journal", tmp_path / "state.db")
    assert "tapgnn token new" in tapgnn("serve", model, *journal, "--host", "0.0.0.0").refusal
    assert "model.json is missing" in tapgnn("serve", tmp_path, *journal).refusal
    assert "not a token file" in tapgnn("serve", model, *journal, "--tokens", model / "model.json").refusal
    assert "kafka://HOST:PORT/TOPIC" in tapgnn("serve", model, *journal, "--source", "kafka://here").refusal
    wrong = tapgnn("serve", model, *journal, "--source", "kafka://h:1/t", "--kafka-option", "sasl.password:hunter2")
    assert "KEY=VALUE" in wrong.refusal
    assert "hunter2" not in wrong.refusal
    assert "ends in none of" in tapgnn("serve", model, *journal, "--source", tmp_path / "log.bin").refusal
    assert "scope" in tapgnn("token", "new", "--scope", "all", "--file", tmp_path / "t.json").refusal
    assert not (tmp_path / "state.db").exists()
    for place, reason in (
        (tmp_path / "none" / "state.db", f"there is no folder {tmp_path / 'none'}; create it"),
        (tmp_path, "it is a folder"),
        (model / "model.json" / "state.db", "there is no folder"),
        ("postgresql://ann:secret@x@host/none", "%40 for @"),
        ("mysql://ann:secret@host/none", "begins with postgresql://"),
    ):
        # Nothing is announced that is not there.
        refusal = tapgnn("serve", model, "--journal", place).refusal
        assert reason in refusal
        assert "secret" not in refusal
    process = started("serve", model, "--journal", "postgresql://127.0.0.1:1/none", "--port", 0)
    (*_, said) = process.communicate(timeout=600)[1].splitlines()
    assert process.returncode == 2
    assert "PostgreSQL cannot be reached" in said
    assert said.endswith("a running server reconnects by itself, and anything else is started again")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match="cannot listen"):
            listen("127.0.0.1", taken.getsockname()[1])


def test_tokens_are_added_to_a_file_and_told_apart(tmp_path):
    path = tmp_path / "tokens.json"
    texts = {scope: tapgnn("token", "new", "--scope", scope, "--file", path).out.strip() for scope in ("read", "write")}
    tokens = Tokens.load(path)
    assert {scope: tokens.scope_of(text) for scope, text in texts.items()} == {"read": "read", "write": "write"}
    assert tokens.scope_of("") is None
    assert tokens.scope_of("\ud800") is None
