"""Harness: several seeds, the same questions for every method, and no method's end is another's."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

import tapgnn.evaluation
from tapgnn import TAPGNN
from tapgnn.baselines import METHODS, TRIVIAL, LocalGlobal, Recency
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.data.splits import split_paper, split_strict
from tapgnn.errors import ConfigError
from tapgnn.evaluation import evaluate
from tapgnn.evaluation.harness import (
    FORMS,
    NAMES,
    TAPGNNMethod,
    make_method,
    with_dense_features,
)
from tapgnn.evaluation.metrics import auc, sigmoid
from tapgnn.evaluation.protocols import PROTOCOLS
from tapgnn.evaluation.questions import Questions, measure


@pytest.fixture(scope="module")
def log():
    return simulate(events=900, accounts=120, merchants=30, days=20, seed=3)


@pytest.fixture(scope="module")
def longer():
    return simulate(events=2_500, accounts=120, merchants=30, days=20, seed=3)


def estimator():
    return TAPGNN(width=16, epochs=1, chunk=256)


def asked(log):
    """The questions that `compare` asks under the paper's protocol with seed 0."""
    rules = PROTOCOLS["paper"].for_any_method()
    return Questions(rules.split(log), rules, 0)


def test_the_package_has_these_two_names():
    assert tapgnn.evaluation.__all__ == ["compare", "evaluate"]
    with pytest.raises(AttributeError, match="no attribute 'examine'"):
        tapgnn.evaluation.examine  # noqa: B018


def test_tapgnn_gets_from_a_comparison_the_metrics_that_its_evaluation_gives(log):
    params = {"width": 8, "epochs": 1, "options": {"sketch_width": 8}}
    own = evaluate(log, TAPGNN(**params), "paper", seeds=1).results
    found = measure(TAPGNNMethod(0, **params), asked(log))
    # The queries are batched differently; where two scores hardly differ, a pair may change its order.
    assert found.metrics["auc"] == pytest.approx(own["auc_mean"], abs=2e-3)
    assert found.metrics["ap"] == pytest.approx(own["ap_mean"], abs=2e-3)
    assert found.details["selection_auc"] == own["selection_auc_mean"]


@pytest.fixture(scope="module", params=["paper", "strict"])
def found(request, longer):
    return evaluate(longer, estimator(), request.param, seeds=2)


def test_results_are_plain_values_with_mean_and_deviation_of_every_figure(found):
    results = json.loads(json.dumps(found.results))
    assert results["seeds"] == [0, 1]
    for name in ("auc", "ap", "accuracy"):
        values = [run[name] for run in results["runs"]]
        assert results[f"{name}_mean"] == pytest.approx(np.mean(values))
        assert results[f"{name}_std"] == pytest.approx(np.std(values, ddof=1))
    assert list(results["baselines"]) == list(TRIVIAL)
    assert len(results["data_sha256"]) == 64
    assert results["versions"]["torch"]
    if results["protocol"] == "strict":
        for name in ("historical_auc", "inductive_auc", "transductive_auc", "mrr", "hits10"):
            assert 0 <= results[f"{name}_mean"] <= 1
            assert f"{name}_mean" in results["baselines"]["recency"]


def test_a_report_gets_what_it_draws(found):
    assert list(found.first) == ["tapgnn", *found.results["baselines"]]
    for name, given in found.first.items():
        assert len(given.labels) == len(given.scores) == len(given.times) == 2 * found.results["test_events"]
        row = found.results["runs"][0] if name == "tapgnn" else given.metrics
        assert auc(given.labels, given.scores) == row["auc"]
    embeddings, times = found.sample.z, found.sample.times
    assert embeddings.shape == (len(times), 16)
    assert len(times) > 0
    assert {point["seed"] for point in found.history} == {0, 1}


def test_the_model_beats_chance_and_the_same_seed_gives_the_same_result(longer, found):
    again = evaluate(longer, estimator(), found.results["protocol"], seeds=1)
    assert again.results["runs"][0] == found.results["runs"][0]
    assert found.results["auc_mean"] > 0.6


