"""The forms without gradients, compiled whole, give the rows, states and scores of the general form."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.model.step import Step

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


@given(data=st.data(), layers=st.integers(1, 3), steps=st.integers(1, 3))
def test_a_few_events_at_a_time_give_the_numbers_of_the_general_form(data, layers, steps):
    events = data.draw(streams(max_events=24))
    model = default_model(events, layers=layers, sketch_steps=steps)
    pieces = data.draw(cuts(events))
    general, general_state = scores_along(model, pieces)
    with torch.no_grad():
        stepped, stepped_state = scores_along(model, pieces)
    for one, other in zip(general, stepped, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    assert_same_state(general_state, stepped_state)


@given(data=st.data())
def test_new_weights_are_used_at_once(data):
    events = data.draw(streams(max_events=24))
    model = default_model(events)
    with torch.no_grad():
        before, _ = scores_along(model, [events])
        for parameter in model.parameters():
            parameter.add_(0.1)
        after, _ = scores_along(model, [events])
    general, _ = scores_along(model, [events])
    assert not torch.equal(before[-1], after[-1])
    torch.testing.assert_close(after[-1], general[-1], rtol=1e-10, atol=1e-10)


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
    pieces = data.draw(cuts(events))
    general, general_state = scores_along(model, pieces)
    with torch.no_grad():
        fast, fast_state = scores_along(model, pieces)
    for one, other in zip(general, fast, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    assert_same_state(general_state, fast_state)
