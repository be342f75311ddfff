"""The classifier on facts: numbers of any scale, missing ones, probabilities, and corrections that hold over time."""

import numpy as np
import pytest
import torch

from tapgnn.evaluation.metrics import auc, sigmoid
from tapgnn.model import FactClassifier
from tapgnn.training import fact_classifier
from tapgnn.training.fact_classifier import (
    Period,
    Plan,
    choose_shift,
    fit_facts,
    forward_test,
    logits_of,
    predicts_better,
)

PLAN = Plan(np.arange(3))


def sample(size=6_000, seed=0):
    """A positive label where the first number is high or missing; the second number is noise, the third constant."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.exponential(size=size), rng.normal(size=size), np.ones(size)]).astype(np.float32)
    logits = np.where(rng.random(size) < 0.05, 0.0, -6.0 + 1.5 * rows[:, 0])
    rows[logits == 0.0, 0] = np.nan
    return rows, (rng.random(size) < sigmoid(logits)).astype(np.int64), logits


def test_probabilities_are_right_although_common_events_are_sampled(monkeypatch):
    monkeypatch.setattr(fact_classifier, "COMMON_AT_LEAST", 0)
    monkeypatch.setattr(fact_classifier, "COMMON_PER_RARE", 4)
    rows, labels, _ = sample(20_000)
    later, truth, logits = sample(20_000, seed=1)
    found = logits_of(fit_facts(rows, labels, PLAN, seed=0), later)
    assert sigmoid(found).sum() == pytest.approx(truth.sum(), rel=0.15)
    assert auc(truth, found) > auc(truth, logits) - 0.02


def test_the_unit_of_a_number_changes_nothing():
    rows, labels, _ = sample()
    scaled = rows * np.float32(1024.0)
    one, other = (logits_of(fit_facts(given, labels, PLAN, seed=0), given) for given in (rows, scaled))
    np.testing.assert_allclose(one, other, atol=1e-3)


def test_a_seed_reproduces_a_classifier_and_members_differ():
    rows, labels, _ = sample(2_000)
    first, second = (fit_facts(rows, labels, PLAN, seed=3) for _ in range(2))
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(first.first[0], first.first[1])


def test_what_lies_beyond_the_training_values_is_bounded_and_a_column_never_seen_is_ignored():
    rows, labels, _ = sample(2_000)
    rows[:, 1] = np.nan
    classifier = fit_facts(rows, labels, PLAN, seed=0)
    odd = np.array([[1e30, 5.0, -1e30], [np.nan, np.nan, np.nan]], dtype=np.float32)
    encoded = classifier.encode(torch.from_numpy(odd))
    assert encoded.min() >= 0
    assert encoded.max() <= 1
    assert np.isfinite(logits_of(classifier, odd)).all()


def test_only_the_columns_used_are_read():
    rows, labels, _ = sample(2_000)
    classifier = fit_facts(rows, labels, Plan(np.array([0, 2])), seed=0)
    before, rows[:, 1] = logits_of(classifier, rows), 1e6
    np.testing.assert_array_equal(logits_of(classifier, rows), before)


def test_one_pass_over_all_members_is_the_mean_of_them():
    classifier = FactClassifier(PLAN.used).double().eval()
    for tensor in (classifier.low, classifier.steepness, classifier.additive):
        torch.nn.init.normal_(tensor)
    rows = torch.randn(7, 3, dtype=torch.float64)
    with torch.no_grad():
        members = classifier.members(classifier.encode(rows))
        torch.testing.assert_close(classifier(rows), members.mean(dim=0))


def period(shift, size=4_000, seed=0):
    """Logits that are wrong by a shift."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(-3.0, 1.0, size)
    return Period(logits, (rng.random(size) < sigmoid(logits + shift)).astype(np.int64))


def test_the_intercept_is_corrected_only_where_every_period_asks_for_it():
    assert choose_shift([period(1.0, seed=seed) for seed in range(3)]) == pytest.approx(1.0, abs=0.1)
    assert choose_shift([period(shift, seed=seed) for seed, shift in enumerate((1.0, 1.0, -0.5))]) == 0.0
    assert choose_shift([period(1.0)]) == 0.0


def test_a_plan_must_be_better_in_most_periods_whatever_their_share_of_the_positive_label():
    good = [period(0.0, seed=seed) for seed in range(3)]
    shifted = [Period(found.logits + 2.0, found.labels) for found in good]
    assert not predicts_better(good, good)
    noise = np.random.default_rng(0).normal(size=4_000)
    bad = [Period(found.logits + noise, found.labels) for found in good]
    assert predicts_better(shifted, bad)
    assert predicts_better([good[0], good[1], bad[2]], bad)
    assert not predicts_better([good[0], bad[1], bad[2]], bad)


def test_earlier_parts_are_tested_on_what_followed():
    rows, labels, _ = sample(4_000)
    _, tested = forward_test((rows[:3_000], labels[:3_000]), (rows[3_000:], labels[3_000:]), PLAN, seed=0)
    assert [len(found.labels) for found in tested] == [750, 750, 1_000]
    labels[:1_600] = 0
    _, tested = forward_test((rows[:3_000], labels[:3_000]), (rows[3_000:], labels[3_000:]), PLAN, seed=0)
    assert [len(found.labels) for found in tested] == [750, 1_000]
