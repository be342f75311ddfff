"""Harness: several seeds, the same questions for every method, and no method's end is another's."""

import copy
import json
import os
import signal
from dataclasses import replace

import numba
import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

import tapgnn.evaluation
from tapgnn import TAPGNN
from tapgnn.baselines import METHODS, EdgeBank, Popularity, Recency
from tapgnn.baselines.memory.jodie import JODIE
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.data.splits import split_paper, split_strict
from tapgnn.errors import ConfigError, EventError
from tapgnn.evaluation import compare, evaluate
from tapgnn.evaluation.harness import (
    NAMES,
    TAPGNNMethod,
    chosen_methods,
    make_method,
    measured,
    summary,
    with_dense_features,
)
from tapgnn.evaluation.metrics import auc, sigmoid
from tapgnn.evaluation.protocols import PROTOCOLS
from tapgnn.evaluation.questions import TRIVIAL, Questions, measure
from tapgnn.events import events_fingerprint


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
    assert found.details["valid_auc"] == own["valid_auc_mean"]


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
    embeddings, times = found.sample
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

    whole = Popularity.fit
    monkeypatch.setattr(Popularity, "fit", fit)
    stop = 2
    found = evaluate(log, estimator(), "paper", seeds=3)
    assert (found.results["seeds"], found.results["interrupted"]) == ([0], True)
    assert {point["seed"] for point in found.history} == {0}
    assert [run["seed"] for run in found.results["runs"]] == [0]
    fits, stop = [], 1
    with pytest.raises(KeyboardInterrupt):
        evaluate(log, estimator(), "paper", seeds=3)


class Dying(Recency):
    def fit(self, train, valid):
        os._exit(3)


class Refusing(Recency):
    def fit(self, train, valid):
        raise EventError("this log is not to my taste")


class Crashing(Recency):
    def fit(self, train, valid):
        raise ZeroDivisionError


class Hungry(EdgeBank):
    """Holds 200 MB while it learns."""

    def fit(self, train, valid):
        held = np.ones(25_000_000)
        super().fit(train, valid)
        assert held[-1] == 1


