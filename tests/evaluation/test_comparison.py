"""Comparison: one harness, the same task for every method, and no method's end is another's."""

import copy
import json
import os
import signal

import numba
import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from tapgnn import TAPGNN
from tapgnn.baselines import METHODS, EdgeBank, Method, Recency
from tapgnn.baselines.memory.jodie import JODIE
from tapgnn.baselines.shared.summary import summary
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.data.splits import split_paper, split_strict
from tapgnn.errors import ConfigError, EventError, QueryError
from tapgnn.evaluation.comparison import (
    NAMES,
    TAPGNNMethod,
    Task,
    best_threshold,
    chosen_methods,
    compare,
    make_method,
    measured,
)
from tapgnn.evaluation.harness import evaluate, events_fingerprint
from tapgnn.evaluation.metrics import accuracy
from tapgnn.evaluation.questions import heuristics


@pytest.fixture(scope="module")
def log():
    return simulate(events=900, accounts=120, merchants=30, days=20, seed=3)


class Recorder(Method):
    """Writes down all that it is told and asked; answers with noise of its own."""

    sees_history = True

    def __init__(self, name, seed):
        self.name = name
        self.told = []
        self.rng = np.random.default_rng(seed)

    def fit(self, train, valid):
        self.told.append(("fit", *_columns(train), *_columns(valid)))

    def observe(self, events):
        self.told.append(("observe", *_columns(events)))

    def score(self, src, dst, time):
        self.told.append(("score", src.tolist(), dst.tolist(), time.tolist()))
        return self.rng.random(len(src))


def _columns(events):
    return events.src.tolist(), events.dst.tolist(), events.time.tolist()


@pytest.mark.parametrize(("protocol", "cut"), [("paper", split_paper), ("strict", split_strict)])
def test_every_method_is_told_and_asked_the_same_in_the_same_order(log, protocol, cut):
    split = cut(log)
    task = Task(split, protocol, 7)
    one, other = Recorder("one", 1), Recorder("other", 2)
    marks = task.measure(one), Task(cut(log), protocol, 7).measure(other)
    assert one.told == other.told
    assert set(marks[0]) == set(marks[1]) >= {"auc", "ap", "accuracy", "mrr", "train_seconds", "query_ms"}
    assert one.told[0][0] == "fit"
    observed = [call for call in one.told if call[0] == "observe"]
    assert sum(len(call[3]) for call in observed) == len(split.valid) + len(split.test)


def test_a_question_is_asked_before_its_instant_is_observed(log):
    one = Recorder("one", 1)
    Task(split_strict(log), "strict", 0).measure(one)
    clock = -np.inf
    for call, *columns in one.told[1:]:
        if call == "observe":
            clock = columns[2][-1]
        else:
            assert min(columns[2]) > clock


def test_all_marks_come_from_the_scores_alone(log):
    """A method that gives the scores of another gets its marks."""

    class Echo(Recency):
        name = "echo"

    task = Task(split_paper(log), "paper", 0)
    costs = ("train_seconds", "train_cpu_seconds", "query_ms")
    first, second = (task.measure(method) for method in (Recency(), Echo()))
    assert {k: v for k, v in first.items() if k not in costs} == {k: v for k, v in second.items() if k not in costs}


def test_tapgnn_gets_from_the_harness_the_marks_that_its_own_evaluation_gives(log):
    params = {"width": 8, "epochs": 1, "options": {"sketch_width": 8}}
    own = evaluate(log, TAPGNN(**params), "paper", seeds=1).results
    marks = Task(split_paper(log), "paper", 0).measure(TAPGNNMethod(0, **params))
    assert marks["auc"] == pytest.approx(own["auc_mean"], abs=1e-9)
    assert marks["ap"] == pytest.approx(own["ap_mean"], abs=1e-9)


