"""A batch that is sent again is answered as it was the first time: exactly, whatever happened in between."""

import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapgnn.errors import AnswerGoneError, JournalError, ServerError
from tapgnn.online import Engine
from tapgnn.online.journal import kept_answers
from tapgnn.online.journal.event_batch import batch_in
from tapgnn.online.journal.kept_answers import Answer
from tapgnn.online.journal.undo_and_migrate import migrate

from ...streams import streams
from ..live import batches, quick_folder, saved_model
from ..payments import payments
from ..server.running import running
from .older_format import make_older

AFTER = 1_000_100_000.0


def die(engine):
    """End an engine as a kill would: without a last checkpoint."""
    engine._journal.close()


@settings(max_examples=12)
@given(data=st.data(), features=st.sampled_from([0, 2]), dtype=st.sampled_from(["float32", "float64"]))
def test_any_cut_kill_and_checkpoint_gives_the_first_answer_again(data, features, dtype):
    events = data.draw(streams(max_events=20, features=features))
    sent, folder = data.draw(batches(events)), saved_model("adaptive", features, dtype=dtype)
    every, kills = data.draw(st.integers(1, 4)), data.draw(st.sets(st.integers(0, len(sent) - 1)))
    lateness = data.draw(st.sampled_from([0.0, 2.0]))
    policy = {"late": "buffer", "lateness": lateness} if lateness else {}
    with quick_folder() as place:
        engine = Engine.open(folder, f"{place}/s.db", checkpoint_every=every, **policy)
        first = {}
        for number, batch in enumerate(sent):
            first[number], _ = engine.score_then_observe(batch, "till", number)
            if number in kills:
                die(engine)
                engine = Engine.open(folder, f"{place}/s.db", checkpoint_every=every)
        for number, batch in enumerate(sent):
            again, receipt = engine.score_then_observe(batch, "till", number)
            assert receipt.duplicate
            assert again.tobytes() == first[number].tobytes()
        engine.close()
        with Engine.open(folder, f"{place}/s.db", verify=True) as engine:
            found = [engine.score_then_observe(batch, "till", number)[0] for number, batch in enumerate(sent)]
        assert [scores.tobytes() for scores in found] == [first[number].tobytes() for number in range(len(sent))]