class Unstable(Recency):
    """Fails with every seed but the first."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed

    def fit(self, train, valid):
        if self.seed:
            raise EventError(f"seed {self.seed} is not mine")
        super().fit(train, valid)


class Threads(Recency):
    """Tells how many threads every library has, those included that are loaded by the fit."""

    def fit(self, train, valid):
        import sklearn.cluster  # noqa: F401

        super().fit(train, valid)

    def details(self):
        pools = [(pool["internal_api"], pool["num_threads"]) for pool in threadpool_info()]
        return {"pools": json.dumps(pools), "torch": torch.get_num_threads(), "numba": numba.get_num_threads()}


def make_odd(name, seed):
    if name == "unstable":
        return Unstable(seed)
    if name == "diverging":
        return JODIE(seed, width=8, learning_rate=np.inf)
    odd = {"dying": Dying, "refusing": Refusing, "crashing": Crashing, "hungry": Hungry, "threads": Threads}
    return {**odd, "recency": Recency}[name]()


ODD = ("dying", "refusing", "crashing", "diverging", "hungry", "recency")


def test_a_method_that_fails_is_a_row_with_its_error_and_the_others_go_on(log):
    heard = []
    found = compare(log, ODD, "paper", seeds=1, listener=heard.append, make=make_odd)
    rows = found["methods"]
    assert list(rows) == list(ODD)
    assert rows["dying"]["error"] == "its process ended without a result, exit code 3"
    assert rows["refusing"]["error"] == "EventError: this log is not to my taste"
    assert rows["crashing"]["error"].startswith("ZeroDivisionError: ")
    assert "training diverged" in rows["diverging"]["error"]
    assert [rows[name]["failed"] for name in ODD] == [1, 1, 1, 1, 0, 0]
    assert 0.5 < rows["recency"]["auc_mean"] <= 1
    assert rows["recency"]["sees_history"] is True
    assert rows["hungry"]["memory_mb"] > 150 > rows["recency"]["memory_mb"]
    assert [(progress.method, progress.run is None) for progress in heard] == [
        (n, b) for n in ODD for b in (True, False)
    ]
    assert found["data"]["sha256"] == events_fingerprint(log)
    assert (found["protocol"], found["seeds"], found["versions"]["threads"]) == ("paper", [0], "1")
    assert found["interrupted"] is False


def test_a_seed_that_fails_leaves_the_figures_of_the_others(log):
    rows = compare(log, ("unstable", "recency"), "paper", seeds=2, make=make_odd)["methods"]
    row = rows["unstable"]
    assert row["auc_mean"] == rows["recency"]["runs"][0]["auc"]
    assert (row["failed"], row["error"]) == (1, "EventError: seed 1 is not mine")
    assert [run["seed"] for run in row["runs"]] == [0, 1]
    assert (rows["recency"]["failed"], "error" in rows["recency"]) == (0, False)


@pytest.mark.parametrize("threads", [1, 2])
def test_every_library_of_the_child_has_the_number_of_threads_that_was_asked_for(log, threads):
    found = compare(log, ["threads"], "paper", seeds=1, threads=threads, make=make_odd)
    told = found["methods"]["threads"]["runs"][0]["details"]
    pools = json.loads(told["pools"])
    assert {kind for kind, _ in pools} >= {"openblas", "openmp"}
    assert {count for _, count in pools} == {threads}
    assert told["torch"] == threads
    assert told["numba"] == min(threads, numba.config.NUMBA_NUM_THREADS)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize(("place", "ended"), [(2, ["recency"]), (3, ["recency", "edgebank"])])
def test_ctrl_c_keeps_the_runs_that_ended(log, place, ended):
    def stop(progress):
        if progress.place == place and progress.run is None:
            os.kill(os.getpid(), signal.SIGINT)

    found = compare(log, ["recency", "edgebank"], "paper", seeds=2, listener=stop)
    assert found["interrupted"] is True
    assert list(found["methods"]) == ended
    assert found["seeds"] == [0]
    assert all(0 <= row["auc_mean"] <= 1 for row in found["methods"].values())


@pytest.mark.usefixtures("heard")
def test_ctrl_c_before_the_first_run_ended_goes_on(log):
    def stop(progress):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        compare(log, ["recency"], "paper", seeds=1, listener=stop)


def test_the_childs_answer_is_what_the_harness_measures(log):
    questions = asked(log)
    answer = measured(make_odd, "recency", questions)
    assert answer["auc"] == measure(Recency(), questions).metrics["auc"]
    assert answer["memory_mb"] >= 0
    assert answer["sees_history"] is True


def test_windowed_edgebank_looks_back_as_far_as_the_test_is_long(log):
    test = split_paper(log).test
    wanted = EdgeBank(float(test.time[-1] - test.time[0]))
    found = compare(log, ["edgebank-window", "edgebank"], "paper", seeds=1)["methods"]
    assert found["edgebank-window"]["auc_mean"] == measure(wanted, asked(log)).metrics["auc"]
    assert found["edgebank-window"]["auc_mean"] != found["edgebank"]["auc_mean"]


def test_a_row_has_means_deviations_and_costs_of_all_seeds():
    runs = [
        {"seed": s, "auc": a, "train_seconds": t, "query_ms": 1.0, "memory_mb": m, "sees_history": False}
        for s, a, t, m in ((0, 0.5, 1.0, 9.0), (1, 0.7, 3.0, 7.0))
    ]
    row = summary(runs)
    assert row["auc_mean"] == pytest.approx(0.6)
    assert row["auc_std"] == pytest.approx(np.std([0.5, 0.7], ddof=1))
    assert (row["train_seconds"], row["memory_mb"], row["sees_history"]) == (2.0, 9.0, False)
    assert (row["failed"], "error" in row) == (0, False)
    broken = {"seed": 2, "error": "gone"}
    partly = summary([*runs, broken])
    assert {key: partly[key] for key in ("auc_mean", "auc_std")} == {key: row[key] for key in ("auc_mean", "auc_std")}
    assert (partly["failed"], partly["error"], len(partly["runs"])) == (1, "gone", 3)
    assert summary([broken, broken]) == {"error": "gone", "failed": 2, "runs": [broken, broken]}


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


def test_wrong_requests_are_refused(log):
    assert chosen_methods(["tgn", "recency", "tgn"]) == ["tgn", "recency"]
    assert chosen_methods(["all"]) == list(NAMES)
    for names in (["gtn"], []):
        with pytest.raises(ConfigError, match="the methods are tapgnn"):
            chosen_methods(names)
    with pytest.raises(ConfigError, match="not one of paper, strict"):
        compare(log, ["recency"], "fair")
    with pytest.raises(ConfigError, match="not one of paper, strict"):
        evaluate(log, estimator(), "fair")
    with pytest.raises(ConfigError, match="seeds must be at least 1"):
        evaluate(log, estimator(), seeds=0)
    for bad in ({"seeds": 0}, {"threads": 0}):
        with pytest.raises(ConfigError, match="seeds and threads must be at least 1"):
            compare(log, ["recency"], **bad)


def test_tapgnn_as_a_method_is_left_as_it_was_by_a_score(log):
    split = split_paper(log)
    method = TAPGNNMethod(0, width=8, epochs=1, options={"sketch_width": 8})
    method.fit(split.train, split.valid)
    later = np.full(3, split.train.time[-1] + 1)
    rows = np.array([0, 1, 10**6]), np.array([2, 3, -1])
    first = copy.copy(method.score(*rows, later))
    np.testing.assert_array_equal(first, method.score(*rows, later))
    assert np.isfinite(first).all()
