"""Event classification: labels that follow from history are learnt from history."""

import numpy as np
import pytest
import torch

from tapgnn import TAPGNN, Events
from tapgnn.errors import EventError, QueryError
from tapgnn.training.classification import describe_events, train_classifier

from ..streams import tiny_model


def bursts(size=4_000, seed=0, features=False):
    """Sources act now and then; an event is marked when its source has just acted many times in a row."""
    rng = np.random.default_rng(seed)
    src, run = np.empty(size, dtype=int), 0
    labels = np.zeros(size, dtype=int)
    for row in range(size):
        if run > 0:
            src[row], run = src[row - 1], run - 1
            labels[row] = int(run < 3)
        else:
            src[row] = rng.integers(0, 40)
            run = 6 if rng.random() < 0.02 else 0
    dst = rng.integers(40, 60, size)
    vectors = rng.normal(size=(size, 2)) if features else None
    return Events.from_arrays(src, dst, np.arange(size, dtype=float), vectors, labels)


def test_a_label_that_follows_from_history_is_learnt():
    log = bursts()
    model = TAPGNN(width=16, epochs=1).fit(log.slice(0, 3_000))
    found = model.fit_classifier(log)
    assert found.positives == log.labels.sum()
    assert found.test_auc > 0.9
    assert found.test_ap > 5 * found.labels.mean()
    assert len(found.scores) == len(found.labels)


def test_a_classifier_answers_before_the_event_and_leaves_the_model_as_it_was():
    log = bursts(1_500, features=True)
    model = TAPGNN(width=16, epochs=1).fit(log.slice(0, 1_300))
    later = log.slice(1_300, 1_500)
    with pytest.raises(QueryError, match="fit_classifier"):
        model.classify(later)
    model.fit_classifier(log)
    clock = model.state_.clock
    chances = model.classify(later)
    assert chances.shape == (200,)
    assert ((chances >= 0) & (chances <= 1)).all()
    assert model.state_.clock == clock


def test_a_description_holds_both_ends_and_the_event_itself_but_nothing_later():
    log = bursts(50, features=True)
    model = tiny_model(vocabulary=log.vocabulary, edge_features=2, origin=0.0, span=50.0)
    rows, _ = describe_events(model, model.empty_state(), log)
    assert rows.shape == (50, 8 + 8 + 2)
    shorter, _ = describe_events(model, model.empty_state(), log.slice(0, 20))
    np.testing.assert_allclose(rows[:20], shorter, rtol=1e-6)
    np.testing.assert_array_equal(rows[:, -2:], log.features)


def test_logs_without_two_classes_are_refused():
    log = bursts(300)
    model = tiny_model(vocabulary=log.vocabulary, origin=0.0, span=300.0)
    plain = Events(log.src, log.dst, log.time, None, None, log.vocabulary)
    with pytest.raises(EventError, match="no labels"):
        train_classifier(model, plain)
    one = Events(log.src, log.dst, log.time, None, np.zeros(300, dtype=int), log.vocabulary)
    with pytest.raises(EventError, match="one class only"):
        train_classifier(model, one)
    assert torch.is_grad_enabled()
