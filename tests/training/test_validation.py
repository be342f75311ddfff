"""Validation: each metric is that of the scores at the moment of each event, and it chooses the weights."""

import numpy as np
import pytest

from tapgnn.baselines.lag import replay_with_lag
from tapgnn.data.negatives import rng_for, training_sampler
from tapgnn.evaluation.metrics import auc, average_precision, mrr, ranks
from tapgnn.evaluation.questions import TrainedModel
from tapgnn.training import validation
from tapgnn.training.validation import METRICS, RIVALS, Validation

from ..streams import tiny_model
from .test_link_prediction import habits, training

LOG = habits(400)
TRAIN, VALID = LOG.slice(0, 300), LOG.slice(300, 400)
METRIC = {"auc": auc, "ap": average_precision}


def stale_scores(model, src, dst, time, lag):
    """The scores that a test asks for."""
    method = TrainedModel(model, model.empty_state())
    method.fit(TRAIN.slice(0, 0), VALID)
    method.observe(TRAIN)
    return replay_with_lag(method, VALID, src, dst, time, lag)


@pytest.mark.parametrize("lag", [0, 20])
@pytest.mark.parametrize("metric", METRICS)
def test_the_metric_is_that_of_the_test_on_the_validation_events(metric, lag):
    model = tiny_model(vocabulary=LOG.vocabulary, span=400.0, origin=0.0)
    sampler, count = training_sampler(TRAIN), RIVALS if metric == "mrr" else 1
    drawn = sampler.draw(VALID.src, VALID.dst, rng_for(3, "validation"), count)
    dst = np.column_stack([VALID.dst, drawn])
    src, time = np.repeat(VALID.src, 1 + count), np.repeat(VALID.time, 1 + count)
    scores = stale_scores(model, src, dst.ravel(), time, lag).reshape(dst.shape)
    labels = np.repeat([1, 0], len(VALID))
    expected = mrr(ranks(scores[:, 0], scores[:, 1:])) if metric == "mrr" else METRIC[metric](labels, scores.T.ravel())
    assert Validation(TRAIN, VALID, sampler, metric, 3, lag).measure(model) == pytest.approx(expected, abs=1e-12)


def test_a_long_validation_is_ranked_by_a_sample_spread_over_it(monkeypatch):
    monkeypatch.setattr(validation, "MOST", 10)
    sampler = training_sampler(TRAIN)
    assert Validation(TRAIN, VALID, sampler, "mrr", 0).rows.tolist() == list(range(0, 100, 10))
    assert len(Validation(TRAIN, VALID, sampler, "auc", 0).rows) == 100


@pytest.mark.parametrize("metric", METRICS)
def test_the_chosen_metric_is_written_down_and_its_best_weights_are_restored(metric):
    run, told = training(epochs=2, select=metric, learning_rate=0.05), []
    history = run.run(told.append)
    found = [point["validation"] for point in history.points]
    assert {point["metric"] for point in history.points} == {step.metric for step in told} == {metric}
    assert [step.validation for step in told if step.validation is not None] == found
    assert run.validation.measure(run.model) == max(found) == history.best
