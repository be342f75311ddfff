"""Comparison: every method in a process of its own, and no method's end is another's."""

import json
import os
import signal

import numba
import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from tapgnn import TAPGNN
from tapgnn.baselines import EdgeBank, Recency
from tapgnn.baselines.memory.jodie import JODIE
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.data.splits import split_paper
from tapgnn.errors import ConfigError, EventError
from tapgnn.evaluation import compare
from tapgnn.evaluation.comparison import chosen_methods, summary
from tapgnn.evaluation.harness import NAMES, measured
from tapgnn.evaluation.protocols import PROTOCOLS
from tapgnn.evaluation.questions import Questions, measure
from tapgnn.evaluation.revisions import REVISIONS
from tapgnn.events import events_fingerprint

SMALL = {"width": 8, "epochs": 1, "options": {"sketch_width": 8}}


@pytest.fixture(scope="module")
def log():
    return simulate(events=900, accounts=120, merchants=30, days=20, seed=3)


def asked(log):
    """The questions that `compare` asks under the paper's protocol with seed 0."""
    rules = PROTOCOLS["paper"].for_any_method()
    return Questions(rules.split(log), rules, 0)


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
    assert [(progress.run.method, progress.found is None) for progress in heard] == [
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
def test_torch_has_one_thread_in_the_child_and_every_other_library_as_many_as_were_asked_for(log, threads):
    found = compare(log, ["threads"], "paper", seeds=1, threads=threads, make=make_odd)
    told = found["methods"]["threads"]["runs"][0]["details"]
    pools = json.loads(told["pools"])
    assert {kind for kind, _ in pools} >= {"openblas", "openmp"}
    assert {threads} <= {count for _, count in pools} <= {1, threads}
    assert told["torch"] == 1
    assert told["numba"] == min(threads, numba.config.NUMBA_NUM_THREADS)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize(("done", "ended"), [(1, ["recency"]), (2, ["recency", "edgebank"])])
def test_ctrl_c_keeps_the_runs_that_ended(log, done, ended):
    def stop(progress):
        if progress.done == done and progress.found is None:
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


def test_wrong_requests_are_refused(log):
    assert chosen_methods(["tgn", "recency", "tgn"]) == ["tgn", "recency"]
    assert chosen_methods(["all"]) == list(NAMES)
    for names in (["gtn"], []):
        with pytest.raises(ConfigError, match="the methods are tapgnn"):
            chosen_methods(names)
    with pytest.raises(ConfigError, match="not one of paper, strict"):
        compare(log, ["recency"], "fair")
    for bad in ({"seeds": 0}, {"threads": 0}, {"processes": 0}):
        with pytest.raises(ConfigError, match="seeds, processes and threads must be at least 1"):
            compare(log, ["recency"], **bad)


def test_tapgnn_is_as_its_estimator_is_configured_and_its_seed_is_the_first(log):
    found = compare(log, ["tapgnn", "recency"], "paper", seeds=1, estimator=TAPGNN(seed=3, lag=20, **SMALL))
    assert (found["seeds"], found["lag"]) == ([3], 20)
    model, training = found["settings"]["model"], found["settings"]["training"]
    assert (model["width"], model["sketch_width"], training["epochs"], training["seed"]) == (8, 8, 1, 3)
    assert None not in (*model.values(), *training.values())
    other = compare(log, ["recency"], "paper", seeds=1, estimator=TAPGNN(seed=3))
    assert other["methods"]["recency"]["auc_mean"] != found["methods"]["recency"]["auc_mean"]


def test_with_a_folder_finished_runs_are_kept_and_not_done_again(log, tmp_path):
    def again(methods, **changes):
        """The runs that were started, and the results."""
        started = []
        found = compare(log, methods, "paper", folder=tmp_path, listener=started.append, **{"seeds": 2, **changes})
        return [(each.run.method, each.run.seed) for each in started if each.found is None], found

    two = ["recency", "tapgnn"]
    own = TAPGNN(**SMALL)
    runs, first = again(two, estimator=own)
    assert len(runs) == 4
    assert again(two, estimator=own) == ([], first)
    runs, more = again([*two, "edgebank"], estimator=own, seeds=3)
    assert runs == [("edgebank", 0), ("edgebank", 1), *((name, 2) for name in (*two, "edgebank"))]
    assert more["methods"]["tapgnn"]["runs"][:2] == first["methods"]["tapgnn"]["runs"]
    assert again(two, estimator=TAPGNN(**{**SMALL, "width": 12}))[0] == [("tapgnn", 0), ("tapgnn", 1)]
    assert len(again(two, estimator=TAPGNN(lag=20, **SMALL))[0]) == 4


def test_a_failed_run_in_the_folder_is_done_again(log, tmp_path):
    for _ in range(2):
        heard = []
        compare(log, ["refusing", "recency"], "paper", seeds=1, folder=tmp_path, listener=heard.append, make=make_odd)
    assert {progress.run.method for progress in heard} == {"refusing"}


def test_a_run_of_older_code_in_the_folder_is_done_again(log, tmp_path, monkeypatch):
    started = []
    for raised in (False, True):
        monkeypatch.setitem(REVISIONS, "trivial", REVISIONS["trivial"] + raised)
        compare(log, ["recency"], "paper", seeds=1, folder=tmp_path, listener=started.append)
    assert [each.found is None for each in started] == [True, False] * 2
