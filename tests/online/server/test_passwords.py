"""The password of a database is in nothing that a server says, whatever fails: standard error, bodies, metrics."""

import signal
import tempfile
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from psycopg import connect

from tapgnn.online import Client
from tests.cli.command import started
from tests.online.losable_postgres import LosablePostgres
from tests.online.server.running import body_of

PASSWORD = "pa+ss %w/ord@x?y&z"


@pytest.fixture(scope="module")
def guarded():
    """A PostgreSQL that asks the role `guarded` for its password, and where it listens."""
    with tempfile.TemporaryDirectory(prefix="tapgnn-postgres-", ignore_cleanup_errors=True) as folder:
        server = LosablePostgres(Path(folder))
        with connect(server.address, autocommit=True) as admin:
            admin.execute("CREATE ROLE guarded LOGIN PASSWORD '" + PASSWORD + "'")
            admin.execute("GRANT CREATE ON DATABASE postgres TO guarded")
            ((rules,),) = admin.execute("SHOW hba_file").fetchall()
            Path(rules).write_text("local all guarded scram-sha-256\n" + Path(rules).read_text())
            admin.execute("SELECT pg_reload_conf()")
            place = admin.info.host
        yield server, place
        server.close()


def said_by(model, address, rows, lose):
    """Everything that a server says while it is asked for all it has, before and after the loss of its database."""
    process = started("serve", model, "--journal", address, "--port", 0, "--log-level", "debug", "--window", 100)
    url = process.stdout.readline().split()[-1]
    said = [url]
    with Client(url) as client, httpx.Client(base_url=url, timeout=60) as http:
        client.wait_until_ready()
        client.observe(rows[:3])
        for losing in (False, True):
            if losing:
                lose()
                assert http.post("/v1/events", json=body_of(rows[3:5])).status_code == 503
            found = [http.get(path) for path in ("/readyz", "/metrics", "/v1/model", "/v1/live", "/openapi.json")]
            assert found[0].status_code == (503 if losing else 200)
            said += [f"{answer.headers} {answer.text}" for answer in found]
    process.send_signal(signal.SIGTERM)
    said += process.communicate(timeout=60)
    assert process.returncode == 2
    assert "stopped without a last checkpoint" in said[-1]
    return "\n".join(said)


def test_a_server_that_loses_its_database_never_says_the_password(model, rows, guarded):
    server, place = guarded
    secret = quote(PASSWORD, safe="")
    address = f"postgresql://guarded:{secret}@{quote(place, safe='')}/postgres?schema=kept"
    said = said_by(model, address, rows, server.stop)
    server.start()
    assert "cannot be reached, or the connection was lost" in said
    assert f"guarded@{quote(place, safe='')}/postgres?schema=kept" in said
    assert PASSWORD not in said
    assert secret not in said


def test_a_wrong_password_and_what_the_database_says_of_it_are_not_shown(model, guarded):
    _, place = guarded
    here = quote(place, safe="")
    for address, reason in (
        (f"postgresql://guarded@{here}/postgres?password=not-right", "authentication failed"),
        # The database repeats what it was told.
        (f"postgresql://postgres@{here}/postgres?password=not-right&options=-crole%3Dnot-right", "***"),
    ):
        process = started("serve", model, "--journal", address, "--port", 0)
        out, err = process.communicate(timeout=600)
        assert process.returncode == 2
        assert reason in err
        assert "not-right" not in out + err
