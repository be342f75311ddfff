"""The classifier of the paper's protocol: balanced batches, and the weights of the best epoch."""

import numpy as np
import torch

from tapgnn.training import representation_classifier
from tapgnn.training.representation_classifier import BATCH, PATIENCE, balanced_batches, fit_representations


def test_half_of_every_batch_is_of_the_rare_kind_and_every_other_event_comes_once():
    labels = np.zeros(3_000, dtype=int)
    labels[[5, 700, 2_900]] = 1
    batches = list(balanced_batches(labels, np.random.default_rng(0)))
    assert len(batches) == 2 * 2_997 // BATCH
    for rows in batches:
        assert len(rows) <= 1.2 * BATCH
        assert labels[rows].mean() == 0.5
    every = np.concatenate(batches)
    np.testing.assert_array_equal(np.sort(every[labels[every] == 0]), np.flatnonzero(labels == 0))
    assert set(every[labels[every] == 1]) == {5, 700, 2_900}


def test_learning_stops_after_ten_epochs_without_a_better_score_and_keeps_the_best(monkeypatch):
    rng = np.random.default_rng(0)
    inputs, labels = torch.from_numpy(rng.normal(size=(200, 4)).astype(np.float32)), np.arange(200) % 4 // 3
    seen = []

    def rises_four_times(_, scores):
        seen.append(scores.copy())
        return min(len(seen), 4) / 10

    monkeypatch.setattr(representation_classifier, "auc", rises_four_times)
    classifier, best = fit_representations(inputs, labels, inputs, labels, seed=0)
    assert PATIENCE == 10
    assert len(seen) == 4 + PATIENCE
    assert best == 0.4
    with torch.no_grad():
        np.testing.assert_array_equal(classifier(inputs).numpy(), seen[3])
