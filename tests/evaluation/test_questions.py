"""Questions: the same for every method, asked along the stream, and metrics that come from the scores alone."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from tapgnn import TAPGNN
from tapgnn.baselines import TRIVIAL, Method, Recency
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.data.splits import split_strict
from tapgnn.errors import QueryError
from tapgnn.evaluation.comparison import summary
from tapgnn.evaluation.harness import FORMS
from tapgnn.evaluation.protocols import PROTOCOLS
from tapgnn.evaluation.questions import Questions, measure, measure_trained


@pytest.fixture(scope="module")
def log():
    return simulate(events=900, accounts=120, merchants=30, days=20, seed=3)


def asked(log, protocol="paper", seed=0, lag=0):
    """The questions that `compare` asks."""
    rules = PROTOCOLS[protocol].for_any_method()
    return FORMS[rules.form](rules.split(log), rules, seed, lag)


class Recorder(Method):
    """Writes down all that it is told and asked; answers with noise of its own."""

    sees_history = True

    def __init__(self, name, seed):
        self.name = name
        self.told = []
        self.rng = np.random.default_rng(seed)

    def fit(self, train, valid):
        self.told.append(("fit", *_columns(train), *_columns(valid)))

    def forget(self):
        self.told.append(("forget",))

    def observe(self, events):
        self.told.append(("observe", *_columns(events)))

    def score(self, src, dst, time):
        self.told.append(("score", src.tolist(), dst.tolist(), time.tolist()))
        return self.rng.random(len(src))


def _columns(events):
    return events.src.tolist(), events.dst.tolist(), events.time.tolist()


@pytest.mark.parametrize("lag", [0, 20])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_method_is_told_and_asked_the_same_in_the_same_order(log, protocol, lag):
    one, other = Recorder("one", 1), Recorder("other", 2)
    found = [measure(method, asked(log, protocol, 7, lag)).plain() for method in (one, other)]
    assert one.told == other.told
    pairs = {"auc", "ap", "accuracy", "mrr"}
    metrics = pairs if PROTOCOLS[protocol].form == "pairs" else {PROTOCOLS[protocol].main}
    assert set(found[0]) == set(found[1]) >= {*metrics, "train_seconds", "query_ms"}
    assert one.told[0][0] == "fit"
    observed = [call for call in one.told if call[0] == "observe"]
    split = PROTOCOLS[protocol].split(log)
    hidden = split.history is not split.train
    assert (("forget",) in one.told) == hidden
    again = len(split.history) if hidden else 0
    assert sum(len(call[3]) for call in observed) == again + len(split.valid) + len(split.test)


@pytest.mark.parametrize("lag", [0, 20])
@pytest.mark.parametrize("rules", [*PROTOCOLS.values(), PROTOCOLS["strict"].for_any_method()])
def test_a_question_is_asked_before_its_instant_is_observed(log, rules, lag):
    one = Recorder("one", 1)
    measure(one, FORMS[rules.form](rules.split(log), rules, 0, lag))
    clock = -np.inf
    for call, *columns in one.told[1:]:
        if call == "forget":
            clock = -np.inf
        elif call == "observe":
            clock = columns[2][-1]
        else:
            assert min(columns[2]) > clock


def test_all_metrics_come_from_the_scores_alone(log):
    """A method that gives the scores of another gets its metrics."""

    class Echo(Recency):
        name = "echo"

    questions = asked(log)
    assert measure(Recency(), questions).metrics == measure(Echo(), questions).metrics


def test_a_method_with_probabilities_keeps_its_threshold_and_others_take_that_of_the_validation(log):
    class Certain(Recency):
        threshold = -np.inf

    rules = PROTOCOLS["paper"]
    questions = Questions(rules.split(log), rules, 0)
    assert measure(Certain(), questions).metrics["accuracy"] == 0.5
    found, expected = (measure(Recency(), which).metrics for which in (questions, asked(log)))
    assert found["accuracy"] == expected["accuracy"]


def test_without_validation_events_a_method_has_no_accuracy_but_by_its_own_threshold(log):
    rules, split = PROTOCOLS["paper"], PROTOCOLS["paper"].split(log)
    questions = Questions(replace(split, valid=split.valid.slice(0, 0)), rules, 0)
    assert set(measure(Recency(), questions).metrics) == {"auc", "ap"}


def test_a_score_that_is_no_number_is_refused(log):
    class Lost(Recency):
        def replay(self, events, src, dst, time):
            return np.full(len(src), np.nan)

    with pytest.raises(QueryError, match="NaN scores"):
        measure(Lost(), asked(log, "strict"))


class TwoScores(Recency):
    """Answers with recency; the same turned round is its other score."""

    def details(self):
        return {"chosen": "plain", "valid_auc": 0.5}

    def alternatives(self):
        other = copy.deepcopy(self)
        other.replay = lambda *asked: -Recency.replay(other, *asked)
        return {"plain": copy.deepcopy(self), "turned": other}


def test_other_scores_of_a_fit_are_asked_the_same_and_change_nothing(log):
    alone, found = (measure(method, asked(log)).plain() for method in (Recency(), TwoScores()))
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


def test_the_metrics_of_a_perfect_and_of_a_useless_method(log):
    rules = PROTOCOLS["strict"]
    questions = Questions(rules.split(log), rules, 0)
    perfect = questions.metrics(np.where(np.arange(len(questions.src)) < questions.size, 1.0, -1.0), 0.0)
    assert perfect["auc"] == perfect["mrr"] == perfect["hits10"] == perfect["historical_auc"] == 1.0
    assert perfect["accuracy"] == 1.0
    useless = questions.metrics(np.zeros(len(questions.src)))
    assert useless["auc"] == useless["inductive_negatives_auc"] == useless["transductive_auc"] == 0.5
    assert "accuracy" not in useless
    assert useless["mrr"] == pytest.approx(1 / 11)


def test_a_sample_of_the_questions_is_spread_over_the_test(log):
    split = split_strict(log)
    model = TAPGNN(width=8, epochs=1, options={"sketch_width": 8}).fit(split.train)
    train, test = model.table_.encode(split.train), model.table_.encode(split.test)
    found = measure_trained(model.model_, model.state_, train, test, "paper", 0, most=50)
    assert list(found) == ["tapgnn", *TRIVIAL]
    for results in found.values():
        assert len(results.labels) == len(results.scores) == len(results.times) == 100
        assert results.times[0] == split.test.time[0]
        assert results.times[49] == split.test.time[-1]
    assert model.state_.clock == split.train.time[-1]
