"""The law: one `advance`, any cut of the stream, the same embeddings and state; and nothing sees the future.

It holds for every model in every form that it runs in: what is served is what is tested.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tapgnn import Events
from tapgnn.model import FactClassifier
from tapgnn.model.backend import COMPILED, PLAIN

from ..streams import KERNEL_NAMES, assert_same_state, cuts, feature_widths, random_features, streams, tiny_model
from .forms import FORMS, MODELS, TOLERANCE, make_model, running

every_form = pytest.mark.parametrize("form", FORMS)
every_model = pytest.mark.parametrize("name", MODELS)
# The patch of a form is undone within each example.
few_examples = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])


def classify(model, where, src, dst, time, features=None):
    """Logits of a classifier on everything that describes an event, with weights drawn at random."""
    torch.manual_seed(0)
    classifier = FactClassifier(np.arange(sum(map(len, model.description.values()))), members=2).to(model.dtype).eval()
    for tensor in (classifier.low, classifier.steepness, classifier.additive):
        torch.nn.init.normal_(tensor)
    return model.classify(where, classifier, src, dst, time, features)


def run(model, pieces):
    """Absorb pieces one after the other: the embeddings of all temporal nodes by (node, time), and the last state."""
    state, rows = model.empty_state(), {}
    for piece in pieces:
        trace, state = model.advance(piece, state)
        owner = trace.view.owner()
        for i in range(trace.view.size):
            rows[int(trace.view.nodes[owner[i]]), float(trace.view.time[i])] = trace.embedding[i].detach()
    return rows, state


@every_form
@every_model
@pytest.mark.parametrize("features", [0, 2])
@given(data=st.data(), layers=st.integers(1, 3), node_features=st.sampled_from([0, 3]))
@few_examples
def test_any_cut_of_the_stream_gives_the_same_embeddings_and_state(
    form, name, features, data, layers, node_features, monkeypatch
):
    events = data.draw(streams(features=features))
    model = make_model(name, events.vocabulary, features, node_features, layers=layers)
    with running(model, form, monkeypatch):
        whole, state = run(model, [events])
        pieces, cut_state = run(model, data.draw(cuts(events)))
    assert whole.keys() == pieces.keys()
    for place, row in whole.items():
        torch.testing.assert_close(pieces[place], row, rtol=1e-10, atol=1e-10)
    assert_same_state(state, cut_state)


@every_form
@every_model
@pytest.mark.parametrize("features", [0, 2])
@given(data=st.data())
@few_examples
def test_the_events_of_an_instant_have_no_order(form, name, features, data, monkeypatch):
    events = data.draw(streams(features=features))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    order = np.lexsort([rng.random(len(events)), events.time])
    rows = {name: getattr(events, name)[order] for name in ("src", "dst", "time")}
    vectors = None if events.features is None else events.features[order]
    model = make_model(name, events.vocabulary, features, 0)
    with running(model, form, monkeypatch):
        whole, state = run(model, [events])
        shuffled, same = run(model, [replace(events, features=vectors, **rows)])
    assert whole.keys() == shuffled.keys()
    for place, row in whole.items():
        torch.testing.assert_close(shuffled[place], row, rtol=1e-10, atol=1e-10)
    assert_same_state(state, same)


def crowd(features):
    """Many events among few nodes, with ties."""
    rng = np.random.default_rng(0)
    size = 400
    vectors = random_features(rng, size, features)
    time = np.sort(rng.integers(0, 300, size)) + 1e9
    return Events.from_arrays(*rng.integers(0, 20, (2, size)), time, vectors)


def answers(model, events):
    """All that can be asked between two parts of a log and after both: representations and scores; and the state."""
    first, chunk = events.between(-np.inf, 1e9 + 120), events.between(1e9 + 120, np.inf)
    _, state = model.advance(first, model.empty_state())
    trace, state = model.advance(chunk, state)
    node = np.arange(-1, len(events.vocabulary))
    found = [trace.embedding, model.score(trace, chunk.src, chunk.dst, chunk.time)]
    found += [model.query(trace, chunk.src, chunk.time), model.query(state, node, state.clock + 1.0)]
    found.append(model.link(model.past(state, np.append(node[3], node), state.clock + 2.0), 1))
    found.append(classify(model, trace, chunk.src, chunk.dst, chunk.time, chunk.features))
    return [rows.detach() for rows in found], state


@every_model
@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float64", "float32"])
@pytest.mark.parametrize("features", [0, 2])
@pytest.mark.parametrize("node_features", [0, 3])
def test_every_form_gives_the_same_numbers_and_so_does_every_cut(name, dtype, features, node_features, monkeypatch):
    events, tolerance = crowd(features), TOLERANCE[dtype]
    found = []
    for form in FORMS:
        model = make_model(name, events.vocabulary, features, node_features, dtype, span=300.0)
        with running(model, form, monkeypatch):
            whole, state = answers(model, events)
            _, cut_state = run(model, events.chunks(7))
        assert_same_state(state, cut_state, tolerance)
        found.append((whole, state))
    (expected, expected_state), *others = found
    for rows, state in others:
        assert_same_state(state, expected_state, tolerance)
        for one, other in zip(rows, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", [COMPILED, PLAIN], ids=["compiled", "plain"])
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@given(data=st.data())
@few_examples
def test_gradients_within_a_chunk_do_not_depend_on_how_the_past_was_cut(backend, kernel, data):
    events = data.draw(streams())
    model = tiny_model(kernel, events.vocabulary)
    model.backend = backend
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
@pytest.mark.parametrize("features", [0, 2])
def test_both_backends_give_the_same_gradients(kernel, features):
    events = crowd(features)
    first, chunk, *_ = events.chunks(30)
    found = []
    for backend in (COMPILED, PLAIN):
        model = tiny_model(kernel, events.vocabulary, **feature_widths(features))
        model.backend = backend
        _, state = model.advance(first, model.empty_state())
        trace, _ = model.advance(chunk, state)
        (model.score(trace, chunk.src, chunk.dst, chunk.time).sum() + trace.embedding.square().sum()).backward()
        found.append({name: p.grad.to_dense() for name, p in model.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    for name, grad in found[0].items():
        torch.testing.assert_close(found[1][name], grad, rtol=1e-8, atol=1e-9, msg=name)


@every_form
@every_model
@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float64", "float32"])
@pytest.mark.parametrize("features", [0, 2])
@given(data=st.data(), node_features=st.sampled_from([3, 0]), seed=st.integers(0, 2**32 - 1))
@settings(few_examples, max_examples=4)
def test_changing_anything_at_or_after_t_changes_nothing_asked_at_t(
    form, name, dtype, features, data, node_features, seed, monkeypatch
):
    events, tolerance = data.draw(streams(features=features)), TOLERANCE[dtype]
    model = make_model(name, events.vocabulary, features, node_features, dtype)
    rng = np.random.default_rng(seed)
    moment = float(rng.choice(np.append(events.time, events.time[-1] + 1.0)))
    later = np.flatnonzero(events.time >= moment)
    src, dst = events.src.copy(), events.dst.copy()
    src[later], dst[later] = rng.integers(0, len(events.vocabulary), (2, len(later)))
    vectors = None if events.features is None else events.features.copy()
    if vectors is not None:
        vectors[later] = random_features(rng, len(later), features)
    keep = np.sort(np.concatenate([np.flatnonzero(events.time < moment), later[rng.random(len(later)) < 0.7]]))
    other = replace(events, src=src, dst=dst, features=vectors).take(keep)
    node = np.arange(-1, len(events.vocabulary))
    partner = np.roll(node, 1)
    given = random_features(rng, len(node), features)
    asked = []
    with running(model, form, monkeypatch):
        for log in (events, other):
            trace, _ = model.advance(log, model.empty_state())
            own = (trace, node, partner, moment, given)
            answers = (model.query(trace, node, moment), model.score(trace, node, partner, moment))
            asked.append((*answers, model.describe_events(*own), classify(model, *own)))
    for before, after in zip(*asked, strict=True):
        torch.testing.assert_close(before, after, rtol=tolerance, atol=tolerance, equal_nan=True)


@every_form
@given(data=st.data())
@few_examples
def test_a_trace_answers_like_the_state_that_was_live_at_that_time(form, data, monkeypatch):
    """Queries into the middle of a chunk equal queries to a state that stopped there."""
    events = data.draw(streams())
    model = tiny_model("adaptive", events.vocabulary)
    node = np.arange(-1, len(events.vocabulary))
    partner = np.roll(node, 1)
    with running(model, form, monkeypatch):
        trace, _ = model.advance(events, model.empty_state())
        for moment in np.append(np.unique(events.time), events.time[-1] + 0.5):
            _, state = model.advance(events.between(-np.inf, moment), model.empty_state())
            torch.testing.assert_close(model.query(trace, node, moment), model.query(state, node, moment))
            scores = (model.score(where, node, partner, moment) for where in (trace, state))
            torch.testing.assert_close(*scores)
            torch.testing.assert_close(*(classify(model, where, node, partner, moment) for where in (trace, state)))


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
