"""The laws of the engine: any batching and any restarts, the numbers of one offline pass, and the same bits again."""

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tapgnn.errors import StateError, TapgnnError
from tapgnn.online import Engine, Request

from ...streams import KERNEL_NAMES, streams
from ..live import batches, columns, everyone, offline, offline_embeddings, quick_folder, saved_model

SQLITE = settings(max_examples=12)


def run(folder, journal, sent, restarts=(), asking=False, **options):
    """Observe batches, closing and opening the engine again after some of them; gives the engine, open."""
    engine = Engine.open(folder, journal, **options)
    for number, batch in enumerate(sent):
        engine.observe(batch, "source", number)
        if asking:
            engine.embed(everyone_in(sent))
        if number in restarts:
            engine.close()
            engine = Engine.open(folder, journal)
    return engine


def everyone_in(sent):
    return sorted({int(name) for batch in sent for side in ("src", "dst") for name in batch[side]})


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@SQLITE
@given(data=st.data(), features=st.sampled_from([0, 2]))
def test_any_batching_with_restarts_ends_in_the_offline_embeddings(kernel, data, features):
    events = data.draw(streams(features=features))
    sent = data.draw(batches(events))
    restarts = data.draw(st.sets(st.integers(0, len(sent) - 1)))
    folder = saved_model(kernel, features)
    with quick_folder() as place, run(folder, f"{place}/s.db", sent, restarts, checkpoint_every=2) as engine:
        for later in (0.125, 2.0):
            asked = events.time[-1] + later
            np.testing.assert_allclose(
                engine.embed(everyone(events), asked), offline_embeddings(folder, events, asked), rtol=1e-10, atol=1e-10
            )
        engine.flush()
        np.testing.assert_allclose(
            engine.embed(everyone(events), asked), offline_embeddings(folder, events, asked), rtol=1e-10, atol=1e-10
        )


@SQLITE
@given(
    data=st.data(),
    policy=st.sampled_from(
        [
            {},
            {"late": "merge", "hold_back": False},
            {"late": "merge"},
            {"late": "buffer", "lateness": 4.0},
            {"late": "merge", "lateness": 2.0, "ttl": 6.0},
            {"ttl": 3.0},
        ]
    ),
    every=st.integers(1, 4),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_the_same_batches_give_the_same_bits_whatever_restarts_and_questions_lie_between(data, policy, every, dtype):
    events = data.draw(streams(features=2))
    sent = data.draw(batches(events, 3.0 if "late" in policy else 0.0))
    restarts = data.draw(st.sets(st.integers(0, len(sent) - 1)))
    folder = saved_model("adaptive", 2, dtype=dtype)
    options = {**policy, "checkpoint_every": every}
    with quick_folder() as place, Engine.open(folder, f"{place}/s.db", **options) as engine:
        engine.observe_many([Request(batch, "source", number) for number, batch in enumerate(sent)])
        digests = {engine.state_digest()}
    for stops, asking in ((set(), False), (restarts, True)):
        with quick_folder() as place:
            with run(folder, f"{place}/s.db", sent, stops, asking, **options) as engine:
                digests.add(engine.state_digest())
            with Engine.open(folder, f"{place}/s.db") as again:
                digests.add(again.state_digest())
    assert len(digests) == 1


@SQLITE
@given(data=st.data(), policy=st.sampled_from([{}, {"late": "buffer", "lateness": 4.0}]))
def test_each_event_is_scored_from_what_came_before_its_instant(data, policy):
    events = data.draw(streams())
    folder = saved_model()
    model, log, trace, _ = offline(folder, events)
    with torch.no_grad():
        expected = torch.sigmoid(model.score(trace, log.src, log.dst, log.time)).numpy()
    # Cut between instants: an event that has not been sent cannot be known to come first.
    pieces = [columns(piece) for piece in events.chunks(data.draw(st.integers(1, 7)))]
    with quick_folder() as place, Engine.open(folder, f"{place}/s.db", **policy) as engine:
        found = [engine.score_then_observe(piece)[0] for piece in pieces]
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-10, atol=1e-12)


