"""The paper's model with attention, swept without gradients, gives the numbers of the general form."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Vocabulary
from tapgnn.compiled import scan_loops as loops
from tapgnn.model.sweep import Sweep

from ..streams import cuts, on_vocabulary, streams, tiny_model
from .test_step import assert_new_weights_are_used_at_once, assert_same_numbers, crowd

PLAIN = {"roles": False, "self_connection": False, "facts": False, "sketch_width": 0, "head": "dot"}


def plain_model(vocabulary, **changes):
    model = tiny_model("attention", vocabulary, **PLAIN, **changes)
    assert Sweep.of(model, None) is not None
    return model


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
    assert_new_weights_are_used_at_once(model, events)


OTHERS = {"roles": True, "self_connection": True, "facts": True, "edge_features": 2, "node_features": 2}


@pytest.mark.parametrize("change", [*OTHERS.items(), ("head", "additive"), ("sketch_width", 8)])
def test_other_models_take_the_general_form(change):
    assert Sweep.of(tiny_model("attention", **{**PLAIN, **dict([change])}), None) is None


def test_training_takes_the_general_form():
    """Dropout needs it."""
    assert Sweep.of(plain_model(Vocabulary()).train(), None) is None