@pytest.mark.parametrize(
    "scores", [[0.9, 0.1, 0.7, 0.3], [1.0, 1.0, 0.0, 0.0], [-np.inf, 3.0, 2.0, -np.inf], [1.0] * 4]
)
@pytest.mark.parametrize("labels", [[1, 0, 1, 0], [0, 0, 1, 1], [1, 1, 1, 1]])
def test_no_other_threshold_is_better(scores, labels):
    labels, scores = np.array(labels), np.array(scores)
    found = accuracy(labels, scores, best_threshold(labels, scores))
    for threshold in (*scores, 0.2, 0.5, 0.8):
        said = scores >= threshold
        # Saying no to all is not among the choices: half of the questions are positive.
        if said.any():
            assert found >= (said == (labels == 1)).mean()


def test_a_score_that_is_no_number_is_refused(log):
    class Lost(Recency):
        def replay(self, events, src, dst, time):
            return np.full(len(src), np.nan)

    with pytest.raises(QueryError, match="no numbers"):
        Task(split_strict(log), "strict", 0).measure(Lost())


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


class Restless(Recency):
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
    if name == "restless":
        return Restless(seed)
    if name == "astray":
        return JODIE(seed, width=8, learning_rate=1e30)
    odd = {"dying": Dying, "refusing": Refusing, "crashing": Crashing, "hungry": Hungry, "threads": Threads}
    return {**odd, "recency": Recency}[name]()


ODD = ("dying", "refusing", "crashing", "astray", "hungry", "recency")


def test_a_method_that_fails_is_a_row_with_its_error_and_the_others_go_on(log):
    steps = []
    found = compare(log, ODD, "paper", seeds=1, listener=steps.append, make=make_odd, known=ODD)
    rows = found["methods"]
    assert list(rows) == list(ODD)
    assert rows["dying"]["error"] == "its process ended without a result, exit code 3"
    assert rows["refusing"]["error"] == "EventError: this log is not to my taste"
    assert rows["crashing"]["error"].startswith("ZeroDivisionError: ")
    assert "the training of jodie went astray" in rows["astray"]["error"]
    assert [rows[name]["failed"] for name in ODD] == [1, 1, 1, 1, 0, 0]
    assert 0.5 < rows["recency"]["auc_mean"] <= 1
    assert rows["recency"]["sees_history"] is True
    assert rows["hungry"]["memory_mb"] > 150 > rows["recency"]["memory_mb"]
    assert [(step.method, step.run is None) for step in steps] == [(n, b) for n in ODD for b in (True, False)]
    assert found["data"]["sha256"] == events_fingerprint(log)
    assert (found["protocol"], found["seeds"], found["versions"]["threads"]) == ("paper", [0], "1")
    assert found["interrupted"] is False


def test_a_seed_that_fails_leaves_the_figures_of_the_others(log):
    known = ("restless", "recency")
    rows = compare(log, known, "paper", seeds=2, make=make_odd, known=known)["methods"]
    row = rows["restless"]
    assert row["auc_mean"] == rows["recency"]["runs"][0]["auc"]
    assert (row["failed"], row["error"]) == (1, "EventError: seed 1 is not mine")
    assert [run["seed"] for run in row["runs"]] == [0, 1]
    assert (rows["recency"]["failed"], "error" in rows["recency"]) == (0, False)


@pytest.mark.parametrize("threads", [1, 2])
def test_every_library_of_the_child_has_the_number_of_threads_that_was_asked_for(log, threads):
    found = compare(log, ["threads"], "paper", seeds=1, threads=threads, make=make_odd, known=["threads"])
    told = found["methods"]["threads"]["runs"][0]["details"]
    pools = json.loads(told["pools"])
    assert {kind for kind, _ in pools} >= {"openblas", "openmp"}
    assert {count for _, count in pools} == {threads}
    assert told["torch"] == threads
    assert told["numba"] == min(threads, numba.config.NUMBA_NUM_THREADS)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize(("place", "ended"), [(2, ["recency"]), (3, ["recency", "edgebank"])])
