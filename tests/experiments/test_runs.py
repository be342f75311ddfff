"""What the runs of an experiment do, on small simulated logs: each measures what it says."""

import numpy as np
import pytest
import torch

from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.evaluation.questions import Questions
from tapgnn.evaluation.runner import Run
from tapgnn.experiments import direct, latency, nodes
from tapgnn.experiments import map as maps
from tapgnn.experiments.direct_aggregation import WithDirectAggregation
from tapgnn.experiments.link_training import RULES

SMALL = {"width": 8, "epochs": 1}


@pytest.fixture(scope="module")
def log():
    return simulate(events=1_500, accounts=60, merchants=20, days=20, fraud=0.1, seed=3)


@pytest.fixture
def given(log, monkeypatch):
    """Every experiment reads the simulated log."""
    for module in (direct, latency, nodes, maps):
        monkeypatch.setattr(module, "read_log", lambda run, quick_events=0: log)


@pytest.mark.parametrize("kernel", ["gcn", "mean", "pool", "attention"])
def test_direct_aggregation_gives_the_scores_of_the_trained_weights(log, kernel):
    questions = Questions(RULES.split(log), RULES, 0)
    method = WithDirectAggregation(0, preset="paper", kernel=kernel, **SMALL)
    method.fit(questions.split.train, questions.split.valid)
    (other,) = method.alternatives().values()
    scores = {}
    for name, each in (("scan", method), ("direct", other)):
        each.observe(questions.split.valid)
        scores[name] = each.replay(questions.split.test, questions.src, questions.dst, questions.time)
    np.testing.assert_allclose(scores["direct"], scores["scan"], rtol=1e-4, atol=1e-4)
    assert np.std(scores["scan"]) > 0.01


def test_training_with_direct_aggregation_is_training_with_the_scan(given, monkeypatch):
    monkeypatch.setattr(direct, "WIDTH", 8)
    monkeypatch.setattr(direct, "CHUNK", 400)
    found = {method: direct.perform(Run("fb-forum", method, 0, quick=True)) for method in ("scan", "direct")}
    one, other = (found[method]["points"] for method in ("scan", "direct"))
    assert [point["step"] for point in one] == list(range(1, len(one) + 1))
    np.testing.assert_allclose([p["loss"] for p in one], [p["loss"] for p in other], rtol=1e-3)
    assert [point["auc"] is None for point in one] == [point["auc"] is None for point in other]
    assert sum(point["auc"] is not None for point in one) == 2
    assert found["direct"]["auc"] == pytest.approx(found["scan"]["auc"], abs=0.01)
    assert found["direct"]["us_per_event"] > 0


@pytest.mark.parametrize("method", ["layers-1", "size-0.5"])
def test_a_time_is_that_of_one_thread_and_of_as_many_events(given, log, method):
    found = latency.perform(Run("wikipedia", method, 0, quick=True))
    assert found["threads"] == torch.get_num_threads() == 1
    before = len(log) * 85 // 100
    assert found["events"] == pytest.approx(before / 2 if method == "size-0.5" else before, rel=0.02)
    assert found["layers"] == (1 if method == "layers-1" else 2)
    assert all(found[name] > 0 for name in latency.METHODS)


def test_turns_are_taken_and_the_median_is_that_of_the_later_ones():
    order = []
    jobs = {name: lambda piece, name=name: order.append((name, piece)) for name in ("a", "b")}
    found = latency.take_turns(jobs, [(1,), (2,), (3,)], turn=2)
    assert order == [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("a", 3), ("b", 3)]
    assert set(found) == {"a", "b"}


@pytest.mark.parametrize("method", ["ctdne", "jodie", "published"])
def test_nodes_are_classified_from_what_a_method_makes_of_both_ends(given, log, method, monkeypatch):
    monkeypatch.setitem(nodes.VARIANTS, "published", {"preset": "published", **SMALL})
    found = nodes.perform(Run("wikipedia", method, 0))
    assert 0.3 < found["auc"] < 1
    assert 0.3 < found["valid_auc"] < 1
    assert found["labels"] == (log.labels > 0).sum()
    assert found["columns"] == len(log.columns) > 0


def test_a_map_shows_two_hundred_destinations_from_each_quantile_on(given, log):
    rows, quantile = maps.choose(log)
    assert [*np.bincount(quantile)] == [200] * 5
    span = log.time[-1] - log.time[0]
    for place, share in enumerate(maps.QUANTILES):
        assert log.time[rows[quantile == place]].min() >= log.time[0] + share * span
    found = maps.perform(Run("soc-wiki-elec", "paper", 0))
    assert np.isfinite(found["points"]).all()
    assert (len(found["points"]), found["quantile"]) == (1_000, quantile.tolist())
    assert 0 <= found["same_quantile"] <= 1


def test_neighbours_of_the_same_quantile_are_all_or_a_fifth():
    quantile = np.repeat(np.arange(5), 200)
    apart = quantile[:, None] * 100.0 + np.random.default_rng(0).normal(size=(1_000, 3))
    assert maps.neighbours_of_same_quantile(apart, quantile) == 1.0
    alike = np.random.default_rng(0).normal(size=(1_000, 3))
    assert maps.neighbours_of_same_quantile(alike, quantile) == pytest.approx(0.2, abs=0.03)