def test_the_future_of_the_test_period_changes_no_earlier_score(longer):
    """Replace what happens in the second half of the test: scores of the first half stay."""
    first = evaluate(longer, estimator(), "strict", seeds=1)
    test = split_strict(longer).test
    middle = test.time[len(test) // 2]
    later = longer.time >= middle
    rng = np.random.default_rng(0)
    src, dst = longer.src.copy(), longer.dst.copy()
    src[later], dst[later] = rng.permutation(src[later]), rng.permutation(dst[later])
    other = replace(longer, src=src, dst=dst)
    second = evaluate(other, estimator(), "strict", seeds=1)
    before, after = first.first["tapgnn"], second.first["tapgnn"]
    early = (before.times < middle) & (before.labels == 1)
    np.testing.assert_allclose(sigmoid(before.scores[early]), sigmoid(after.scores[early]), rtol=1e-4, atol=1e-5)


def test_ctrl_c_stops_and_keeps_the_seeds_that_were_complete(longer, found):
    def stop(seed, step):
        if seed == 1:
            raise KeyboardInterrupt

    stopped = evaluate(longer, estimator(), found.results["protocol"], seeds=4, listener=stop)
    assert stopped.results["seeds"] == [0]
    assert stopped.results["interrupted"] is True
    assert stopped.results["runs"] == found.results["runs"][:1]
    assert found.results["interrupted"] is False
    assert {point["seed"] for point in stopped.history} == {0}


def test_ctrl_c_before_the_first_seed_is_complete_goes_on(longer):
    seeds = []

    def stop(seed, step):
        seeds.append(seed)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(longer, estimator(), seeds=3, listener=stop)
    assert seeds == [0]


def test_ctrl_c_between_the_methods_of_a_seed_leaves_that_seed_out(log, monkeypatch):
    fits = []

    def fit(self, train, valid):
        fits.append(self)
        if len(fits) == stop:
            raise KeyboardInterrupt
        whole(self, train, valid)

    whole = LocalGlobal.fit
    monkeypatch.setattr(LocalGlobal, "fit", fit)
    stop = 2
    found = evaluate(log, estimator(), "paper", seeds=3)
    assert (found.results["seeds"], found.results["interrupted"]) == ([0], True)
    assert {point["seed"] for point in found.history} == {0}
    assert [run["seed"] for run in found.results["runs"]] == [0]
    fits, stop = [], 1
    with pytest.raises(KeyboardInterrupt):
        evaluate(log, estimator(), "paper", seeds=3)


@pytest.mark.parametrize(("protocol", "times"), [("paper", 2), ("tgb", 1), ("dyglib", 1)])
def test_a_rule_is_asked_again_only_where_another_seed_has_other_questions(log, protocol, times, monkeypatch):
    asked_of = []

    def counted(method, questions):
        asked_of.append(method.name)
        return measure(method, questions)

    monkeypatch.setattr("tapgnn.evaluation.harness.measure", counted)
    model = TAPGNN(width=8, epochs=1, options={"sketch_width": 8})
    found = evaluate(log, model, protocol, seeds=2).results
    assert (asked_of.count("tapgnn"), asked_of.count("recency")) == (2, times)
    rules = PROTOCOLS[protocol]
    each = [measure(Recency(), FORMS[rules.form](rules.split(log), rules, s)).metrics[rules.main] for s in (0, 1)]
    assert found["baselines"]["recency"][f"{rules.main}_mean"] == pytest.approx(np.mean(each), abs=1e-12)


def test_every_method_gets_numbers_made_of_the_columns_as_the_training_part_knows_them(log):
    split = split_strict(log)
    dense = with_dense_features(split)
    strange = {
        name: np.where(True, "new", cells) if cells.dtype == object else cells * 9
        for name, cells in split.test.columns.items()
    }
    other = with_dense_features(replace(split, test=replace(split.test, columns=strange)))
    for part in ("train", "valid", "test"):
        events = getattr(dense, part)
        assert events.features.shape == (len(events), dense.train.feature_width)
        assert np.isfinite(events.features).all()
        assert events.columns is getattr(split, part).columns
    np.testing.assert_array_equal(other.train.features, dense.train.features)
    assert with_dense_features(replace(split, train=replace(split.train, columns={}))).train.features is None


def test_tapgnn_encodes_the_columns_itself(log):
    rules = PROTOCOLS["paper"].for_any_method()
    given = [
        measure(TAPGNNMethod(width=8, epochs=1), Questions(split, rules, 0))
        for split in (rules.split(log), with_dense_features(rules.split(log)))
    ]
    assert given[0].metrics == given[1].metrics


def test_the_names_are_those_of_the_field_and_each_builds_its_method():
    static, memory = "node2vec graphsage ctdne htne tnode", "jodie tgn dyrep"
    sampled = "graphsage-star tgat tdgnn graphmixer dygformer tpnet"
    assert set(NAMES) == {"tapgnn", *static.split(), *sampled.split(), *memory.split(), *TRIVIAL}
    for name in NAMES:
        assert make_method(name, 3).name == name
    assert set(METHODS) == set(NAMES) - {"tapgnn", "edgebank-window"}


def test_tapgnn_as_a_method_is_left_as_it_was_by_a_score(log):
    split = split_paper(log)
    method = TAPGNNMethod(0, width=8, epochs=1, options={"sketch_width": 8})
    method.fit(split.train, split.valid)
    later = np.full(3, split.train.time[-1] + 1)
    rows = np.array([0, 1, 10**6]), np.array([2, 3, -1])
    first = copy.copy(method.score(*rows, later))
    np.testing.assert_array_equal(first, method.score(*rows, later))
    assert np.isfinite(first).all()


def test_wrong_requests_are_refused(log):
    with pytest.raises(ConfigError, match="not one of paper, strict"):
        evaluate(log, estimator(), "fair")
    with pytest.raises(ConfigError, match="seeds must be at least 1"):
        evaluate(log, estimator(), seeds=0)
