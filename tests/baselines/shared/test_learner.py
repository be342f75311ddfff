"""Learner: laws of every method that is trained and carries a state along the stream, TAP-GNN included."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from tapgnn import Events
from tapgnn.baselines.lag import visible
from tapgnn.baselines.memory.dyrep import DyRep
from tapgnn.baselines.memory.jodie import JODIE
from tapgnn.baselines.memory.tgn import TGN
from tapgnn.baselines.method import StreamClock, replay
from tapgnn.baselines.sampled.dygformer import DyGFormer
from tapgnn.baselines.sampled.graphmixer import GraphMixer
from tapgnn.baselines.sampled.tdgnn import TDGNN
from tapgnn.baselines.sampled.tgat import TGAT
from tapgnn.baselines.sampled.tpnet import TPNet
from tapgnn.baselines.shared.learner import Learner
from tapgnn.data.negatives import rng_for, training_sampler
from tapgnn.errors import ConfigError, EventError, QueryError, StateError
from tapgnn.evaluation.harness import TAPGNNMethod
from tapgnn.evaluation.metrics import auc

TINY = {"width": 8, "epochs": 1, "batch": 16, "learning_rate": 1e-2}
BASELINES = (TGAT, TDGNN, GraphMixer, DyGFormer, TPNet, JODIE, TGN, DyRep)


def make(method, **changes):
    if method is TAPGNNMethod:
        return TAPGNNMethod(0, width=8, epochs=1, options={"sketch_width": 8})
    return method(0, **{**TINY, **changes})


every_method = pytest.mark.parametrize("method", [*BASELINES, TAPGNNMethod])
every_baseline = pytest.mark.parametrize("method", BASELINES)


def random_log(size=120, nodes=9, seed=0, features=0, origin=1e9):
    """Ties, repeats, self-loops, and nodes that come late."""
    rng = np.random.default_rng(seed)
    reach = np.linspace(3, nodes, size).astype(int)
    time = origin + np.cumsum(rng.choice([0.0, 1.0, 3.5], size))
    vectors = rng.normal(size=(size, features)) if features else None
    return Events.from_arrays(rng.integers(0, reach), rng.integers(0, reach), time, vectors)


def parts(log):
    borders = np.flatnonzero(np.diff(log.time)) + 1
    first, second = borders[len(borders) // 2], borders[3 * len(borders) // 4]
    return log.slice(0, int(first)), log.slice(int(first), int(second)), log.slice(int(second), len(log))


def queries(events, nodes, seed=0, unseen=2):
    """Random pairs at the times of the events and between them, unseen nodes among them."""
    rng = np.random.default_rng(seed)
    time = np.concatenate([events.time, events.time + 0.25])
    return rng.integers(-1, nodes + unseen, len(time)), rng.integers(0, nodes + unseen, len(time)), time


class Fitted:
    """Every method, fitted to one log; every test gets a copy of its own."""

    def __init__(self):
        self.log = random_log()
        self.train, self.valid, self.test = parts(self.log)
        self.found = {method: make(method) for method in (*BASELINES, TAPGNNMethod)}
        for method in self.found.values():
            method.fit(self.train, self.valid)

    def copy(self, method):
        """A copy that shares the vocabulary with the log, as every stream must."""
        names = self.log.vocabulary
        return copy.deepcopy(self.found[method], {id(names): names})


@pytest.fixture(scope="module")
def fitted():
    return Fitted()


@every_method
@pytest.mark.parametrize("features", [0, 2])
def test_the_batched_replay_gives_the_scores_and_the_state_of_the_reference(method, features):
    train, valid, test = parts(random_log(features=features))
    slow, fast = make(method), make(method)
    for one in (slow, fast):
        one.fit(train, valid)
        one.observe(valid)
    asked = queries(test, 9)
    np.testing.assert_allclose(fast.replay(test, *asked), replay(slow, test, *asked), rtol=1e-4, atol=1e-5)
    src, dst = np.divmod(np.arange(100), 10)
    later = np.full(100, test.time[-1] + 1.0)
    np.testing.assert_allclose(fast.score(src, dst, later), slow.score(src, dst, later), rtol=1e-4, atol=1e-5)


@every_baseline
def test_details_have_the_epoch_of_the_kept_weights_and_their_validation_auc(method, fitted):
    assert make(method).details() == {}
    several = make(method, epochs=3)
    several.fit(fitted.train, fitted.valid)
    aucs = [point["valid_auc"] for point in several.history]
    best = several.history[int(np.argmax(aucs))]
    last = several.history[-1]["epoch"]
    assert several.details() == {"epochs": last, "kept_epoch": best["epoch"], "valid_auc": max(aucs)}
    several.fit(fitted.train, fitted.valid.slice(0, 0))
    unvalidated = several.details()
    assert unvalidated["kept_epoch"] == unvalidated["epochs"] == 3
    assert np.isnan(unvalidated["valid_auc"])


@every_baseline
@pytest.mark.parametrize("validations", [1, 2, 3])
def test_an_epoch_is_validated_so_many_times_and_at_its_end(method, validations, fitted):
    one = make(method, epochs=2, batch=8, validations=validations)
    one.fit(fitted.train, fitted.valid)
    when = np.array([point["epoch"] for point in one.history])
    step = 8 / len(fitted.train)
    wanted = np.arange(1, 2 * validations + 1) / validations
    assert ((when >= wanted - 1e-9) & (when < wanted + step)).all()
    assert when[validations - 1 :: validations].tolist() == [1.0, 2.0]


@every_method
def test_nothing_at_or_after_the_query_changes_its_score(method, fitted):
    valid, test = fitted.valid, fitted.test
    src, dst, time = queries(test, 9)
    whole = fitted.copy(method)
    whole.observe(valid)
    scores = whole.replay(test, src, dst, time)
    for cut in np.unique(time)[::7]:
        future = test.time >= cut
        mixed = np.concatenate([np.flatnonzero(~future), np.random.default_rng(1).permutation(np.flatnonzero(future))])
        other = test.take(mixed)
        other.time[:] = test.time
        asked = time == cut
        for changed in (other, test.take(~future)):
            one = fitted.copy(method)
            one.observe(valid)
            found = one.replay(changed, src[asked], dst[asked], time[asked])
            np.testing.assert_allclose(found, scores[asked], rtol=1e-4, atol=1e-5)


@every_method
def test_unseen_and_new_nodes_in_the_stream_have_scores(method, fitted):
    one, valid, names = fitted.copy(method), fitted.valid, fitted.log.vocabulary
    one.observe(valid)
    time = valid.time[-1] + np.array([1.0, 2.0])
    stream = Events.from_arrays(["new", 0], ["newer", "new"], time, vocabulary=names)
    one.observe(stream)
    new, newer, known = names.known_rows(["new", "newer", 0])
    asked = np.array([new, newer, known, -1, 77]), np.array([newer, new, new, known, 78])
    scores = one.score(*asked, np.full(5, stream.time[-1] + 1.0))
    assert np.isfinite(scores).all()
    assert scores[0] != scores[4]


@every_baseline
def test_the_best_weights_come_back_with_the_better_of_their_states(method):
    """After the fit they give the best AUC that training saw, and after reading the training events again none that is
    better; where the state is the log itself, the same scores.
    """
    train, valid, _ = parts(random_log(size=300, seed=4))
    one = make(method, epochs=4, patience=4, learning_rate=5e-2)
    one.fit(train, valid)
    seen = [point["valid_auc"] for point in one.history]
    negative = training_sampler(train).draw(valid.src, valid.dst, rng_for(0, "validation"))[:, 0]
    asked = np.tile(valid.src, 2), np.concatenate([valid.dst, negative]), np.tile(valid.time, 2)
    anew = copy.deepcopy(one)
    anew.state, anew._clock = anew._empty_state(), StreamClock()
    anew.observe(train)
    scores, again = one.replay(valid, *asked), anew.replay(valid, *asked)
    labels = np.repeat([1, 0], len(valid))
    assert auc(labels, scores) == pytest.approx(max(seen), abs=1e-9)
    assert auc(labels, again) <= max(seen) + 1e-9
    if not one.has_memory:
        np.testing.assert_allclose(again, scores, rtol=1e-5, atol=1e-6)


@every_baseline
def test_the_number_of_validations_does_not_change_the_training(method):
    train, valid, _ = parts(random_log())
    often, seldom = make(method, epochs=2, validations=3), make(method, epochs=2, validations=1)
    nothing = valid.slice(0, 0)
    for one in (often, seldom):
        one.fit(train, nothing)
    src, dst = np.divmod(np.arange(81), 9)
    later = np.full(81, valid.time[-1] + 1.0)
    np.testing.assert_array_equal(often.score(src, dst, later), seldom.score(src, dst, later))


@every_baseline
def test_a_training_that_diverges_says_so_and_names_the_cure(method):
    train, valid, _ = parts(random_log())
    # An infinite step makes infinite weights on every CPU.
    with pytest.raises(ConfigError, match=r"diverged: the loss is .* lower the learning rate"):
        make(method, learning_rate=np.inf, validations=1).fit(train, valid)
    with pytest.raises(ConfigError, match=r"diverged: \d+ of \d+ scores are not finite; lower the learning rate"):
        # A single step, so that no later loss can tell.
        make(method, learning_rate=np.inf, batch=len(train)).fit(train, valid)


@every_baseline
def test_training_stops_when_patience_is_over(method):
    train, valid, _ = parts(random_log())
    one = make(method, epochs=9, patience=1, learning_rate=1e-12)
    one.fit(train, valid)
    assert one.details()["epochs"] < 9
    assert one.details()["epochs"] - one.details()["kept_epoch"] < 2


@every_baseline
def test_a_seed_gives_the_same_scores_again_and_fit_forgets(method):
    train, valid, _ = parts(random_log())
    before = torch.random.get_rng_state()
    used, fresh = make(method), make(method)
    used.fit(train, valid)
    used.observe(valid)
    used.fit(train, valid)
    fresh.fit(train, valid)
    src, dst = np.divmod(np.arange(81), 9)
    later = np.full(81, valid.time[-1] + 1.0)
    np.testing.assert_array_equal(used.score(src, dst, later), fresh.score(src, dst, later))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("method", [TGAT, GraphMixer, DyGFormer, TPNet, JODIE, TGN, DyRep])
def test_events_with_other_features_than_in_training_are_refused(method):
    train, valid, _ = parts(random_log(features=2))
    one = make(method)
    one.fit(train, valid)
    with pytest.raises(EventError, match="have 2 features, these have 0"):
        one.observe(replace(valid, features=None))


@every_baseline
def test_wrong_settings_and_a_query_before_the_fit_are_refused(method):
    with pytest.raises(ConfigError, match="width must be at least 1, not 0"):
        method(width=0)
    with pytest.raises(ConfigError, match="learning_rate must be positive"):
        method(learning_rate=0.0)
    with pytest.raises(StateError, match="call fit first"):
        method().score(np.array([0]), np.array([1]), np.array([1.0]))
    assert issubclass(method, Learner)


def test_heads_must_divide_the_width_and_there_must_be_layers():
    for method in (TGAT, TGN):
        with pytest.raises(ConfigError, match="divide the width"):
            method(width=8, heads=3)
    with pytest.raises(ConfigError, match="layers must be at least 1"):
        TDGNN(layers=0)
    with pytest.raises(ConfigError, match="neighbours must be at least 1"):
        TGAT(neighbours=0)


class Scripted(JODIE):
    """Its validation AUCs are given, and it records the memory that each was computed from."""

    def fit(self, train, valid, aucs):
        self.aucs, self.seen = iter(aucs), []
        super().fit(train, valid)

    def _validation_auc(self, valid, pairs):
        self.seen.append(self.state.memory.clone())
        return next(self.aucs)


@pytest.mark.parametrize(("aucs", "kept"), [((0.6, 0.5), 0), ((0.5, 0.6), 1)])
def test_a_memory_is_validated_as_training_left_it_and_as_its_weights_make_it_and_the_better_is_kept(aucs, kept):
    train, valid, _ = parts(random_log(size=300, seed=4))
    one = Scripted(width=8, epochs=1, validations=1, batch=20, learning_rate=5e-2)
    one.fit(train, valid, aucs)
    assert not torch.equal(*one.seen)
    assert torch.equal(one.state.memory, one.seen[kept])
    assert one.details()["valid_auc"] == 0.6


@pytest.mark.parametrize("method", [TGAT, TDGNN, JODIE, TGN, DyRep])
def test_the_head_of_two_representations_is_the_score_of_the_pair(method, fitted):
    src, dst, time = queries(fitted.test, 9)
    one, other = fitted.copy(method), fitted.copy(method)
    ends = one.represent(fitted.test, np.concatenate([src, dst]), np.tile(time, 2))
    assert ends.shape == (2 * len(src), one.width)
    with torch.no_grad():
        left, right = torch.from_numpy(ends).split(len(src))
        logits = one.network.head(left, right).squeeze(1).numpy()
    np.testing.assert_allclose(logits, other.replay(fitted.test, src, dst, time), rtol=1e-4, atol=1e-5)
    with pytest.raises(QueryError):
        one.represent(fitted.test, src, time)


class CountingNetwork(torch.nn.Module):
    """A slope, and vectors that nothing reads."""

    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.zeros(1))
        self.vectors = torch.nn.Embedding(1, 1, sparse=True)


class Counting(Learner):
    """Its logit grows with the number of events that a query sees; its state is their times."""

    name = "counting"

    def _build(self, train):
        self.asked = []
        return CountingNetwork()

    def _empty_state(self):
        return np.empty(0)

    def _logits(self, events, src, dst, time):
        self.state = np.append(self.state, events.time)
        seen = np.searchsorted(self.state, time, side="left")
        self.asked += zip(time.tolist(), seen.tolist(), strict=True)
        return self.network.slope * torch.from_numpy(seen).float()


@pytest.mark.parametrize(("lag", "batch"), [(0, 10), (1, 10), (4, 10), (10, 10), (30, 10), (7, 200)])
def test_training_and_validation_show_a_history_as_stale_as_that_of_the_test(lag, batch):
    log = random_log(150)
    log = Events(log.src, log.dst, np.arange(150.0), vocabulary=log.vocabulary)
    train, valid = log.slice(0, 100), log.slice(100, 150)
    method = Counting(epochs=2, validations=1, batch=batch)
    method.lag = lag
    method.fit(train, valid)
    expected = dict(enumerate(visible(train.time, train.time, lag)))
    expected |= {100 + row: 100 + seen for row, seen in enumerate(visible(valid.time, valid.time, lag))}
    assert {time for time, _ in method.asked} == set(log.time)
    assert all(expected[int(time)] == seen for time, seen in method.asked)
    assert np.array_equal(method.state, train.time)


@every_baseline
def test_a_lag_changes_what_is_learnt_and_one_of_a_single_event_does_not(method):
    train, valid, test = parts(random_log())
    scores = []
    for lag in (0, 1, 9):
        one = make(method)
        one.lag = lag
        one.fit(train, valid)
        one.observe(valid)
        scores.append(one.replay(test, *queries(test, 9)))
    assert np.array_equal(scores[0], scores[1])
    assert not np.allclose(scores[0], scores[2])
    assert np.isfinite(scores[2]).all()
