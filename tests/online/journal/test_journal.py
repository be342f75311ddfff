"""Journals that are in use, damaged, cut, full, or of another kind are refused loudly, and nothing is overwritten."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tapgnn.errors import ConfigError, JournalError, LateEventError
from tapgnn.online import Engine, Request
from tapgnn.online.journal.journal_place import open_journal
from tapgnn.online.journal.record import Kind, Record
from tapgnn.online.journal.undo_and_migrate import migrate

from ..live import saved_model


def fill(engine, first=0, last=30):
    rng = np.random.default_rng(0)
    for step in range(first, last):
        src, dst = rng.integers(0, 9, (2, 4)).tolist()
        times = [1e9 + step + 0.25 * part for part in range(4)]
        engine.observe({"src": src, "dst": dst, "time": times}, "source", step, ("topic", 0, step))


def image(folder):
    """What the files hold; an empty write-ahead log is as good as none."""
    return {path.name: held for path in Path(folder).iterdir() if (held := path.read_bytes()) or path.suffix == ".db"}


@pytest.fixture
def filled(place):
    """A place with a closed journal, and the digest of its state."""
    with Engine.open(saved_model(), place, checkpoint_every=8) as engine:
        fill(engine)
        return place, engine.state_digest()


def tamper(place, statement, values=()):
    journal = open_journal(place)
    with journal.transaction():
        journal.run(statement, values)
    journal.close()


def test_a_second_writer_is_refused_while_the_first_goes_on(place):
    with Engine.open(saved_model(), place) as engine:
        with pytest.raises(JournalError, match="in use by another writer"):
            Engine.open(saved_model(), place)
        program = f"from tapgnn.online.journal.journal_place import open_journal; open_journal({place!r})"
        other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert "in use by another writer" in other.stderr
        engine.observe((0, 1, 1e9))
        digest = engine.state_digest()
    with Engine.open(saved_model(), place) as engine:
        assert engine.state_digest() == digest


def test_offsets_are_those_of_the_records_that_were_kept(filled):
    place, digest = filled
    with Engine.open(saved_model(), place) as engine:
        assert engine.offsets() == {("topic", 0): 29}
        with pytest.raises(ConfigError, match="offset is a whole number"):
            engine.observe((0, 1, 2e9), offset=("topic", 0, -1))
        assert engine.state_digest() == digest


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (("UPDATE facts SET value = '7' WHERE name = 'format'",), "metadata 'format' is damaged"),
        (("UPDATE log SET sequence = 77 WHERE position = 30",), "position 30 is damaged"),
        (("UPDATE log SET payload = ? WHERE position = 30", (b"tgb1 and something",)), "position 30 is damaged"),
        (("UPDATE log SET position = -1 WHERE position = 30",), "ends at position 29, but"),
        (("DELETE FROM log WHERE position > 20",), "ends at position 20, but"),
        (("UPDATE blocks SET data = ?", (b"\0" * 8,)), r"block \d of its checkpoint is damaged.*migrate"),
        (("UPDATE blocks SET places = ?", (b"\0" * 8,)), r"block \d of its checkpoint is damaged.*migrate"),
        (("DELETE FROM blocks",), r"should have 9 rows in \d blocks and has 0 in 0"),
    ],
)
def test_damage_is_named_and_nothing_is_overwritten(filled, damage, message):
    place, _ = filled
    tamper(place, *damage)
    for _ in range(2):
        with pytest.raises(JournalError, match=message):
            Engine.open(saved_model(), place)


def test_what_a_checkpoint_makes_needless_is_read_on_request_and_where_it_is_needed(filled):
    place, digest = filled
    tamper(place, "UPDATE log SET payload = ? WHERE position = 7", (b"x",))
    with Engine.open(saved_model(), place) as engine:
        assert engine.state_digest() == digest
        with pytest.raises(JournalError, match="position 7 is damaged"):
            engine.erase(3)
        assert engine.state_digest() == digest
        engine.observe((0, 1, 2e9))
    with pytest.raises(JournalError, match="position 7 is damaged"):
        Engine.open(saved_model(), place, verify=True)


def test_a_newer_format_is_refused(filled):
    place, digest = filled
    journal = open_journal(place)
    journal.set_metadata({"format": 4})
    journal.close()
    with pytest.raises(JournalError, match="has format 4, this version reads up to 3; upgrade"):
        Engine.open(saved_model(), place)
    assert digest


def test_rows_of_another_layout_are_refused_until_they_are_rebuilt(filled):
    place, digest = filled
    journal = open_journal(place)
    facts = journal.metadata()["checkpoint"]
    facts["layout"][0][1] += 1
    journal.set_metadata({"checkpoint": facts})
    journal.close()
    with pytest.raises(JournalError, match=r"another version of tapgnn.*migrate"):
        Engine.open(saved_model(), place)
    migrate(place, saved_model())
    with Engine.open(saved_model(), place) as engine:
        assert engine.state_digest() == digest


def test_a_full_disk_refuses_the_batch_and_keeps_the_rest(place):
    with Engine.open(saved_model(), place, checkpoint_every=1000) as engine:
        fill(engine, 0, 5)
        _fill_disk(engine._journal)
        taken, full = 5, None
        while full is None:
            digest = engine.state_digest()
            try:
                fill(engine, taken, taken + 1)
                taken += 1
            except JournalError as error:
                full = str(error)
        assert f"disk is full at position {taken}; nothing was written" in full
        assert (engine.state_digest(), engine.status()["position"]) == (digest, taken)
        assert engine.offsets() == {("topic", 0): taken - 1}
        assert np.isfinite(engine.score([0], [1])).all()
        large = {"src": [0] * 2000, "dst": [1] * 2000, "time": [1e9 + 5000] * 2000}
        late, large = Request((0, 1, 1e9), "late", 0), Request(large, "large", 0)
        engine.observe_many([late, large])
        assert isinstance(late.answer.exception(), LateEventError)
        assert "disk is full" in str(large.answer.exception())
        _free_disk(engine._journal)
        fill(engine, taken, taken + 4)
        digest = engine.state_digest()
    with Engine.open(saved_model(), place, verify=True) as engine:
        assert (engine.state_digest(), engine.status()["position"]) == (digest, taken + 4)


def _fill_disk(journal):
    """Let the database run out of room: a limit of pages; or, in PostgreSQL, the error that a full disk gives there."""
    if hasattr(journal, "schema"):
        body = "BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END"
        journal.run(f"CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
        journal.run("CREATE TRIGGER full_disk BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION full_disk()")
    else:
        journal.run(f"PRAGMA max_page_count = {journal.run('PRAGMA page_count')[0][0]}")


def _free_disk(journal):
    free = "DROP TRIGGER full_disk ON log" if hasattr(journal, "schema") else "PRAGMA max_page_count = 1000000"
    journal.run(free)


def test_a_checkpoint_that_finds_no_room_harms_nothing(tmp_path, caplog):
    with Engine.open(saved_model(), tmp_path / "s.db", checkpoint_every=2) as engine:
        fill(engine, 0, 1)
        save, engine._journal.save = engine._journal.save, _no_room
        assert engine.observe((0, "new", 2e9)).accepted == 1
        assert "no room" in engine.status()["checkpoint_error"]
        assert "no checkpoint" in caplog.text
        engine._journal.save = save
        engine.observe((0, 1, 2e9 + 1))
        assert engine.status()["checkpoint_error"] is None
        digest = engine.state_digest()
    with Engine.open(saved_model(), tmp_path / "s.db") as engine:
        assert engine.state_digest() == digest


def _no_room(*_):
    raise JournalError("no room for a checkpoint")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A folder with a closed journal, the files of the same journal as a death would leave them, and the digest."""
    folder = tmp_path_factory.mktemp("sound")
    (folder / "closed").mkdir()
    with Engine.open(saved_model(), folder / "closed" / "s.db", checkpoint_every=8) as engine:
        fill(engine)
        dead = shutil.copytree(folder / "closed", folder / "dead")
        digest = engine.state_digest()
    return folder / "closed", dead, digest


