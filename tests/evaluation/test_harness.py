"""Evaluation: both protocols, several seeds, the trivial methods beside the model, and no look at the future."""

import json

import numpy as np
import pytest

from tapgnn import TAPGNN, Events
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.data.splits import split_strict
from tapgnn.errors import ConfigError
from tapgnn.evaluation.harness import Exam, evaluate, events_fingerprint, examine, sigmoid


@pytest.fixture(scope="module")
def log():
    return simulate(events=2_500, accounts=120, merchants=30, days=20, seed=3)


def estimator():
    return TAPGNN(width=16, epochs=1, chunk=256)


@pytest.fixture(scope="module", params=["paper", "strict"])
def found(request, log):
    return evaluate(log, estimator(), request.param, seeds=2)


def test_results_are_plain_values_with_mean_and_deviation_of_every_figure(found):
    results = json.loads(json.dumps(found.results))
    assert results["seeds"] == [0, 1]
    for name in ("auc", "ap", "accuracy"):
        values = [run[name] for run in results["runs"]]
        assert results[f"{name}_mean"] == pytest.approx(np.mean(values))
        assert results[f"{name}_std"] == pytest.approx(np.std(values, ddof=1))
    assert set(results["baselines"]) == {
        "recency", "recency-destination", "popularity", "edgebank", "edgebank-window"
    }  # fmt: skip
    assert len(results["data_sha256"]) == 64
    assert results["versions"]["torch"]
    if results["protocol"] == "strict":
        for name in ("historical_auc", "inductive_auc", "transductive_auc", "mrr", "hits10"):
            assert 0 <= results[f"{name}_mean"] <= 1
            assert f"{name}_mean" in results["baselines"]["recency"]


def test_a_report_gets_what_it_draws(found):
    assert len(found.labels) == len(found.scores) == len(found.times)
    assert ((found.scores >= 0) & (found.scores <= 1)).all()
    assert all(len(scores) == len(found.labels) for scores in found.baseline_scores.values())
    assert len(found.embeddings) == len(found.embedding_times) > 0
    assert {point["seed"] for point in found.history} == {0, 1}


def test_the_model_beats_chance_and_the_same_seed_gives_the_same_result(log, found):
    again = evaluate(log, estimator(), found.results["protocol"], seeds=1)
    assert again.results["runs"][0] == found.results["runs"][0]
    assert found.results["auc_mean"] > 0.6


def test_the_future_of_the_test_period_changes_no_earlier_score(log):
    """Replace what happens in the second half of the test: scores of the first half stay."""
    first = evaluate(log, estimator(), "strict", seeds=1)
    test = split_strict(log).test
    middle = test.time[len(test) // 2]
    later = log.time >= middle
    rng = np.random.default_rng(0)
    src, dst = log.src.copy(), log.dst.copy()
    src[later], dst[later] = rng.permutation(src[later]), rng.permutation(dst[later])
    other = Events(src, dst, log.time, log.features, log.labels, log.vocabulary)
    second = evaluate(other, estimator(), "strict", seeds=1)
    asked = (first.times < middle) & (first.labels == 1)
    np.testing.assert_allclose(first.scores[asked], second.scores[asked], rtol=1e-5)


def test_an_exam_marks_a_perfect_and_a_useless_method(log):
    split = split_strict(log)
    exam = Exam(split, "strict", seed=0)
    perfect = np.where(np.arange(len(exam.src)) < exam.size, 1.0, -1.0)
    marks = exam.mark(perfect, probabilities=True)
    assert marks["auc"] == marks["mrr"] == marks["hits10"] == marks["historical_auc"] == 1.0
    useless = exam.mark(np.zeros(len(exam.src)), probabilities=False)
    assert useless["auc"] == 0.5
    assert "accuracy" not in useless
    assert useless["mrr"] == pytest.approx(1 / 11)


def test_ctrl_c_stops_and_keeps_the_seeds_that_were_complete(log, found):
    def stop(seed, step):
        if seed == 1:
            raise KeyboardInterrupt

    stopped = evaluate(log, estimator(), found.results["protocol"], seeds=4, listener=stop)
    assert stopped.results["seeds"] == [0]
    assert stopped.results["interrupted"] is True
    assert stopped.results["runs"] == found.results["runs"][:1]
    assert found.results["interrupted"] is False
    assert {point["seed"] for point in stopped.history} == {0}


def test_ctrl_c_before_the_first_seed_is_complete_goes_on(log):
    seeds = []

    def stop(seed, step):
        seeds.append(seed)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(log, estimator(), seeds=3, listener=stop)
    assert seeds == [0]


def test_a_sample_of_the_questions_is_spread_over_the_test(log):
    model = estimator().fit(log.slice(0, len(split_strict(log).train)))
    split = split_strict(log)
    seen = examine(model.model_, model.observe(split.valid).state_, split, "paper", most=50)
    assert len(seen.labels) == 100
    assert seen.times[0] == split.test.time[0]
    assert seen.times[49] == split.test.time[-1]
    assert list(seen.marks) == ["tapgnn", *seen.baseline_scores]


def test_wrong_requests_are_refused(log):
    with pytest.raises(ConfigError, match="not one of paper, strict"):
        evaluate(log, estimator(), "fair")
    with pytest.raises(ConfigError, match="one seed"):
        evaluate(log, estimator(), seeds=0)


def test_the_fingerprint_names_the_log(log):
    assert events_fingerprint(log) == events_fingerprint(log)
    assert events_fingerprint(log) != events_fingerprint(log.slice(0, 0).append(log.slice(0, 1)))


def test_sigmoid_does_not_overflow():
    np.testing.assert_allclose(sigmoid(np.array([-1e4, 0.0, 1e4])), [0.0, 0.5, 1.0])
