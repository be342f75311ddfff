"""The reorder buffer: what is foreseen before a batch is journalled is what happens when it is applied."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapgnn.data.schema import Schema
from tapgnn.errors import EventError, LateEventError
from tapgnn.online.engine.admission import Admission
from tapgnn.online.engine.live_state import LiveState
from tapgnn.online.engine.policy import Policy
from tapgnn.online.engine.reorder_buffer import ReorderBuffer
from tapgnn.online.engine.starting_point import StartingPoint
from tapgnn.online.journal.event_rows import RowReader
from tapgnn.online.journal.record import Kind, Record

from ..live import saved_model

START = 1e9
POLICIES = st.one_of(
    st.builds(Policy, st.just("reject"), hold_back=st.booleans()),
    st.builds(Policy, st.just("merge"), st.sampled_from([0.0, 1.0, 4.0]), st.booleans()),
    st.builds(Policy, st.just("buffer"), st.sampled_from([1.0, 2.5, 4.0]), st.booleans()),
)
# Few distinct times: ties within and across batches, and batches that come late.
TIMES = st.lists(st.integers(0, 12).map(lambda step: START + step / 2), max_size=5)
# Batches of one commit, and what follows it.
COMMITS = st.lists(st.tuples(st.lists(TIMES, max_size=3), st.one_of(st.none(), st.just("flush"), POLICIES)), max_size=6)


def batch_of(live, times):
    """A batch of these times; one without events is what an erasure leaves."""
    size = len(times) + 1
    sent = {"src": list(range(size)), "dst": [1] * size, "time": [START, *times]}
    return RowReader(Schema(), live.model.config).read(sent).keep(np.arange(size) > 0)


def applied(live, record, batch):
    """Apply a record; gives the times at which events were absorbed."""
    return [time for events, _ in live.steps(record, batch) for time in events.time.tolist()]


@settings(max_examples=60)
@given(policy=POLICIES, commits=COMMITS)
def test_the_forecast_accepts_what_is_absorbed_with_the_same_clock_late_count_and_pending_events(policy, commits):
    live = LiveState(StartingPoint.of(saved_model(), "empty"), policy)
    accepted, absorbed = [], []
    for batches, after in commits:
        forecast, ready = live.buffer.forecast(), []
        for times in batches:
            batch, before = batch_of(live, times), (forecast.clock, forecast.late, len(forecast))
            record = Record(Kind.EVENTS, batch.payload(), "pqr"[len(ready) % 3], len(accepted))
            try:
                forecast.add(batch)
            except LateEventError:
                assert (forecast.clock, forecast.late, len(forecast)) == before
            else:
                ready.append((record, batch))
        for record, batch in ready:
            record = Record(record.kind, record.payload, record.producer, record.sequence, position=live.position + 1)
            absorbed += applied(live, record, live.read(record))
            accepted += batch.time.tolist()
        assert (live.buffer.clock, live.buffer.newest, live.buffer.late) == (
            forecast.clock,
            forecast.newest,
            forecast.late,
        )
        assert live.buffer.pending["time"].tolist() == forecast.pending["time"].tolist()
        assert live.clock == live.buffer.clock
        if after == "flush":
            absorbed += applied(live, Record(Kind.FLUSH, b"", position=live.position + 1), None)
            assert len(live.buffer) == 0
        elif after is not None:
            payload = json.dumps(after.to_dict()).encode()
            applied(live, Record(Kind.POLICY, payload, position=live.position + 1), None)
    # Each event is absorbed once or waits, in order of time, and at its own instant unless it was late.
    assert absorbed == sorted(absorbed)
    found = absorbed + live.buffer.pending["time"].tolist()
    assert len(found) == len(accepted) == live.accepted
    assert (Counter(found) - Counter(accepted)).total() <= live.buffer.late
    assert (live.buffer.pending["time"] > live.clock).all()


def test_what_the_forecast_refuses_is_refused_when_applied_too():
    live = LiveState(StartingPoint.of(saved_model(), "empty"), Policy(hold_back=False))
    applied(live, Record(Kind.EVENTS, b"", position=1), batch_of(live, [START + 5]))
    late = batch_of(live, [START + 6, START + 5])
    for buffer in (live.buffer.forecast(), live.buffer):
        with pytest.raises(LateEventError, match=r"event 2 .* is not newer than the events already absorbed"):
            buffer.add(late)
    with pytest.raises(EventError, match=r"more than the horizon, 3.0, after the newest event"):
        live.buffer.forecast().add(batch_of(live, [START + 9]), Admission(horizon=3.0))
    live.buffer.forecast().add(batch_of(live, [START + 8]), Admission(horizon=3.0))
    assert len(live.buffer) == 0


def test_the_first_event_of_all_has_no_horizon_of_its_own():
    buffer = ReorderBuffer.empty(Policy(), -np.inf, 0).forecast()
    live = LiveState(StartingPoint.of(saved_model(), "empty"), Policy())
    buffer.add(batch_of(live, [START]), Admission(horizon=1.0))
    assert buffer.newest == START
