"""The forms without gradients, compiled whole, give the rows, states and scores of the general form."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Events
from tapgnn.model.step import FEW, Step

from ..streams import assert_same_state, cuts, streams, tiny_model


def default_model(events, **changes):
    model = tiny_model("adaptive", events.vocabulary, time_width=0, **changes)
    assert Step.of(model, None) is not None
    return model


def scores_along(model, pieces):
    """Embeddings of all temporal nodes, scores of every event before it is absorbed and after all, the last state."""
    state, found = model.empty_state(), []
    for piece in pieces:
        trace, state = model.advance(piece, state)
        found += [trace.embedding, model.score(trace, piece.src, piece.dst[::-1].copy(), piece.time)]
    nodes = np.arange(-1, len(model.vocabulary))
    found.append(model.score(state, nodes, nodes[::-1].copy(), np.full(len(nodes), state.clock + 2.5)))
    return [rows.detach() for rows in found], state


def assert_same_numbers(model, pieces, tolerance=1e-10):
    """Rows, scores and the last state with gradients, in the general form, and without."""
    general, general_state = scores_along(model, pieces)
    with torch.no_grad():
        compiled, compiled_state = scores_along(model, pieces)
    for one, other in zip(general, compiled, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    assert_same_state(general_state, compiled_state, tolerance)


def assert_new_weights_are_used_at_once(model, events):
    with torch.no_grad():
        before, _ = scores_along(model, [events])
        for parameter in model.parameters():
            parameter.add_(0.1)
        after, _ = scores_along(model, [events])
    general, _ = scores_along(model, [events])
    assert not torch.equal(before[-1], after[-1])
    torch.testing.assert_close(after[-1], general[-1], rtol=1e-10, atol=1e-10)


def crowd(size=400):
    """Many events among few nodes, with ties."""
    rng = np.random.default_rng(0)
    return Events.from_arrays(*rng.integers(0, 20, (2, size)), np.sort(rng.integers(0, 300, size)) + 1e9)


@given(data=st.data(), layers=st.integers(1, 3), steps=st.integers(1, 3))
def test_a_few_events_at_a_time_give_the_numbers_of_the_general_form(data, layers, steps):
    events = data.draw(streams(max_events=24))
    model = default_model(events, layers=layers, sketch_steps=steps)
    assert_same_numbers(model, data.draw(cuts(events)))


def test_as_many_events_as_a_step_takes_give_the_numbers_of_the_general_form():
    events = crowd(2 * FEW)
    pieces = list(events.chunks(FEW))
    assert max(map(len, pieces)) == FEW
    assert_same_numbers(default_model(events), pieces)


@given(data=st.data())
def test_new_weights_are_used_at_once(data):
    events = data.draw(streams(max_events=24))
    assert_new_weights_are_used_at_once(default_model(events), events)


@pytest.mark.parametrize(
    "changes", [{"kernel": "mean"}, {"roles": False}, {"time_width": 3}, {"edge_features": 2}, {"head": "dot"}]
)
def test_other_models_take_the_general_form(changes):
    kernel = changes.pop("kernel", "adaptive")
    assert Step.of(tiny_model(kernel, **{"time_width": 0, **changes}), None) is None


@given(data=st.data())
def test_attention_without_gradients_gives_the_same_numbers(data):
    events = data.draw(streams())
    model = tiny_model("attention", events.vocabulary)
    assert_same_numbers(model, data.draw(cuts(events)))
