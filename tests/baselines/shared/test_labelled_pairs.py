"""Labelled pairs: events and their negatives, and a linear classifier of two vectors."""

from __future__ import annotations

import numpy as np

from tapgnn.baselines.shared.labelled_pairs import PairClassifier, Pairs, labelled
from tapgnn.data.negatives import rng_for, training_sampler
from tests.baselines.samples import busy_log


def test_pairs_are_the_events_and_as_many_others_that_never_name_the_true_destination() -> None:
    log = busy_log()
    pairs = labelled(log, training_sampler(log), rng_for(3, "training"))
    size = len(log)
    assert pairs.label.tolist() == [1] * size + [0] * size
    np.testing.assert_array_equal(pairs.src[size:], log.src)
    np.testing.assert_array_equal(pairs.time[size:], log.time)
    assert (pairs.dst[size:] != log.dst).all()
    assert (pairs.dst[:size] == log.dst).all()


def test_the_classifier_finds_a_linear_rule_and_gives_unseen_nodes_the_vector_zero() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(40, 3)).astype(np.float32)
    src, dst = rng.integers(40, size=(2, 2_000))
    label = (table[src, 0] - 2 * table[dst, 1] > 0).astype(np.int64)
    classifier = PairClassifier(table, Pairs(src, dst, np.zeros(2_000), label))
    assert Pairs(src, dst, np.zeros(2_000), label).auc(classifier(src, dst)) > 0.99
    rows = np.array([-1, 40, 2])
    assert classifier(rows[:1], rows[:1]) == classifier(rows[1:2], rows[1:2])