@SQLITE
@given(data=st.data())
def test_a_buffer_puts_events_that_come_out_of_order_back_into_it(data):
    events = data.draw(streams())
    sent = data.draw(batches(events, shuffled_within=3.0))
    folder, asked = saved_model(), events.time[-1] + 1.0
    with (
        quick_folder() as place,
        run(folder, f"{place}/s.db", sent, {1}, late="buffer", lateness=3.5) as engine,
    ):
        expected = offline_embeddings(folder, events, asked)
        np.testing.assert_allclose(engine.embed(everyone(events), asked), expected, rtol=1e-10, atol=1e-10)
        engine.flush()
        np.testing.assert_allclose(engine.embed(everyone(events), asked), expected, rtol=1e-10, atol=1e-10)


def test_of_two_producers_the_same_instant_is_absorbed_in_the_same_order_whoever_came_first(quick_path):
    first = {"src": [0, 5], "dst": [1, 2], "time": [1e9, 1e9]}
    second = {"src": [3, 4], "dst": [0, 1], "time": [1e9, 1e9]}
    found = []
    for number, order in enumerate([("a", "b"), ("b", "a")]):
        with Engine.open(saved_model(), quick_path / f"{number}.db") as engine:
            for name in order:
                engine.observe(first if name == "a" else second, name, 0)
            found.append(engine.embed([0, 1, 2, 3, 4, 5]))
    assert np.array_equal(*found)


def test_readers_and_a_writer_do_not_disturb_each_other(quick_path):
    rng = np.random.default_rng(1)
    sent = [
        {"src": rng.integers(0, 9, 5), "dst": rng.integers(0, 9, 5), "time": 1e9 + 5 * n + np.arange(5.0)}
        for n in range(40)
    ]
    with run(saved_model(), quick_path / "alone.db", sent) as alone:
        expected = alone.state_digest()
    failures, done = [], threading.Event()

    def ask(engine):
        while not done.is_set():
            try:
                assert np.isfinite(engine.embed(list(range(9)))).all()
                engine.rank(1, k=3)
                engine.status()
            except (TapgnnError, AssertionError, RuntimeError) as error:
                failures.append(error)
                return

    with Engine.open(saved_model(), quick_path / "busy.db", checkpoint_every=3) as engine:
        readers = [threading.Thread(target=ask, args=(engine,)) for _ in range(2)]
        for reader in readers:
            reader.start()
        try:
            for number, batch in enumerate(sent):
                engine.observe(batch, "source", number)
        finally:
            done.set()
            for reader in readers:
                reader.join()
        assert failures == []
        assert engine.state_digest() == expected


def test_the_journal_can_be_replayed_beside_the_live_state(quick_path):
    rng = np.random.default_rng(2)
    with Engine.open(saved_model(), quick_path / "s.db") as engine:
        for step in range(5):
            times = 1e9 + 3 * step + rng.uniform(0, 3, 7)
            engine.observe({"src": rng.integers(0, 9, 7), "dst": rng.integers(0, 9, 7), "time": times})
        digest, seen, last = engine.state_digest(), 0, None
        shown = []
        engine.listen(lambda events, trace: shown.append(len(events)))
        for events, trace in engine.replay():
            seen, last = seen + len(events), trace
        with engine.live() as live:
            np.testing.assert_allclose(
                live.model.query(live.where, live.model.vocabulary.rows(range(9)), live.now).numpy(),
                live.model.query(last, events.vocabulary.rows(range(9)), live.now).numpy(),
                rtol=1e-10,
                atol=1e-10,
            )
        assert (seen, engine.state_digest()) == (35, digest)
        engine.observe((1, 2, 1e9 + 100))
        assert sum(shown) == 1


def test_a_closed_engine_says_so(quick_path):
    engine = Engine.open(saved_model(), quick_path / "s.db")
    engine.close()
    engine.close()
    for call in (engine.status, engine.flush, engine.state_digest, lambda: engine.score([0], [1])):
        with pytest.raises(StateError, match="closed"):
            call()
    assert Path(quick_path / "s.db").exists()
