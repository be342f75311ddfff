"""The law: one `advance`, any cut of the stream, the same embeddings and state; and nothing sees the future."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Events

from ..streams import KERNEL_NAMES, assert_same_state, cuts, streams, tiny_model


def run(model, pieces):
    """Absorb pieces one after the other: the embeddings of all temporal nodes by (node, time), and the last state."""
    state, rows = model.empty_state(), {}
    for piece in pieces:
        trace, state = model.advance(piece, state)
        owner = trace.view.owner()
        for i in range(trace.view.size):
            rows[int(trace.view.nodes[owner[i]]), float(trace.view.time[i])] = trace.embedding[i].detach()
    return rows, state


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@given(data=st.data(), layers=st.integers(1, 3), roles=st.booleans(), features=st.sampled_from([0, 2]))
def test_any_cut_of_the_stream_gives_the_same_embeddings_and_state(kernel, data, layers, roles, features):
    events = data.draw(streams(features=features))
    model = tiny_model(
        kernel, events.vocabulary, layers=layers, roles=roles, self_connection=roles, edge_features=features
    )
    whole, state = run(model, [events])
    pieces, cut_state = run(model, data.draw(cuts(events)))
    assert whole.keys() == pieces.keys()
    for place, row in whole.items():
        torch.testing.assert_close(pieces[place], row, rtol=1e-10, atol=1e-10)
    assert_same_state(state, cut_state)


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@given(data=st.data())
def test_gradients_within_a_chunk_do_not_depend_on_how_the_past_was_cut(kernel, data):
    events = data.draw(streams())
    model = tiny_model(kernel, events.vocabulary)
    *past, chunk = [piece for piece in data.draw(cuts(events)) if len(piece)]
    together = events.slice(0, len(events) - len(chunk))
    found = []
    for history in ([together], past):
        _, state = run(model, history)
        trace, state = model.advance(chunk, state)
        model.zero_grad()
        left, right = torch.from_numpy(chunk.src), torch.from_numpy(chunk.dst)
        time = torch.from_numpy(chunk.time)
        loss = torch.cos(trace.embedding).sum() + model.score(trace, left, right, time).sum()
        loss.backward()
        found.append({name: p.grad.to_dense() for name, p in model.named_parameters() if p.grad is not None})
    for name, grad in found[0].items():
        torch.testing.assert_close(found[1][name], grad, rtol=1e-8, atol=1e-9, msg=name)


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_changing_anything_at_or_after_t_changes_nothing_asked_at_t(kernel, data, seed):
    events = data.draw(streams(features=1))
    model = tiny_model(kernel, events.vocabulary, edge_features=1)
    rng = np.random.default_rng(seed)
    moment = float(rng.choice(np.append(events.time, events.time[-1] + 1.0)))
    later = np.flatnonzero(events.time >= moment)
    features, src, dst = events.features.copy(), events.src.copy(), events.dst.copy()
    src[later], dst[later] = rng.integers(0, len(events.vocabulary), (2, len(later)))
    features[later] = rng.normal(size=(len(later), 1))
    keep = np.sort(np.concatenate([np.flatnonzero(events.time < moment), later[rng.random(len(later)) < 0.7]]))
    other = Events(src[keep], dst[keep], events.time[keep], features[keep], None, events.vocabulary)
    node = np.arange(-1, len(events.vocabulary))
    partner = np.roll(node, 1)
    asked = []
    for log in (events, other):
        trace, _ = model.advance(log, model.empty_state())
        asked.append((model.query(trace, node, moment), model.score(trace, node, partner, moment)))
    for before, after in zip(*asked, strict=True):
        torch.testing.assert_close(before, after, rtol=1e-10, atol=1e-10)


@given(data=st.data())
def test_a_trace_answers_like_the_state_that_was_live_at_that_time(data):
    """Queries into the middle of a chunk equal queries to a state that stopped there."""
    events = data.draw(streams())
    model = tiny_model("adaptive", events.vocabulary)
    trace, _ = model.advance(events, model.empty_state())
    node = np.arange(-1, len(events.vocabulary))
    partner = np.roll(node, 1)
    for moment in np.append(np.unique(events.time), events.time[-1] + 0.5):
        stopped = events.between(-np.inf, moment)
        _, state = model.advance(stopped, model.empty_state())
        torch.testing.assert_close(model.query(trace, node, moment), model.query(state, node, moment))
        torch.testing.assert_close(model.score(trace, node, partner, moment), model.score(state, node, partner, moment))


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_float32_agrees_across_cuts_within_its_tolerance(kernel):
    rng = np.random.default_rng(0)
    size = 400
    events = Events.from_arrays(*rng.integers(0, 20, (2, size)), np.sort(rng.integers(0, 300, size)) + 1e9)
    model = tiny_model(kernel, events.vocabulary, span=300.0).float()
    _, whole = run(model, [events])
    _, pieces = run(model, events.chunks(7))
    assert_same_state(whole, pieces, tolerance=1e-4)


@pytest.mark.parametrize("kernel", ["gcn", "mean", "attention", "adaptive"])
def test_a_million_events_on_one_node_absorbed_in_pieces_keep_their_digits_in_float32(kernel):
    size = 1_000_000
    events = Events.from_arrays(np.zeros(size, int), 1 + np.arange(size) % 7, np.arange(size, dtype=float))
    options = {"layers": 1, "width": 8, "rates": 2, "sketch_width": 0, "span": float(size), "events": float(size)}
    options |= {"kernel": kernel, "origin": 0.0, "roles": False, "self_connection": False}
    single = tiny_model(**options, vocabulary=events.vocabulary).float()
    double = tiny_model(**options, vocabulary=events.vocabulary)
    with torch.no_grad():
        state = single.empty_state()
        for chunk in events.chunks(20_000):
            _, state = single.advance(chunk, state)
        _, exact = double.advance(events, double.empty_state())
    error = (state.embedding[1] - exact.embedding[1]).norm() / exact.embedding[1].norm()
    assert error < 1e-4
