"""The paper's model with attention, swept without gradients, gives the numbers of the general form."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Events, Vocabulary
from tapgnn.kernels import loops
from tapgnn.model.sweep import Sweep

from ..streams import assert_same_state, cuts, on_vocabulary, streams, tiny_model
from .test_step import scores_along

PLAIN = {"roles": False, "self_connection": False, "facts": False, "sketch_width": 0, "head": "dot"}


def plain_model(vocabulary, **changes):
    model = tiny_model("attention", vocabulary, **PLAIN, **changes)
    assert Sweep.of(model, None) is not None
    return model


def assert_same_numbers(model, pieces, tolerance):
    general, general_state = scores_along(model, pieces)
    with torch.no_grad():
        swept, swept_state = scores_along(model, pieces)
    for one, other in zip(general, swept, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    assert_same_state(general_state, swept_state, tolerance)


def crowd(size=400):
    rng = np.random.default_rng(0)
    return Events.from_arrays(*rng.integers(0, 20, (2, size)), np.sort(rng.integers(0, 300, size)) + 1e9)


@given(data=st.data(), layers=st.integers(1, 3))
def test_a_sweep_gives_the_numbers_of_the_general_form(data, layers):
    """Nodes that came after the model was made are among them."""
    events = data.draw(streams())
    known = data.draw(st.integers(0, len(events.vocabulary)))
    vocabulary = Vocabulary(events.vocabulary.ids[:known])
    model = plain_model(vocabulary, layers=layers)
    vocabulary.add(events.vocabulary.ids[known:])
    pieces = [on_vocabulary(piece, vocabulary) for piece in data.draw(cuts(events))]
    assert_same_numbers(model, pieces, tolerance=1e-10)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_float32_agrees_within_its_tolerance(layers):
    events = crowd()
    model = plain_model(events.vocabulary, layers=layers, span=300.0).float()
    assert_same_numbers(model, list(events.chunks(60)), tolerance=1e-4)


def test_several_threads_give_the_same_numbers(monkeypatch):
    monkeypatch.setattr(loops, "PARALLEL_FROM", 0)
    events = crowd()
    model = plain_model(events.vocabulary)
    torch.set_num_threads(3)
    try:
        assert_same_numbers(model, list(events.chunks(60)), tolerance=1e-10)
    finally:
        torch.set_num_threads(1)


def test_new_weights_are_used_at_once():
    events = crowd(50)
    model = plain_model(events.vocabulary)
    with torch.no_grad():
        before, _ = scores_along(model, [events])
        for parameter in model.parameters():
            parameter.add_(0.1)
        after, _ = scores_along(model, [events])
    general, _ = scores_along(model, [events])
    assert not torch.equal(before[-1], after[-1])
    torch.testing.assert_close(after[-1], general[-1], rtol=1e-10, atol=1e-10)


OTHERS = {"roles": True, "self_connection": True, "facts": True, "edge_features": 2, "node_features": 2}


@pytest.mark.parametrize("change", [*OTHERS.items(), ("head", "additive"), ("sketch_width", 8)])
def test_other_models_take_the_general_form(change):
    assert Sweep.of(tiny_model("attention", **{**PLAIN, **dict([change])}), None) is None


def test_training_takes_the_general_form():
    """Dropout needs it."""
    assert Sweep.of(plain_model(Vocabulary()).train(), None) is None
