"""The model object: queries, unknown nodes, features, heads, presets, late events, and states that are used up."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tapgnn import Config, Events, Model
from tapgnn.errors import ConfigError, LateEventError, QueryError, StateError, TapgnnError
from tapgnn.model import PRESETS
from tapgnn.model.backend import COMPILED, PLAIN
from tapgnn.model.features.node_statistics import never_active

from ..streams import assert_same_state, streams, tiny_model

ENCODERS = (COMPILED.encode_statistics, PLAIN.encode_statistics)


@pytest.fixture
def events():
    return Events.from_arrays(["a", "a", "b", "c"], ["b", "c", "c", "c"], [1.0, 2.0, 2.0, 4.0])


def test_a_node_without_history_has_a_defined_answer_and_reads_no_future(events):
    model = tiny_model(vocabulary=events.vocabulary)
    trace, _ = model.advance(events, model.empty_state())
    fresh = model.query(model.empty_state(), [2], [1.5])
    torch.testing.assert_close(model.query(trace, [2], [1.5]), fresh)
    assert torch.isfinite(model.query(trace, [-1, 0, 2], [0.5, 0.5, 0.5])).all()


def test_nodes_that_appear_after_training_share_the_unknown_vector(events):
    model = tiny_model(vocabulary=events.vocabulary)
    _, state = model.advance(events, model.empty_state())
    later = Events.from_arrays(["new", "newer"], ["a", "a"], [5.0, 6.0], vocabulary=events.vocabulary)
    _, state = model.advance(later, state)
    rows = events.vocabulary.rows(["new", "newer"])
    assert torch.equal(*model.inputs(torch.from_numpy(rows)))
    assert torch.isfinite(model.score(state, rows, [0, 0], 7.0)).all()
    assert state.size == 5


@pytest.mark.parametrize("time", [4.0, 3.0, float("nan")])
def test_a_question_that_can_no_longer_be_answered_is_refused(events, time):
    model = tiny_model(vocabulary=events.vocabulary)
    _, state = model.advance(events.slice(0, 1), model.empty_state())
    trace, state = model.advance(events.slice(1, 4), state)
    with pytest.raises(QueryError, match=r"events up to 4\.0 are already absorbed"):
        model.query(state, [0], [time])
    with pytest.raises(QueryError, match=r"events up to 1\.0 are already absorbed"):
        model.query(trace, [0], [min(time, 1.0)])


def test_a_state_of_another_vocabulary_is_refused(events):
    model = tiny_model(vocabulary=events.vocabulary)
    _, state = model.advance(events, model.empty_state())
    other = Events.from_arrays(["a"], ["b"], [9.0])
    with pytest.raises(StateError, match="another vocabulary"):
        tiny_model(vocabulary=other.vocabulary).advance(other, state)
    assert model.query(state, [0], [9.0]).shape == (1, 8)


def test_an_unknown_policy_for_late_events_is_refused(events):
    model = tiny_model(vocabulary=events.vocabulary)
    _, state = model.advance(events, model.empty_state())
    with pytest.raises(ConfigError, match="reject or merge"):
        model.advance(events, state, late="ignore")


def test_a_node_without_history_scores_the_same_whether_or_not_its_id_is_known(events):
    model = tiny_model(vocabulary=events.vocabulary, identity_dropout=0.0)
    with torch.no_grad():
        model.inputs.vectors.weight.zero_()
    first = events.slice(0, 1)
    _, state = model.advance(first, model.empty_state())
    torch.testing.assert_close(model.score(state, [0], [2], 5.0), model.score(state, [0], [-1], 5.0))


@pytest.mark.parametrize("other", [{"sketch_width": 8}, {"layers": 1}, {"half_lives": (0.1,)}])
def test_a_state_of_a_model_of_another_shape_is_refused(events, other):
    model = Model(Config.preset("adaptive", width=8), events.vocabulary)
    stranger = Model(Config.preset("adaptive", width=8, **other), events.vocabulary)
    with pytest.raises(StateError, match="another model"):
        model.advance(events, stranger.empty_state())
    trace, state = stranger.advance(events, stranger.empty_state())
    for where in (trace, state):
        with pytest.raises(StateError, match="another model"):
            model.query(where, [0], [9.0])
        with pytest.raises(StateError, match="another model"):
            model.score(where, [0], [1], [9.0])


def test_a_state_is_used_up_by_advance_and_a_copy_is_not(events):
    model = tiny_model(vocabulary=events.vocabulary)
    start = model.empty_state()
    kept = start.copy()
    trace, state = model.advance(events.slice(0, 1), start)
    for act in (lambda: model.advance(events, start), lambda: start.past(*ask()), start.copy):
        with pytest.raises(StateError, match="was advanced"):
            act()
    _, again = model.advance(events.slice(0, 1), kept)
    assert_same_state(state, again)
    model.advance(events.slice(1, 3), state)
    with pytest.raises(StateError, match="was advanced"):
        trace.past(*ask())


def test_a_node_is_active_once_it_has_a_history(events):
    model = tiny_model(vocabulary=events.vocabulary)
    _, state = model.advance(events.slice(0, 1), model.empty_state())
    trace, state = model.advance(events.slice(1, 3), state)
    node = np.array([0, 1, 2, -1] * 2)
    seen = set()
    for where, time in ((trace, events.time[1]), (trace, events.time[2]), (trace, 9.0), (state, 9.0)):
        past = where.past(node, np.full(8, time))
        names = [events.vocabulary.ids[v] if v >= 0 else None for v in node]
        before = events.between(-np.inf, time)
        met = {events.vocabulary.ids[v] for v in (*before.src, *before.dst)}
        active = (~never_active(model.backend.pick(past.tensors().statistics))).tolist()
        assert active == [name in met for name in names]
        seen |= {tuple(active)}
    assert len(seen) > 1


def test_a_gradient_that_needs_rows_written_since_is_refused(events):
    model = tiny_model(vocabulary=events.vocabulary)
    _, state = model.advance(events.slice(0, 1), model.empty_state())
    asked = model.query(state, [0], [1.5])
    model.advance(events.slice(1, 3), state)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        asked.sum().backward()


def ask():
    return np.array([0]), np.array([9.0])


@pytest.mark.parametrize("time", [4.0, 3.0])
def test_late_events_are_refused_by_name_and_change_nothing(events, time):
    model = tiny_model(vocabulary=events.vocabulary)
    _, state = model.advance(events, model.empty_state())
    before = state.copy()
    late = Events.from_arrays(["b"], ["a"], [time], vocabulary=events.vocabulary)
    with pytest.raises(LateEventError, match=r"'b' -> 'a' at .* clock of the state, 4.0"):
        model.advance(late, state)
    assert_same_state(state, before, tolerance=0)


@pytest.mark.parametrize("kernel", ["gcn", "mean", "pool"])
def test_merged_late_events_are_exact_for_undecayed_sums_of_one_layer(kernel):
    columns = np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([1.0, 2.0, 3.0])
    options = {
        "layers": 1,
        "time_width": 0,
        "sketch_width": 0,
        "roles": False,
        "self_connection": False,
    }
    events = Events.from_arrays(*columns)
    model = tiny_model(kernel, events.vocabulary, **options)
    _, in_order = model.advance(events, model.empty_state())
    first = Events.from_arrays(*(c[[0, 2]] for c in columns), vocabulary=events.vocabulary)
    late = Events.from_arrays(*(c[[1]] for c in columns), vocabulary=events.vocabulary)
    _, state = model.advance(first, model.empty_state())
    _, state = model.advance(late, state, late="merge")
    assert state.clock == 3.0
    if kernel != "gcn":  # the senders' degrees at the true instant are gone
        torch.testing.assert_close(state.sums, in_order.sums)
    torch.testing.assert_close(state.statistics[1:4, :2], in_order.statistics[1:4, :2])


def test_node_features_reach_the_embeddings_of_known_and_new_nodes(events):
    model = tiny_model(vocabulary=events.vocabulary, node_features=2, node_vectors=False)
    plain, _ = model.advance(events, model.empty_state())
    model.inputs.describe([0, 7], [[1.0, 2.0], [3.0, 4.0]])
    described, _ = model.advance(events, model.empty_state())
    assert not torch.allclose(plain.embedding, described.embedding)
    fresh = model.inputs(torch.tensor([7, -1, 5]))
    assert not torch.allclose(fresh[0], fresh[1])
    torch.testing.assert_close(fresh[1], fresh[2])
    for bad in ([[1.0]], [[np.nan, 1.0]]):
        with pytest.raises(ConfigError):
            model.inputs.describe([0], bad)


@pytest.mark.parametrize("head", ["dot", "role-dot", "additive", "mlp"])
@pytest.mark.parametrize("statistics", [True, False])
def test_every_head_scores_pairs_and_learns(events, head, statistics):
    model = tiny_model(vocabulary=events.vocabulary, head=head, statistics=statistics).train()
    trace, _ = model.advance(events, model.empty_state())
    model.score(trace, [0, 1], [1, 2], 3.0).sum().backward()
    touched = [name for name, p in model.named_parameters() if p.grad is not None and p.grad.to_dense().abs().sum() > 0]
    assert any(name.startswith("projection") for name in touched)
    assert any(name.startswith("blocks") for name in touched)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_run_fitted_to_a_log(preset, events):
    config = Config.preset(preset, width=8).fitted_to(events)
    model = Model(config, events.vocabulary)
    trace, state = model.advance(events, model.empty_state())
    assert trace.embedding.shape == (6, 8)
    assert torch.isfinite(model.score(state, [0], [1], 9.0)).all()


@pytest.mark.parametrize("kernel", ["gcn", "mean", "pool", "attention"])
def test_the_paper_preset_takes_each_of_its_four_kernels(kernel, events):
    model = Model(Config.preset("paper", kernel=kernel, width=8).fitted_to(events), events.vocabulary)
    trace, _ = model.advance(events, model.empty_state())
    assert torch.isfinite(trace.embedding).all()


def test_identity_dropout_trains_the_unknown_vector_and_only_in_training(events):
    model = tiny_model(vocabulary=events.vocabulary, identity_dropout=0.5)
    node = torch.zeros(200, dtype=torch.int64)
    assert (model.inputs(node) == model.inputs(node)[0]).all()
    model.train()
    model.inputs(node).sum().backward()
    grad = model.inputs.vectors.weight.grad.to_dense()
    assert grad[0].abs().sum() > 0
    assert grad[1].abs().sum() > 0


def test_node_vectors_get_sparse_gradients(events):
    model = tiny_model(vocabulary=events.vocabulary)
    trace, _ = model.advance(events.slice(0, 1), model.empty_state())
    trace.embedding.sum().backward()
    grad = model.inputs.vectors.weight.grad
    assert grad.is_sparse
    assert grad.coalesce().indices().flatten().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel": "lstm"}, "not one of gcn"),
        ({"head": "cosine"}, "not one of dot"),
        ({"layers": 0}, "layers must be at least 1"),
        ({"dropout": 1.0}, "dropout must lie"),
        ({"span": 0.0}, "span must be a positive"),
        ({"origin": float("nan")}, "origin must be finite"),
        ({"half_lives": (0.0,)}, "half_lives must be positive"),
        ({"sketch_half_lives": (-1.0,)}, "sketch_half_lives must be positive"),
        ({"log_pause": True}, "options of a model without statistics"),
        ({"projection": False}, "options of a model without statistics"),
        ({"norm": False}, "self connection with norm"),
        ({"edge_features": -1}, "negative"),
        ({"depth": 3}, "unknown option 'depth'"),
        ({"rates": 64}, "lower rates"),
    ],
)
def test_a_wrong_configuration_says_what_is_wrong(changes, words, events):
    with pytest.raises(ConfigError, match=words):
        Model(Config.from_dict(changes), events.vocabulary)


def test_events_must_fit_the_model(events):
    model = tiny_model(vocabulary=events.vocabulary)
    with pytest.raises(ConfigError, match=r"vocabulary=model\.vocabulary"):
        model.advance(Events.from_arrays([1], [2], [3]), model.empty_state())
    wide = Events.from_arrays(["a"], ["b"], [9.0], [[1.0]], vocabulary=events.vocabulary)
    with pytest.raises(ConfigError, match="expects 0 features"):
        model.advance(wide, model.empty_state())
    with pytest.raises(TapgnnError, match="not one of adaptive, paper"):
        Config.preset("best")


def test_one_wrong_time_does_not_set_the_scale():
    time = np.append(np.linspace(1e9, 1e9 + 1e6, 999), 0.0)
    events = Events.from_arrays(np.arange(1000) % 9, np.arange(1000) % 7, time)
    assert Config().fitted_to(events).span < 2e6


def test_an_empty_chunk_changes_nothing(events):
    model = tiny_model(vocabulary=events.vocabulary)
    _, state = model.advance(events, model.empty_state())
    before = state.copy()
    trace, state = model.advance(events.slice(0, 0), state)
    assert_same_state(state, before, tolerance=0)
    assert trace.embedding.shape == (0, 8)
    assert model.query(trace, [0], [9.0]).shape == (1, 8)


@given(data=st.data())
def test_statistics_are_encoded_the_same_in_plain_torch(data):
    events = data.draw(streams())
    model = tiny_model(vocabulary=events.vocabulary)
    trace, state = model.advance(events, model.empty_state())
    node, time, encoder = np.arange(-1, len(events.vocabulary)), float(events.time[-1]), model.statistics
    for past in (model.past(trace, node, time), model.past(state, node, time + 2.0)):
        found = past.tensors()
        asked = (model.backend.pick(found.statistics), found.partners, found.time, found.seen)
        encoder.calibrate(encoder.plain(asked[0], model.backend.pick(found.partners), found.time, found.seen))
        for found, plain in zip(*(form(encoder, *asked) for form in ENCODERS), strict=True):
            torch.testing.assert_close(found, plain, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "preset", [{"kernel": "adaptive", "time_width": 0}, {**PRESETS["paper"], "kernel": "attention"}]
)
@pytest.mark.parametrize("size", [3, 600])
def test_dropout_depends_on_the_mode_of_the_model_and_not_on_gradients_or_the_number_of_events(preset, size):
    rng = np.random.default_rng(0)
    events = Events.from_arrays(*rng.integers(0, 20, (2, size)), np.arange(size) + 1e9)
    options = {**preset, "width": 8, "identity_dropout": 0.5, "dropout": 0.5}
    model = tiny_model(vocabulary=events.vocabulary, **options)

    def numbers(gradients):
        torch.manual_seed(0)
        with torch.set_grad_enabled(gradients):
            trace, state = model.advance(events, model.empty_state())
            return trace.embedding.detach(), model.score(state, events.src, events.dst, 2e9).detach()

    steady = numbers(gradients=False)
    model.train()
    for with_gradients, without, dropped_nothing in zip(numbers(True), numbers(False), steady, strict=True):
        torch.testing.assert_close(without, with_gradients, rtol=1e-10, atol=1e-10)
        assert not torch.allclose(without, dropped_nothing)
