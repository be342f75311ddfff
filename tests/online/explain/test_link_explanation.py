"""Explanations: the decomposition is exact, and leaving an event out is what a log without it would have said."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tapgnn import Events, Vocabulary
from tapgnn.errors import QueryError
from tapgnn.online.engine.engine import Engine
from tapgnn.online.explain.event_window import Window
from tests.online.live import explain_now, plain_table
from tests.streams import KERNEL_NAMES, streams, tiny_model

SUMS = [name for name in KERNEL_NAMES if name not in ("pool", "mean-with-self")]


def absorbed(model, log, size=1_000, chunk=7):
    """The state after a log, and a window of its latest events."""
    window, state = Window(model, size), model.empty_state()
    with torch.no_grad():
        for piece in log.chunks(chunk):
            trace, state = model.advance(piece, state)
            window.record(piece, trace)
    return state, window


def _name(cause):
    return cause.src, cause.dst, cause.time


def pair_of(log):
    """The ends of the last event, as ids."""
    ids = log.vocabulary.ids
    return ids[log.src[-1]], ids[log.dst[-1]]


@pytest.mark.parametrize("kernel", SUMS)
@settings(max_examples=8)
@given(data=st.data())
def test_the_parts_add_up_to_the_score(kernel, data):
    log = data.draw(streams(features=2))
    model = tiny_model(kernel, log.vocabulary, edge_features=2)
    state, window = absorbed(model, log)
    src, dst = pair_of(log)
    when = state.clock + 1.0
    found = explain_now(model, state, window, src, dst, when, limit=1_000)
    with torch.no_grad():
        expected = float(model.score(state, log.src[-1:], log.dst[-1:], when))
    assert found.logit == pytest.approx(expected, abs=1e-9)
    assert found.older == 0.0
    assert found.events_in_window == found.events_in_total == len(found.causes)
    whole = found.base + sum(cause.embedding for cause in found.causes)
    assert whole == pytest.approx(found.logit, abs=1e-8)
    assert sum(abs(cause.share) for cause in found.causes) == pytest.approx(1.0) or not any(
        cause.effect for cause in found.causes
    )
    assert all(cause.exact for cause in found.causes)


@pytest.mark.parametrize("kernel", SUMS)
@settings(max_examples=8)
@given(data=st.data())
def test_what_a_short_window_has_forgotten_is_one_exact_rest(kernel, data):
    log = data.draw(streams())
    model = tiny_model(kernel, log.vocabulary)
    src, dst = pair_of(log)
    state, window = absorbed(model, log)
    whole = explain_now(model, state, window, src, dst, state.clock + 1.0, limit=1_000)
    state, short = absorbed(model, log, size=5)
    found = explain_now(model, state, short, src, dst, state.clock + 1.0, limit=1_000)
    assert found.logit == pytest.approx(whole.logit, abs=1e-9)
    assert found.base == pytest.approx(whole.base, abs=1e-6)
    known = sum(cause.embedding for cause in whole.causes)
    assert found.older + sum(cause.embedding for cause in found.causes) == pytest.approx(known, abs=1e-6)
    for cause in found.causes:
        if cause.exact:
            # Several events may be alike.
            alike = [other for other in whole.causes if _name(other) == _name(cause)]
            assert any(cause.effect == pytest.approx(other.effect, abs=1e-5) for other in alike)


@pytest.mark.parametrize("remembered", [3, 1_000])
@pytest.mark.parametrize("kernel", SUMS)
@settings(max_examples=8)
@given(data=st.data())
def test_what_decayed_to_nothing_in_a_long_silence_is_explained_in_finite_numbers(kernel, remembered, data):
    log = data.draw(streams())
    log.time[:] = 1e9 + 1e5 * (log.time - 1e9)
    # Half-lives are seconds and fractions of an event; silences are days and tens of events.
    model = tiny_model(kernel, log.vocabulary, events=0.01)
    state, window = absorbed(model, log, remembered)
    src, dst = pair_of(log)
    found = explain_now(model, state, window, src, dst, state.clock + 1.0, limit=1_000)
    assert np.isfinite([found.logit, found.base, found.older]).all()
    numbers = [(cause.effect, cause.share, cause.embedding, cause.without) for cause in found.causes]
    assert np.isfinite(np.array(numbers)).all()


@pytest.mark.parametrize("kernel", ["mean", "attention", "adaptive"])
@settings(max_examples=8)
@given(data=st.data())
def test_leaving_an_event_out_says_what_the_log_without_it_would_have_said(kernel, data):
    # One layer, and nothing that counts the events of other nodes: then no third node knows of an event.
    changes = {"layers": 1, "statistics": False, "rates": 0, "sketch_steps": 1, "sketch_half_lives": (), "head": "dot"}
    log = data.draw(streams())
    model = tiny_model(kernel, log.vocabulary, **changes)
    state, window = absorbed(model, log)
    src, dst = pair_of(log)
    when = state.clock + 1.0
    found = explain_now(model, state, window, src, dst, when, limit=1_000)
    touching = [row for row in range(len(log)) if {log.src[row], log.dst[row]} & {log.src[-1], log.dst[-1]}]
    expected = []
    for row in touching:
        rest = log.take(np.arange(len(log)) != row)
        with torch.no_grad():
            state = model.empty_state()
            if len(rest):
                _, state = model.advance(rest, state)
            expected.append(found.logit - float(model.score(state, log.src[-1:], log.dst[-1:], when)))
    np.testing.assert_allclose(sorted(cause.effect for cause in found.causes), sorted(expected), atol=1e-8)


def test_a_kernel_that_keeps_a_maximum_has_no_shares():
    log = Events.from_arrays(["a", "b"], ["b", "c"], [1e9, 1e9 + 1])
    model = tiny_model("pool", log.vocabulary)
    state, window = absorbed(model, log)
    with pytest.raises(QueryError, match="keeps no sums"):
        explain_now(model, state, window, "a", "b", state.clock + 1, 20)


def test_nodes_nobody_knows_have_a_score_and_no_causes():
    log = Events.from_arrays(["a", "b"], ["b", "c"], [1e9, 1e9 + 1])
    model = tiny_model("adaptive", log.vocabulary)
    state, window = absorbed(model, log)
    found = explain_now(model, state, window, "x", "y", state.clock + 1, 20)
    with torch.no_grad():
        assert found.logit == pytest.approx(float(model.score(state, [-1], [-1], state.clock + 1)))
    assert found.causes == []
    assert found.base == pytest.approx(found.logit)


@settings(max_examples=8)
@given(data=st.data())
def test_events_that_are_held_back_are_explained_like_others(data, tmp_path_factory):
    from tapgnn import TAPGNN

    log = data.draw(streams())
    estimator = TAPGNN()
    estimator.table_ = plain_table(0)
    estimator.model_ = tiny_model("adaptive", Vocabulary())
    estimator.state_ = estimator.model_.empty_state()
    estimator.candidates_, estimator.classifier_ = np.empty(0, dtype=np.int64), None
    ids = log.vocabulary.ids
    src, dst = pair_of(log)
    found = {}
    for hold_back in (True, False):
        journal = tmp_path_factory.mktemp("journal") / "state.db"
        with Engine.open(estimator, journal, hold_back=hold_back) as engine:
            with engine.live() as live:
                window = Window(live.model, 1_000)
            engine.listen(window.record)
            columns = {"src": [ids[row] for row in log.src], "dst": [ids[row] for row in log.dst], "time": log.time}
            engine.observe(columns)
            assert engine.status()["held"] == (int((log.time == log.time[-1]).sum()) if hold_back else 0)
            with engine.live() as live:
                found[hold_back] = explain_now(live.model, live.where, window, src, dst, live.now, 1_000, live.held)
    assert found[True].logit == pytest.approx(found[False].logit, abs=1e-9)
    for one, other in zip(found[True].causes, found[False].causes, strict=True):
        assert one.effect == pytest.approx(other.effect, abs=1e-8)
        assert one.embedding == pytest.approx(other.embedding, abs=1e-8)