def test_a_cut_file_is_refused_wherever_it_is_cut(sound, tmp_path):
    closed, _, _ = sound
    whole = (closed / "s.db").read_bytes()
    for size in np.linspace(0, len(whole) - 1, 25).astype(int):
        folder = shutil.copytree(closed, tmp_path / str(size))
        (folder / "s.db").write_bytes(whole[:size])
        before = image(folder)
        with pytest.raises(JournalError):
            Engine.open(saved_model(), folder / "s.db", verify=True)
        assert image(folder) == before


def test_flipped_bytes_are_found_out_or_do_not_matter(sound, tmp_path):
    closed, _, digest = sound
    whole = (closed / "s.db").read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    used = np.flatnonzero(np.frombuffer(whole, np.uint8))
    for number, place in enumerate(rng.choice(used, 60, replace=False)):
        folder = shutil.copytree(closed, tmp_path / str(number))
        (folder / "s.db").write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        before = image(folder)
        try:
            with Engine.open(saved_model(), folder / "s.db", verify=True) as engine:
                assert engine.state_digest() == digest, f"byte {place}"
        except JournalError:
            refused += 1
            assert image(folder) == before
    assert refused > 20


def test_a_lost_or_cut_write_ahead_log_is_refused(sound, tmp_path):
    _, dead, digest = sound
    with Engine.open(saved_model(), shutil.copytree(dead, tmp_path / "whole") / "s.db") as engine:
        assert engine.state_digest() == digest
    log = (dead / "s.db-wal").read_bytes()
    for number, rest in enumerate([b"", log[: len(log) // 2], log[:-9000], log[:5000] + b"\xff" + log[5001:]]):
        folder = shutil.copytree(dead, tmp_path / str(number))
        (folder / "s.db-wal").write_bytes(rest)
        with pytest.raises(JournalError, match=r"-wal file is missing|cut to nothing"):
            Engine.open(saved_model(), folder / "s.db")


@pytest.mark.parametrize("content", [b"src,dst,time\n1,2,3\n" * 200, "a database"])
def test_a_file_that_is_no_journal_is_left_alone(tmp_path, content):
    path = tmp_path / "payments.db"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE payments (amount)")
        connection.close()
    before = image(tmp_path)
    with pytest.raises(JournalError, match="not a tapgnn journal"):
        Engine.open(saved_model(), path)
    assert image(tmp_path) == before
    with pytest.raises(JournalError, match="cannot be"):
        Engine.open(saved_model(), tmp_path / "no" / "such" / "folder.db")


def test_a_commit_in_doubt_stops_the_engine_until_the_journal_is_asked(fresh_schema):
    """The server ends the session in the middle of things; what was acknowledged is there afterwards."""
    engine = Engine.open(saved_model(), fresh_schema)
    fill(engine, 0, 5)
    digest = engine.state_digest()
    from psycopg import connect

    with connect(fresh_schema.split("&schema")[0], autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (engine._journal.connection.info.backend_pid,))
    with pytest.raises(JournalError, match="connection was lost"):
        fill(engine, 5, 6)
    engine._journal.close()
    with Engine.open(saved_model(), fresh_schema) as engine:
        assert engine.state_digest() == digest
        fill(engine, 0, 6)
        assert engine.status()["accepted"] == 24


def test_no_message_shows_a_password():
    for address in (
        "postgresql://ann:secret@127.0.0.1:1/none",
        "postgresql://ann:secret?y@127.0.0.1:1/none",
        "postgresql://127.0.0.1:1/none?password=secret&schema=a",
        "postgresql://127.0.0.1:1/none?pass%77ord=secret",
        "postgresql:///none?host=127.0.0.1&port=1&sslpassword=secret&password=secret",
    ):
        with pytest.raises(JournalError, match=r"127.0.0.1:1/none\?schema=.*cannot be reached") as refused:
            open_journal(address)
        assert "secret" not in str(refused.value)
    for address in (
        "postgresql://ann:secret@[host/none",
        "postgresql://ann:secret@host/none?colour=red",
        "postgresql://ann:x%secret@host/none",
        "postgresql://ann:x@secret@host/none",
        "postgresql://ann:secret/x@host/none",
        "postgresql://ann:secret/x:y@host/none",
    ):
        with pytest.raises(JournalError, match=r"cannot be read .* %40 for @") as refused:
            open_journal(address)
        assert "secret" not in str(refused.value)
    for address in ("postgresql+psycopg://ann:secret@host/none", "host=here password=secret"):
        with pytest.raises(JournalError, match="begins with postgresql://") as refused:
            open_journal(address)
        assert "secret" not in str(refused.value)


def test_names_that_a_database_could_not_keep_are_refused(tmp_path):
    for producer, sequence in (("", 0), ("a\0b", 0), ("p" * 1001, 0), ("p", -1), ("p", 2**63), ("p", True)):
        with pytest.raises(ConfigError):
            Record(Kind.EVENTS, b"", producer, sequence)
    with Engine.open(saved_model(), tmp_path / "s.db") as engine, pytest.raises(ConfigError, match="printable name"):
        engine.observe((0, 1, 1e9), "a\nb", 0)


def test_ids_of_every_kind_come_back_as_they_were(place):
    names = ["", "'; DROP TABLE log; --", "snow ☃ and \0 nought", "7", 7, -3, 2**300, "x" * 1000, "\\u0041"]
    with Engine.open(saved_model(), place) as engine:
        engine.observe({"src": names, "dst": names[::-1], "time": [1e9] * len(names)})
        engine.flush()
        digest = engine.state_digest()
    with Engine.open(saved_model(), place) as engine:
        assert engine.state_digest() == digest
        with engine.live() as live:
            assert (live.model.vocabulary.rows(names) >= 0).all()


def test_the_work_of_opening_grows_with_the_producers_and_not_with_their_square(quick_path):
    """Counted in steps of the database's own machine."""
    steps = {}
    for producers in (400, 800):
        place = quick_path / f"{producers}.db"
        journal = open_journal(place)
        journal.append([Record(Kind.EVENTS, b"", f"p{number}", 0) for number in range(producers)])
        counted = []
        journal.connection.set_progress_handler(lambda counted=counted: counted.append(1) is not None, 100)
        journal.load()
        journal.close()
        steps[producers] = len(counted)
    assert steps[800] < 2.5 * steps[400]


def test_postgres_finds_the_newest_sequence_of_a_producer_in_the_index(fresh_schema):
    journal = open_journal(fresh_schema)
    journal.append([Record(Kind.EVENTS, b"", f"p{number}", 0) for number in range(50)])
    asked = []
    run = journal.run
    journal.run = lambda statement, values=(): asked.append((statement, values)) or run(statement, values)
    journal.load()
    run("SET enable_seqscan = off")
    (query,) = (statement for statement, _ in asked if "FROM producers" in statement)
    plan = " ".join(line for (line,) in run(f"EXPLAIN {query}"))
    assert "log_sequence" in plan
    journal.close()