def take(engine, rows, first=0):
    """Score and take in ten rows a batch; gives what was told of each."""
    told = {}
    for number in range(first, first + len(rows) // 10):
        part = rows[10 * (number - first) : 10 * (number - first + 1)]
        method = (engine.score_then_observe, engine.classify_then_observe)[number % 2]
        told[number] = part, method(part, "till", number)[0]
    return told


def assert_told_again(engine, told):
    for number, (part, values) in told.items():
        method = (engine.score_then_observe, engine.classify_then_observe)[number % 2]
        again, receipt = method(part, "till", number)
        assert receipt.duplicate
        assert again.tobytes() == values.tobytes()


def test_answers_outlive_kills_restarts_and_another_model(place, table_model, fitted_again):
    rows = payments(80, seed=1, start=AFTER)
    engine = Engine.open(table_model, place, checkpoint_every=3)
    told = take(engine, rows[:50])
    assert_told_again(engine, told)
    die(engine)
    engine = Engine.open(table_model, place, checkpoint_every=100)
    told |= take(engine, rows[50:], 5)
    assert_told_again(engine, told)
    die(engine)
    with Engine.open(table_model, place) as engine:
        assert_told_again(engine, told)
    migrate(place, fitted_again, start="empty")
    with Engine.open(fitted_again, place, verify=True) as engine:
        assert_told_again(engine, told)


@pytest.fixture
def fitted_again(tmp_path):
    """Another model of payments, without a classifier."""
    from ..payments import saved_payments_model

    return saved_payments_model(seed=4)


def test_a_sender_that_asks_for_what_it_was_not_told_gets_one_clear_error(place, table_model):
    rows = payments(20, seed=1, start=AFTER)
    with Engine.open(table_model, place) as engine:
        engine.observe(rows[:10], "till", 0)
        engine.score_then_observe(rows[10:], "till", 1)
        for number, part in enumerate((rows[:10], rows[10:])):
            with pytest.raises(
                AnswerGoneError, match=f"position {number + 1}, and counts once; its scores are not kept"
            ):
                engine.classify_then_observe(part, "till", number)
        assert engine.status()["accepted"] == 20


def test_the_answers_to_the_latest_events_are_kept(place, table_model, monkeypatch):
    monkeypatch.setattr(kept_answers, "MOST_EVENTS", 30)
    rows = payments(80, seed=1, start=AFTER)
    for every in (1, 100):
        with Engine.open(table_model, place, checkpoint_every=every) as engine:
            start = 0 if every == 1 else 40
            told = take(engine, rows[start : start + 40], start // 10)
            lost = min(told)
            part, _ = told.pop(lost)
            assert_told_again(engine, told)
            with pytest.raises(AnswerGoneError):
                take(engine, part, lost)
        with Engine.open(table_model, place) as engine:
            assert_told_again(engine, told)
            assert len(engine._journal.run("SELECT position FROM answers")) == 3


@pytest.mark.parametrize("every", [1, 100])
def test_an_answer_goes_with_the_events_that_are_undone_and_with_trimmed_records(place, table_model, every):
    rows = payments(60, seed=1, start=AFTER)
    for number, row in enumerate(rows):
        row["card_id"] = 700 + number // 10
    with Engine.open(table_model, place, checkpoint_every=every) as engine:
        told = take(engine, rows)
        engine.retract(2, 3)
        engine.erase("card_id:703")
        gone = {1, 3}
        assert_told_again(engine, {number: value for number, value in told.items() if number not in gone})
        for number in gone:
            with pytest.raises(AnswerGoneError, match="until an event of the batch is undone"):
                take(engine, told[number][0], number)
        kept = [position for (position,) in engine._journal.run("SELECT position FROM answers ORDER BY position")]
        assert kept == [1, 3, 5, 6]
    with Engine.open(table_model, place) as engine:
        assert_told_again(engine, {number: value for number, value in told.items() if number not in gone})
        assert engine.trim(3) == 3
        assert_told_again(engine, {number: told[number] for number in (4, 5)})
        with pytest.raises(AnswerGoneError):
            take(engine, told[0][0], 0)


def test_a_client_that_timed_out_learns_the_scores_and_risks(table_model, tmp_path):
    rows = payments(30, seed=1, start=AFTER)
    with running(table_model, tmp_path / "s.db") as server, server.client(producer="till") as client:
        told = [client.score_then_observe(rows[start : start + 10]) for start in (0, 10, 20)]
        assert all(len(each.scores) == len(each.risks) == 10 for each in told)
        for number, each in enumerate(told):
            again = client.score_then_observe(rows[10 * number : 10 * number + 10], sequence=number)
            assert again.receipt.duplicate
            assert (again.scores, again.risks) == (each.scores, each.risks)
        later = payments(1, seed=2, start=AFTER + 1e5)
        client.observe(later, sequence=7)
        with pytest.raises(ServerError, match=r"410 Gone.*counts once") as refused:
            client.score_then_observe(later, sequence=7)
        assert refused.value.status == 410


def test_a_damaged_answer_is_named(tmp_path, table_model):
    rows = payments(10, seed=1, start=AFTER)
    with Engine.open(table_model, tmp_path / "s.db") as engine:
        engine.score_then_observe(rows, "till", 0)
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("UPDATE answers SET data = x'0100'")
    connection.close()
    with (
        Engine.open(table_model, tmp_path / "s.db") as engine,
        pytest.raises(JournalError, match="position 1 is damaged"),
    ):
        engine.score_then_observe(rows, "till", 0)
    with pytest.raises(JournalError, match="answer to the batch at position 1 is damaged"):
        Engine.open(table_model, tmp_path / "s.db", verify=True)


def test_a_journal_of_the_format_before_is_brought_up_when_it_is_first_written(place, table_model):
    rows = payments(30, seed=1, start=AFTER)
    engine = Engine.open(table_model, place)
    engine.observe(rows[:10], "till", 0)
    die(engine)
    make_older(place, 1)
    with Engine.open(table_model, place) as engine:
        assert engine._journal.metadata()["format"] == 1, "reading changes nothing"
        with pytest.raises(AnswerGoneError):
            engine.score_then_observe(rows[:10], "till", 0)
        told = take(engine, rows[10:], 1)
        assert engine._journal.metadata()["format"] == 2
        assert_told_again(engine, told)
    with Engine.open(table_model, place) as engine:
        assert_told_again(engine, told)
        assert all(batch_in(record) is not None for record, _ in engine.records())


@given(size=st.integers(1, 40), which=st.sampled_from([(True, False), (False, True), (True, True)]))
def test_an_answer_is_read_as_it_was_written(size, which):
    rng = np.random.default_rng(size)
    answer = Answer(*(rng.random(size) if wanted else None for wanted in which))
    found = Answer.read(answer.data())
    assert all((a is None and b is None) or a.tobytes() == b.tobytes() for a, b in zip(answer, found, strict=True))
    assert answer.events == size
