"""Training of the classifier of the paper's protocol: an MLP on the representations of both ends, frozen.

Batches are balanced (the positive class is oversampled); training stops when the validation AUC has not risen for ten
epochs, and keeps its best weights. Balanced batches make the outputs scores, not probabilities.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from tapgnn.evaluation.metrics import auc
from tapgnn.events import Ints
from tapgnn.model import RepresentationClassifier

BATCH, PATIENCE, EPOCHS = 512, 10, 100


def balanced_batches(labels: Ints, rng: np.random.Generator) -> Iterator[Ints]:
    """Rows of one epoch: every common event once, and beside them as many rare ones, drawn again and again."""
    rare, common = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    for batch in np.array_split(rng.permutation(common), max(1, 2 * len(common) // BATCH)):
        yield np.concatenate([batch, rng.choice(rare, len(batch))])


def fit_representations(
    inputs: Tensor, labels: Ints, valid_inputs: Tensor, valid_labels: Ints, seed: int
) -> tuple[RepresentationClassifier, float]:
    """The classifier of its best epoch, and its validation AUC in that."""
    torch.manual_seed(seed)
    classifier = RepresentationClassifier(inputs.shape[1])
    classifier.centre.copy_(inputs.mean(dim=0))
    classifier.scale.copy_(inputs.std(dim=0) + 1e-2)
    optimizer = torch.optim.Adam(classifier.parameters(), lr=1e-3, weight_decay=1e-4)
    rng, targets = np.random.default_rng(seed), torch.from_numpy(labels).to(inputs.dtype)
    best, best_weights, stale = -1.0, copy.deepcopy(classifier.state_dict()), 0
    for _ in range(EPOCHS):
        classifier.train()
        for rows in balanced_batches(labels, rng):
            loss = binary_cross_entropy_with_logits(classifier(inputs[rows]), targets[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        classifier.eval()
        with torch.no_grad():
            found = auc(valid_labels, classifier(valid_inputs).numpy())
        stale += 1
        if found > best:
            best, best_weights, stale = found, copy.deepcopy(classifier.state_dict()), 0
        if stale >= PATIENCE:
            break
    classifier.load_state_dict(best_weights)
    return classifier.eval(), best