def test_ctrl_c_keeps_the_runs_that_ended(log, place, ended):
    def stop(step):
        if step.place == place and step.run is None:
            os.kill(os.getpid(), signal.SIGINT)

    found = compare(log, ["recency", "edgebank"], "paper", seeds=2, listener=stop)
    assert found["interrupted"] is True
    assert list(found["methods"]) == ended
    assert found["seeds"] == [0]
    assert all(0 <= row["auc_mean"] <= 1 for row in found["methods"].values())


@pytest.mark.usefixtures("heard")
def test_ctrl_c_before_the_first_run_ended_goes_on(log):
    def stop(step):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        compare(log, ["recency"], "paper", seeds=1, listener=stop)


def test_the_childs_answer_is_what_the_harness_measures(log):
    task = Task(split_paper(log), "paper", 0)
    answer = measured(make_odd, "recency", task)
    assert answer["auc"] == task.measure(Recency())["auc"]
    assert answer["memory_mb"] >= 0
    assert answer["sees_history"] is True


def test_windowed_edgebank_looks_back_as_far_as_the_test_is_long(log):
    split = split_paper(log)
    (wanted,) = [method for method in heuristics(split) if method.name == "edgebank-window"]
    found = compare(log, ["edgebank-window", "edgebank"], "paper", seeds=1)["methods"]
    assert found["edgebank-window"]["auc_mean"] == Task(split, "paper", 0).measure(wanted)["auc"]
    assert found["edgebank-window"]["auc_mean"] != found["edgebank"]["auc_mean"]


class TwoScores(Recency):
    """Answers with recency; the same turned round is its other score."""

    def details(self):
        return {"chosen": "plain", "valid_auc": 0.5}

    def alternatives(self):
        other = copy.deepcopy(self)
        other.replay = lambda *asked: -Recency.replay(other, *asked)
        return {"plain": copy.deepcopy(self), "turned": other}


def test_other_scores_of_a_fit_are_asked_the_same_and_change_nothing(log):
    task = Task(split_paper(log), "paper", 0)
    alone, found = task.measure(Recency()), task.measure(TwoScores())
    assert found["details"] == {"chosen": "plain", "valid_auc": 0.5}
    assert not {"details", "alternatives"} & set(alone)
    assert found["auc"] == found["alternatives"]["plain"]["auc"] == alone["auc"]
    assert found["alternatives"]["turned"]["auc"] == pytest.approx(1 - alone["auc"])
    assert found["alternatives"]["turned"]["mrr"] < alone["mrr"]
    run = {**found, "seed": 0, "sees_history": True, "memory_mb": 1.0}
    row = summary([run, run])
    assert row["alternatives"]["turned"]["auc_mean"] == pytest.approx(1 - alone["auc"])
    assert row["alternatives"]["turned"]["auc_std"] == 0
    assert "details" not in row
    assert row["runs"][1]["details"]["chosen"] == "plain"


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


def test_the_names_are_those_of_the_field_and_each_builds_its_method():
    wanted = "tapgnn node2vec graphsage graphsage-star ctdne htne tnode tgat tdgnn jodie tgn dyrep"
    trivial = {"recency", "recency-destination", "popularity", "edgebank", "edgebank-window"}
    assert set(NAMES) == {*wanted.split(), *trivial}
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
    for bad in ({"seeds": 0}, {"threads": 0}):
        with pytest.raises(ConfigError, match="at least one seed and one thread"):
            compare(log, ["recency"], **bad)


def test_the_wrapper_is_left_as_it_was_by_a_score(log):
    split = split_paper(log)
    method = TAPGNNMethod(0, width=8, epochs=1, options={"sketch_width": 8})
    method.fit(split.train, split.valid)
    later = np.full(3, split.train.time[-1] + 1)
    rows = np.array([0, 1, 10**6]), np.array([2, 3, -1])
    first = copy.copy(method.score(*rows, later))
    np.testing.assert_array_equal(first, method.score(*rows, later))
    assert np.isfinite(first).all()
