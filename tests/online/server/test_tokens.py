"""Tokens: names, scopes and times; a file that is wrong in any way is refused; a change holds without a restart."""

import json
import os
import re
import signal
from datetime import datetime, timedelta

import httpx
import pytest

from tapgnn.errors import ConfigError
from tapgnn.online import Client
from tapgnn.online.server.service import ServerSettings
from tapgnn.online.server.tokens import LOOK_SECONDS, Tokens, WatchedTokens, parse_lifetime
from tests.cli.command import started, tapgnn
from tests.online.server.running import running

HASH = "9f" * 32
ENTRY = {"name": "a", "scope": "read", "sha256": HASH, "created": "2026-03-01T12:00:00Z", "expires": None}


def written(path, *entries, **changes):
    path.write_text(json.dumps({"format": 1, "tokens": list(entries), **changes}))
    path.chmod(0o600)
    return path


def test_tokens_are_made_listed_and_revoked_on_the_command_line(tmp_path):
    path = tmp_path / "tokens.json"
    made = [
        tapgnn("token", "new", "--file", path, *options)
        for options in ((), ("--scope", "write"), ("--name", "till", "--expires", "90d"), ())
    ]
    texts = [outcome.out.strip() for outcome in made]
    assert [outcome.err.partition(":")[0] for outcome in made] == ["read-1", "write-1", "till", "read-2"]
    listed = tapgnn("token", "list", "--file", path, "--json").last["tokens"]
    assert [(each["name"], each["scope"], each["expired"]) for each in listed] == [
        ("read-1", "read", False), ("write-1", "write", False), ("till", "read", False), ("read-2", "read", False)
    ]  # fmt: skip
    span = datetime.fromisoformat(listed[2]["expires"]) - datetime.fromisoformat(listed[2]["created"])
    assert span == timedelta(days=90)
    assert f"valid until {listed[2]['expires']}" in " ".join(made[2].err.split())
    shown = tapgnn("token", "list", "--file", path).out
    assert all(each["name"] in shown for each in listed)
    assert not any(text in path.read_text() + shown for text in texts)
    assert "already" in tapgnn("token", "new", "--file", path, "--name", "till").refusal
    assert "revoked" in tapgnn("token", "revoke", "till", "--file", path).err
    assert "the tokens are: read-1, write-1, read-2" in tapgnn("token", "revoke", "till", "--file", path).refusal
    tokens = Tokens.load(path)
    assert [tokens.scope_of(text) for text in texts] == ["read", "write", None, "read"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_token_is_refused_from_the_moment_at_which_it_expires():
    tokens = Tokens()
    lasting, over = tokens.add("write", lifetime=timedelta(hours=1)), tokens.add("write", lifetime=timedelta(0))
    assert [tokens.scope_of(text) for text in (lasting, over)] == ["write", None]


@pytest.mark.parametrize("text", ["", "90", "d", "-1d", "0d", "1.5h", "90 d", "1m", "٩d", "9999999999d", "999999999y"])
def test_a_lifetime_that_is_none_is_refused(text, tmp_path):
    with pytest.raises(ConfigError, match="--expires"):
        parse_lifetime(text)
    assert "--expires" in tapgnn("token", "new", "--file", tmp_path / "t.json", f"--expires={text}").refusal
    assert not (tmp_path / "t.json").exists()


def test_a_lifetime_beyond_the_calendar_is_refused(tmp_path):
    assert "that long" in tapgnn("token", "new", "--file", tmp_path / "t.json", "--expires", "9000y").refusal


@pytest.mark.parametrize(
    "change",
    [
        {"sha256": "ä" * 64},
        {"sha256": HASH.upper()},
        {"sha256": HASH[:-1]},
        {"sha256": None},
        {"sha256": 7},
        {"scope": "all"},
        {"scope": None},
        {"scope": ["read"]},
        {"name": ""},
        {"name": "x" * 101},
        {"name": "a\nb"},
        {"name": "\x1b[31m"},
        {"created": "yesterday"},
        {"expires": "2026-03-01"},
        {"expires": "never"},
        {"expires": 5},
        {"more": 1},
    ],
)
def test_a_file_with_anything_else_in_it_is_refused_in_one_line(change, tmp_path, model):
    path = written(tmp_path / "tokens.json", {**ENTRY, **change})
    with pytest.raises(ConfigError, match=re.escape(str(path))):
        Tokens.load(path)
    said = tapgnn("token", "list", "--file", path).refusal
    assert "\x1b" not in said
    assert str(path) in tapgnn("serve", model, "--journal", tmp_path / "s.db", "--tokens", path).refusal
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize("content", [b"", b"[]", b"7", b"{}", b"\xff", b"[" * 100_000, b'{"format": 2, "tokens": []}'])
def test_a_file_that_holds_no_tokens_is_refused_in_one_line(content, tmp_path):
    path = tmp_path / "tokens.json"
    path.write_bytes(content)
    path.chmod(0o600)
    assert str(path) in tapgnn("token", "list", "--file", path).refusal


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has permissions of a group and of others")
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_change_is_refused(mode, tmp_path, model):
    path = written(tmp_path / "tokens.json", ENTRY)
    path.chmod(mode)
    for command in (
        ("serve", model, "--journal", tmp_path / "s.db", "--tokens", path),
        ("token", "new", "--file", path),
        ("token", "list", "--file", path),
    ):
        assert f"chmod go-w {path}" in tapgnn(*command).refusal
    path.chmod(0o644)
    assert tapgnn("token", "list", "--file", path).code == 0


def test_a_change_of_the_file_holds_without_a_restart(model, tmp_path, caplog):
    path, now = tmp_path / "tokens.json", [0.0]
    tokens = Tokens()
    first = tokens.add("read", "first")
    tokens.save(path)
    watched = WatchedTokens(path, lambda: now[0])
    with running(model, tmp_path / "state.db", ServerSettings(tokens=watched)) as server, server.http() as http:

        def status(token):
            now[0] += LOOK_SECONDS
            return http.get("/v1/model", headers={"Authorization": f"Bearer {token}"}).status_code

        second = tokens.add("read", "second")
        assert (status(first), status(second)) == (200, 401)
        tokens.save(path)
        assert (status(first), status(second)) == (200, 200)
        tokens.revoke("first")
        tokens.save(path)
        assert (status(first), status(second)) == (401, 200)
        # Until a file can be read again, what was read last holds.
        for damage in (lambda: path.write_text("{"), lambda: path.chmod(0o666), path.unlink):
            damage()
            assert (status(first), status(second)) == (401, 200)
        tokens.revoke("second")
        tokens.save(path)
        assert status(second) == 401
    assert sum(record.message == "tokens not reloaded" for record in caplog.records) == 3


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
def test_sighup_reads_the_tokens_again_and_ends_nothing(model, rows, tmp_path):
    path = tmp_path / "tokens.json"
    tokens = Tokens()
    keep, revoked = tokens.add("write", "keep"), tokens.add("read", "revoked")
    tokens.save(path)
    process = started("serve", model, "--journal", tmp_path / "state.db", "--port", 0, "--tokens", path)
    url = process.stdout.readline().split()[-1]
    with Client(url, keep) as client, httpx.Client(base_url=url, timeout=60) as http:
        client.wait_until_ready(600)
        client.observe(rows[:3])
        status = lambda: http.get("/v1/model", headers={"Authorization": f"Bearer {revoked}"}).status_code  # noqa: E731
        assert status() == 200
        tokens.revoke("revoked")
        tokens.save(path)
        process.send_signal(signal.SIGHUP)
        while status() == 200:
            pass
        client.observe(rows[3:6])
        assert client.model()["status"]["accepted"] == 6
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert '"tokens reloaded"' in err
    assert keep not in err
