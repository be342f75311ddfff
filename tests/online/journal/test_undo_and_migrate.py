"""Retraction, erasure, migration and trimming: exact, of one piece, and without a trace."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapgnn import Events, Vocabulary, save_model
from tapgnn.errors import JournalError, QueryError, StateError
from tapgnn.online import Engine
from tapgnn.online.journal.sqlite import SqliteJournal
from tapgnn.online.journal.undo_and_migrate import migrate

from ...cli.command import tapgnn
from ...streams import streams, tiny_model
from ..live import batches, columns, everyone, offline_embeddings, quick_folder, saved_model


def observe_all(engine, sent):
    for number, batch in enumerate(sent):
        engine.observe(batch, "source", number)


def without(events, gone):
    """A stream without some of its events, under its vocabulary."""
    return events.take(np.setdiff1d(np.arange(len(events)), gone))


@settings(max_examples=15)
@given(data=st.data(), lateness=st.sampled_from([0.0, 2.0]))
def test_retracted_events_never_happened(data, lateness):
    events = data.draw(streams(max_events=20))
    sent = data.draw(batches(events))
    sizes = [len(batch["time"]) for batch in sent]
    gone = data.draw(st.sets(st.integers(0, len(events) - 1), min_size=1, max_size=3))
    policy = {"late": "buffer", "lateness": lateness} if lateness else {}
    folder, asked = saved_model(), events.time[-1] + 1.0
    with quick_folder() as place:
        with Engine.open(folder, f"{place}/s.db", checkpoint_every=2, **policy) as engine:
            observe_all(engine, sent)
            for event in gone:
                batch = int(np.searchsorted(np.cumsum(sizes), event, side="right"))
                index = event - sum(sizes[:batch])
                assert engine.retract(batch + 1, index) == 1
                with pytest.raises(QueryError, match="no event"):
                    engine.retract(batch + 1, index)
            rest, digest = without(events, list(gone)), engine.state_digest()
            if len(rest):
                expected = offline_embeddings(folder, rest, asked)
                found = engine.embed(everyone(rest), asked)
                np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
            # What was sent before is still known as sent.
            assert all(engine.observe(batch, "source", number).duplicate for number, batch in enumerate(sent))
        with Engine.open(folder, f"{place}/s.db") as again:
            assert again.state_digest() == digest
        migrate(f"{place}/s.db", folder)
        with Engine.open(folder, f"{place}/s.db") as rebuilt:
            assert rebuilt.state_digest() == digest


@settings(max_examples=10)
@given(data=st.data())
def test_an_erased_node_was_never_there(data):
    events = data.draw(streams(max_events=20, features=2))
    node = data.draw(st.sampled_from(list(events.vocabulary.ids)))
    row = int(events.vocabulary.rows([node])[0])
    touched = np.flatnonzero((events.src == row) | (events.dst == row))
    folder, asked = saved_model("adaptive", 2), events.time[-1] + 1.0
    with quick_folder() as place, Engine.open(folder, f"{place}/s.db", checkpoint_every=2) as engine:
        observe_all(engine, data.draw(batches(events)))
        assert engine.erase(node) == len(touched)
        assert engine.erase(node) == 0
        rest = without(events, touched)
        if len(rest):
            expected = offline_embeddings(folder, rest, asked)
            np.testing.assert_allclose(engine.embed(everyone(rest), asked), expected, rtol=1e-10, atol=1e-10)


def bytes_on_disk(folder):
    return b"".join(path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file())


def fill(engine):
    """Batches in which a person of a telling name comes up, in rows, payloads and checkpoints."""
    for step in range(60):
        partner = "zebra-4711" if step % 3 == 0 else f"n{step % 7}"
        engine.observe([(f"n{step % 5}", partner, 1e9 + step), (partner, "n1", 1e9 + step + 0.5)], "source", step)


def test_no_file_keeps_a_trace_of_an_erased_node(tmp_path):
    with Engine.open(saved_model(), tmp_path / "s.db", checkpoint_every=4) as engine:
        fill(engine)
        engine.checkpoint()
        assert b"zebra-4711" in bytes_on_disk(tmp_path)
        assert engine.erase("zebra-4711") == 40
        assert b"zebra" not in bytes_on_disk(tmp_path)
        # Nothing else was lost on the way.
        assert engine.status()["accepted"] == 80
        digest = engine.state_digest()
    assert b"zebra" not in bytes_on_disk(tmp_path)
    with Engine.open(saved_model(), tmp_path / "s.db", verify=True) as engine:
        assert engine.state_digest() == digest


def test_no_table_keeps_a_trace_of_an_erased_node(fresh_schema, postgres_data):
    def on_disk():
        from psycopg import connect

        with connect(fresh_schema.split("&schema")[0], autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        return bytes_on_disk(postgres_data / "base")

    with Engine.open(saved_model(), fresh_schema, checkpoint_every=4) as engine:
        fill(engine)
        assert b"zebra-4711" in on_disk()
        assert engine.erase("zebra-4711") == 40
        assert b"zebra" not in on_disk()


def test_a_wiping_that_was_cut_short_is_finished_at_the_next_opening(tmp_path):
    class Unwiped(SqliteJournal):
        def wipe(self):
            raise JournalError("the disk went away")

    (tmp_path / "alive").mkdir()
    with Engine.open(saved_model(), Unwiped(tmp_path / "alive" / "s.db")) as engine:
        fill(engine)
        with pytest.raises(JournalError, match="went away"):
            engine.erase("zebra-4711")
        digest = engine.state_digest()
        # As a death would leave them at this moment.
        dead = shutil.copytree(tmp_path / "alive", tmp_path / "dead")
    assert b"zebra-4711" in bytes_on_disk(dead)
    with Engine.open(saved_model(), dead / "s.db") as engine:
        assert b"zebra" not in bytes_on_disk(dead)
        assert engine.state_digest() == digest
        assert engine.status()["accepted"] == 80


def test_another_model_is_refused_until_the_journal_is_migrated(place, tmp_path):
    rng = np.random.default_rng(0)
    sent = [
        {"src": rng.integers(0, 9, 6), "dst": rng.integers(0, 9, 6), "time": 1e9 + 6 * n + np.arange(6.0)}
        for n in range(5)
    ]
    old, new = saved_model(seed=0), saved_model("mean", seed=1)
    with Engine.open(old, place) as engine:
        observe_all(engine, sent)
        digest = engine.state_digest()
    with pytest.raises(JournalError, match=r"another model .* 'tapgnn migrate'"):
        Engine.open(new, place)
    with Engine.open(old, place) as engine:
        assert engine.state_digest() == digest
    done = tapgnn("migrate", place, "--model", new, "--json")
    assert (done.code, done.last["records"], done.last["events"]) == (0, 5, 30), done.err
    with Engine.open(new, place) as moved, Engine.open(new, tmp_path / "fresh.db") as fresh:
        observe_all(fresh, sent)
        assert moved.state_digest() == fresh.state_digest()
        assert moved.observe(sent[0], "source", 0).duplicate
    assert "tapgnn migrate" in tapgnn_refusal(old, place)


def tapgnn_refusal(folder, place):
    with pytest.raises(JournalError) as refused:
        Engine.open(folder, place)
    return str(refused.value)


def test_a_model_trained_on_the_journals_events_can_take_over_after_them(tmp_path):
    """The state saved with the new model holds the first half of the journal."""
    rng = np.random.default_rng(1)
    src, dst, time = rng.integers(0, 9, 40), rng.integers(0, 9, 40), 1e9 + np.arange(40.0)
    log = Events.from_arrays(src, dst, time)
    half = log.take(slice(0, 20))
    model = tiny_model("mean", Vocabulary(), seed=3)
    known = Events.from_arrays(*columns(half).values(), vocabulary=model.vocabulary)
    _, state = model.advance(known, model.empty_state())
    save_model(model, tmp_path / "new", state)

    place = tmp_path / "s.db"
    with Engine.open(saved_model(), place) as engine:
        for piece in log.chunks(6):
            engine.observe(columns(piece))
    with pytest.raises(StateError, match="choose 'after'"):
        migrate(place, tmp_path / "new")
    assert migrate(place, tmp_path / "new", start="after")["left_out"] == 20
    asked = float(time[-1]) + 1
    with Engine.open(tmp_path / "new", place) as engine:
        expected = offline_embeddings(tmp_path / "new", log, asked)
        np.testing.assert_allclose(engine.embed(everyone(log), asked), expected, rtol=1e-10, atol=1e-10)
        with pytest.raises(StateError, match="history in the state that was saved"):
            engine.erase(int(src[0]))
        with pytest.raises(StateError, match="event 1 at position 1 is in the state that was saved"):
            engine.retract(1, 1)
        assert engine.retract(7, 1) == 1
    migrate(place, tmp_path / "new", start="empty")
    with Engine.open(tmp_path / "new", place) as engine:
        assert engine.status()["events"] + engine.status()["held"] == 39
        assert engine.erase(int(src[0])) > 0


def test_a_trimmed_journal_keeps_its_state_and_says_what_it_can_no_longer_do(place):
    with Engine.open(saved_model(), place) as engine:
        fill(engine)
        digest = engine.state_digest()
        assert engine.trim(50) == 50
        assert engine.state_digest() == digest
        assert engine.observe((0, 1, 1e9 + 99), "source", 3).duplicate
        engine.observe((0, 1, 1e9 + 99), "source", 60)
        digest = engine.state_digest()
    with Engine.open(saved_model(), place, verify=True) as engine:
        assert engine.state_digest() == digest
        assert [record.position for record, _ in engine.records()] == list(range(51, 62))
        assert engine.trim(1000) == 60, "what is held stays"
        for call in (lambda: engine.erase("n1"), lambda: engine.retract(61, 0), lambda: list(engine.replay())):
            with pytest.raises(JournalError, match="trimmed"):
                call()
    with pytest.raises(JournalError, match="trimmed"):
        migrate(place, saved_model())


def test_the_command_refuses_in_one_line_what_cannot_be_migrated(tmp_path):
    missing = tmp_path / "s.db"
    assert "there is no journal" in tapgnn("migrate", missing, "--model", saved_model()).refusal
    assert not missing.exists()
    with Engine.open(saved_model(), missing) as engine:
        engine.observe((0, 1, 1e9))
    assert "not a saved model" in tapgnn("migrate", missing, "--model", tmp_path / "none").refusal
    assert "start is one of" in tapgnn("migrate", missing, "--model", saved_model(), "--start", "now").refusal
    assert tapgnn("migrate", missing, "--model", saved_model("adaptive", 2)).code == 0, "columns it lacks are missing"
