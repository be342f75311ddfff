"""Event classification: labels that follow from history are learnt from history."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tapgnn import TAPGNN, Events
from tapgnn.data import load_dataset
from tapgnn.data.simulation.payment_stream import simulate
from tapgnn.data.splits import split_strict
from tapgnn.errors import ConfigError, EventError, QueryError
from tapgnn.model import RepresentationClassifier
from tapgnn.training import classification
from tapgnn.training.classification import (
    choose_rows,
    describe_events,
    represent_events,
    train_classifier,
)
from tapgnn.training.classification_baselines import measure_baselines

from ..streams import tiny_model

ROOT = Path(__file__).parents[2]


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


def test_a_description_holds_what_is_known_and_the_event_itself_but_nothing_later():
    log = bursts(50, features=True)
    model = tiny_model(vocabulary=log.vocabulary, edge_features=2, origin=0.0, span=50.0)
    for describe, width in (
        (describe_events, sum(map(len, model.description.values()))),
        (represent_events, 8 + 8 + 2),
    ):
        rows, _ = describe(model, model.empty_state(), log)
        assert rows.shape == (50, width)
        shorter, _ = describe(model, model.empty_state(), log.slice(0, 20))
        np.testing.assert_allclose(rows[:20], shorter, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(rows[:, -2:], log.features)


def test_the_protocol_of_the_paper_is_there_for_comparison():
    log = bursts(2_000)
    model = TAPGNN(width=16, epochs=1).fit(log.slice(0, 1_400)).model_
    found = train_classifier(model, log, protocol="paper")
    assert isinstance(found.classifier, RepresentationClassifier)
    assert found.protocol == "paper"
    assert found.test_auc > 0.6
    with pytest.raises(ConfigError, match="facts or paper"):
        train_classifier(model, log, protocol="best")


def test_events_without_a_label_are_history_but_neither_learnt_from_nor_judged():
    log = bursts(2_000)
    rng = np.random.default_rng(1)
    unknown = rng.random(len(log)) < 0.3
    hidden = replace(log, labels=np.where(unknown, -1, log.labels))
    model = TAPGNN(width=16, epochs=1).fit(log.slice(0, 1_400)).model_
    found = train_classifier(model, hidden)
    later = hidden.labels[1_700:]
    np.testing.assert_array_equal(found.labels, later[later >= 0])
    assert len(found.scores) == len(found.labels) == len(found.times)
    assert found.positives == (hidden.labels == 1).sum()
    assert found.test_auc > 0.85
    # What the hidden labels are changes nothing.
    other = train_classifier(model, replace(log, labels=np.where(unknown, -1, log.labels)))
    np.testing.assert_array_equal(found.scores, other.scores)


def test_probabilities_alerts_and_log_loss_are_reported():
    log = bursts()
    model = TAPGNN(width=16, epochs=1).fit(log.slice(0, 2_800)).model_
    found = train_classifier(model, log)
    assert found.test_log_loss < 0.8 * found.base_log_loss
    assert found.scores.sum() == pytest.approx(found.labels.sum(), rel=0.5)
    assert [alert.budget for alert in found.alerts] == [0.001, 0.005, 0.01]
    assert found.alerts[-1].precision > 0.5
    assert found.calibration.count.sum() == found.by_time.count.sum() == len(found.labels)


def test_saved_and_loaded_a_classifier_gives_the_same_probabilities(tmp_path):
    log = bursts(1_500, features=True)
    model = TAPGNN(width=16, epochs=1).fit(log.slice(0, 1_300))
    model.fit_classifier(log)
    later = log.slice(1_300, 1_500)
    model.save(tmp_path)
    expected = model.classify(later)
    loaded = TAPGNN.load(tmp_path)
    copied = Events(later.src, later.dst, later.time, later.features, None, loaded.vocabulary)
    np.testing.assert_array_equal(loaded.classify(copied), expected)


def test_references_are_measured_on_the_same_events():
    log = bursts(2_000, features=True)
    model = TAPGNN(width=16, epochs=1).fit(log.slice(0, 1_400))
    found = measure_baselines(model.model_, model.table_.encode(log))
    assert set(found) >= {"new pair", "surprising link", "busy source", "trees, columns", "trees, counts"}
    # The label follows from history, and the features are noise.
    assert found["trees, counts"].test_auc > 0.9
    assert found["trees, columns"].test_auc < 0.7


def test_logs_without_two_classes_are_refused():
    log = bursts(300)
    model = tiny_model(vocabulary=log.vocabulary, origin=0.0, span=300.0)
    plain = Events(log.src, log.dst, log.time, None, None, log.vocabulary)
    with pytest.raises(EventError, match="no labels"):
        train_classifier(model, plain)
    one = Events(log.src, log.dst, log.time, None, np.zeros(300, dtype=int), log.vocabulary)
    with pytest.raises(EventError, match="the first 70 % of the events all have the same class"):
        train_classifier(model, one)
    assert torch.is_grad_enabled()


def test_rows_to_learn_from_are_all_or_the_rare_ones_and_a_sample():
    rng = np.random.default_rng(0)
    labels = (np.arange(1_000) % 50 == 0).astype(int)
    np.testing.assert_array_equal(choose_rows(labels, 1_000, rng), np.arange(1_000))
    rows = choose_rows(labels, 100, rng)
    assert len(rows) == len(np.unique(rows)) == 100
    assert (np.diff(rows) > 0).all()
    assert labels[rows].sum() == 20
    assert labels[choose_rows(labels, 30, rng)].sum() == 15
    assert labels[choose_rows(1 - labels, 100, rng)].sum() == 20


def test_a_long_log_is_described_in_pieces_and_learnt_from_a_sample(monkeypatch):
    log = bursts()
    model = TAPGNN(width=16, epochs=1).fit(log.slice(0, 3_000))
    whole = model.fit_classifier(log)
    described = []

    def watched(*given):
        rows, state = describe_events(*given)
        described.append(rows)
        return rows, state

    monkeypatch.setattr(classification, "describe_events", watched)
    monkeypatch.setattr(classification, "PIECE", 300)
    in_pieces = model.fit_classifier(log)
    assert max(map(len, described)) == 300
    at_once, _ = describe_events(model.model_, model.model_.empty_state(), log)
    # Those of the last part are judged along the stream, without being kept.
    learnt_from = np.concatenate(described)
    assert len(learnt_from) == 3_400
    np.testing.assert_allclose(learnt_from, at_once[:3_400], rtol=1e-4, atol=1e-4)
    assert in_pieces.test_auc > 0.85
    monkeypatch.setattr(classification, "LARGEST", 1_000)
    sampled = model.fit_classifier(log)
    assert len(sampled.labels) == len(whole.labels)
    assert sampled.test_auc > 0.85
    later = log.slice(3_500, 4_000)
    model.observe(log.slice(3_000, 3_500))
    in_pieces = model.classify(later)
    monkeypatch.setattr(classification, "PIECE", 1 << 16)
    np.testing.assert_allclose(in_pieces, model.classify(later), atol=1e-4)


def test_fraud_of_the_simulator_is_learnt():
    log = simulate(12_000, accounts=600, merchants=100, fraud=0.02)
    split = split_strict(log)
    found = TAPGNN(width=16, epochs=2).fit(split.train, split.valid).fit_classifier(log)
    assert found.test_auc > 0.85
    assert found.test_ap > 20 * found.labels.mean()


def test_the_example_runs_on_a_small_simulated_log():
    command = [sys.executable, ROOT / "examples" / "classification.py", "simulated"]
    options = ["--events", "6000", "--fraud", "0.05", "--seeds", "2", "--epochs", "1", "--width", "8"]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second, summary = map(json.loads, done.stdout.splitlines())
    assert (first["seed"], second["seed"], summary["log"]) == (0, 1, "simulated")
    assert summary["test_auc_mean"] == pytest.approx((first["test_auc"] + second["test_auc"]) / 2)
    assert summary["test_auc_mean"] > 0.6


def test_the_labels_of_wikipedia_are_learnt(data_folder, monkeypatch):
    monkeypatch.setenv("TAPGNN_DATA", str(data_folder))
    log = load_dataset("wikipedia")
    assert (log.labels > 0).sum() == 217
    split = split_strict(log)
    model = TAPGNN(width=16, epochs=1, validations=1, chunk=2_048, options={"sketch_width": 8})
    found = model.fit(split.train, split.valid).fit_classifier(log)
    assert found.positives == 217
    assert found.test_auc > 0.75
    assert found.test_ap > 3 * found.labels.mean()
