"""The program on arrays, compiled whole or interpreted, gives the rows, states and answers of the one on tensors."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Events, Vocabulary
from tapgnn.compiled import parallel
from tapgnn.model import FactClassifier, RepresentationClassifier, inference
from tapgnn.model.differentiable import Differentiable
from tapgnn.model.inference import FEW, Inference

from ..streams import (
    KERNEL_NAMES,
    assert_same_state,
    cuts,
    feature_widths,
    on_vocabulary,
    random_features,
    streams,
    tiny_model,
)

PAPER = {"roles": False, "self_connection": False, "statistics": False, "sketch_width": 0, "head": "dot"}
CONFIGURATIONS = {
    "all parts": {},
    "default": {"time_width": 0},
    "paper": PAPER,
    "no gates": {"roles": False},
    "no self connection": {"self_connection": False},
    "no sketches": {"sketch_width": 0},
    "no statistics": {"statistics": False},
    "neither": {"statistics": False, "sketch_width": 0},
    "no partners": {"partners": 0},
    "additive": {"head": "additive"},
    "role dot": {"head": "role-dot"},
    "three steps": {"sketch_steps": 3, "layers": 3},
    "one layer": {"layers": 1},
    "no vectors": {"node_vectors": False, "node_features": 2},
    "nothing but history": {"node_vectors": False},
    "node features": {"node_features": 3},
}


def classifiers_of(model):
    """Both classifiers with weights, scales and intervals drawn at random."""
    represented = RepresentationClassifier(2 * model.config.width + len(model.description["features"])).double().eval()
    for tensor in (represented.centre, represented.scale):
        tensor.copy_(torch.rand(len(tensor)) + 0.5)
    columns = sum(map(len, model.description.values()))
    on_facts = FactClassifier(np.arange(columns)[::-1].copy(), members=2, hidden=5, second=3).double().eval()
    for tensor in (on_facts.low, on_facts.steepness, on_facts.additive, on_facts.shift):
        torch.nn.init.normal_(tensor)
    return represented, on_facts


def answers(model, pieces, classifiers):
    """Embeddings, scores, representations and classes of every event before it is absorbed and after all; the state."""
    state, found = model.empty_state(), []
    for piece in pieces:
        trace, state = model.advance(piece, state)
        where = (trace, piece.src, piece.dst[::-1].copy(), piece.time)
        found += [trace.embedding, torch.as_tensor(trace.reached.lower), model.score(*where)]
        found += [model.query(trace, piece.src, piece.time)]
        found += [model.describe_events(*where, piece.features).nan_to_num(nan=-1e3)]
        for classifier in classifiers:
            found += model.score_and_classify(trace, classifier, *where[1:], piece.features)
            found += [model.classify(trace, classifier, *where[1:], piece.features)]
    nodes = np.arange(-1, len(model.vocabulary))
    found.append(model.score(state, nodes, nodes[::-1].copy(), state.clock + 2.5))
    found.append(model.link(model.past(state, np.append(0, nodes), state.clock + 2.5), 1))
    return [rows.detach() for rows in found], state


def assert_same_answers(model, pieces, tolerance=1e-10):
    """With gradients, on tensors; and without, on arrays."""
    classifiers = [classifier.to(model.dtype) for classifier in classifiers_of(model)]
    expected, expected_state = answers(model, pieces, classifiers)
    with torch.no_grad():
        assert isinstance(model._program(), Inference)
        found, found_state = answers(model, pieces, classifiers)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    assert_same_state(expected_state, found_state, tolerance)


def described(model):
    """Node features, where a model takes them."""
    if model.config.node_features:
        known = len(model.vocabulary) // 2
        model.inputs.describe(
            np.arange(known), np.random.default_rng(0).normal(size=(known, model.config.node_features))
        )
    return model


@pytest.mark.parametrize("few", [1_000, 0])
@pytest.mark.parametrize("changes", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@pytest.mark.parametrize("features", [0, 2])
@given(data=st.data(), kernel=st.sampled_from(KERNEL_NAMES))
def test_arrays_give_the_numbers_of_tensors(few, changes, features, data, kernel):
    """Nodes that came after the model was made are among them."""
    events = data.draw(streams(max_events=24, features=features))
    known = data.draw(st.integers(0, len(events.vocabulary)))
    vocabulary = Vocabulary(events.vocabulary.ids[:known])
    model = described(tiny_model(kernel, vocabulary, **changes, **feature_widths(features)))
    vocabulary.add(events.vocabulary.ids[known:])
    pieces = [on_vocabulary(piece, vocabulary) for piece in data.draw(cuts(events))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inference, "FEW", few)
        assert_same_answers(model, pieces)


def crowd(size=400, features=0):
    """Many events among few nodes, with ties."""
    rng = np.random.default_rng(0)
    time = np.sort(rng.integers(0, 300, size)) + 1e9
    vectors = random_features(rng, size, features)
    return Events.from_arrays(*rng.integers(0, 20, (2, size)), time, vectors)


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@pytest.mark.parametrize("size", [60, 2 * FEW])
def test_float32_agrees_within_its_tolerance(kernel, size):
    events = crowd(2 * size)
    model = tiny_model(kernel, events.vocabulary, span=300.0).float()
    assert_same_answers(model, list(events.chunks(size)), tolerance=1e-4)


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_several_threads_give_the_same_numbers(kernel, monkeypatch):
    monkeypatch.setattr(parallel, "PARALLEL_FROM", 0)
    monkeypatch.setattr(parallel, "threads_here", lambda: 3)
    monkeypatch.setattr(inference, "FEW", 0)
    events = crowd()
    assert_same_answers(tiny_model(kernel, events.vocabulary), list(events.chunks(60)))


def test_new_weights_are_used_at_once():
    events = crowd(50)
    model = tiny_model("adaptive", events.vocabulary)
    classifiers = classifiers_of(model)
    with torch.no_grad():
        before, _ = answers(model, [events], classifiers)
        for parameter in model.parameters():
            parameter.add_(0.1)
        for classifier in classifiers:
            for parameter in classifier.parameters():
                parameter.add_(0.1)
        after, _ = answers(model, [events], classifiers)
    expected, _ = answers(model, [events], classifiers)
    for one, other, wanted in zip(before[-4:], after[-4:], expected[-4:], strict=True):
        assert not torch.equal(one, other)
        torch.testing.assert_close(other, wanted, rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_a_model_in_training_runs_on_tensors_where_dropout_is():
    model = tiny_model("adaptive").train()
    assert isinstance(model._program(), Differentiable)
    assert isinstance(model.eval()._program(), Inference)
