"""Dynamic node (event) classification, as in the paper: is this event, at this moment, of the rare kind?

The self-supervised model is frozen. An event (u, v, t) is described by the two representations z(u,t) and z(v,t), which
see only what came strictly before t, and by the event's own features where it has any. A three-layer MLP learns the
label from balanced batches (the rare class is drawn again and again), stops when the validation AUC has not risen for
ten epochs, and keeps its best weights.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from tapgnn.data.splits import split_strict
from tapgnn.errors import EventError
from tapgnn.events import Events, Ints
from tapgnn.model import Model, State
from tapgnn.training.metrics import auc, average_precision
from tapgnn.training.replay import represent_along

BATCH, PATIENCE, EPOCHS = 512, 10, 100


class Classifier(nn.Module):
    """Logits [Q] of events from their description [Q, w], standardised as on the training events."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.centre: Tensor
        self.scale: Tensor
        self.layers = nn.Sequential(
            nn.Linear(width, 80), nn.ReLU(), nn.Dropout(0.1), nn.Linear(80, 10), nn.ReLU(), nn.Linear(10, 1)
        )
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_normal_(layer.weight)

    def forward(self, description: Tensor) -> Tensor:
        """Logits [Q]."""
        return self.layers((description - self.centre) / self.scale).squeeze(1)  # type: ignore[no-any-return]


@dataclass
class Classification:
    """A trained classifier and how it does: AUC and AP on validation and test, and the test scores."""

    classifier: Classifier
    valid_auc: float
    test_auc: float
    test_ap: float
    labels: Ints
    scores: NDArray[np.float64]
    positives: int


def describe_events(model: Model, state: State, events: Events) -> tuple[NDArray[np.float32], State]:
    """[E, w] what each event is known by just before it happens, and the state after the last."""
    node, time = np.concatenate([events.src, events.dst]), np.tile(events.time, 2)
    z, state = represent_along(model, state, events, node, time)
    parts = [z[: len(events)], z[len(events) :]]
    if events.features is not None:
        parts.append(events.features)
    return np.concatenate(parts, axis=1), state


def train_classifier(model: Model, events: Events, seed: int = 0) -> Classification:
    """Train on the first 70 % of a labelled log, choose on the next 15 %, report on the last 15 %."""
    if events.labels is None:
        raise EventError("the events have no labels; name the label column when reading them")
    description, _ = describe_events(model, model.empty_state(), events)
    labels = (events.labels > 0).astype(np.int64)
    split = split_strict(events)
    first, second = len(split.train), len(split.train) + len(split.valid)
    parts = (slice(0, first), slice(first, second), slice(second, len(events)))
    for name, part in zip(("training", "validation", "test"), parts, strict=True):
        if len(np.unique(labels[part])) < 2:
            raise EventError(f"the {name} events hold one class only; a longer log is needed to learn the label")
    inputs, targets = torch.from_numpy(description), torch.from_numpy(labels)
    classifier, best = _fit(inputs, targets, parts[0], parts[1], seed)
    with torch.no_grad():
        scores = torch.sigmoid(classifier(inputs[parts[2]])).double().numpy()
    truth = labels[parts[2]]
    return Classification(
        classifier, best, auc(truth, scores), average_precision(truth, scores), truth, scores, int(labels.sum())
    )


def _fit(inputs: Tensor, labels: Tensor, train: slice, valid: slice, seed: int) -> tuple[Classifier, float]:
    torch.manual_seed(seed)
    classifier = Classifier(inputs.shape[1])
    classifier.centre.copy_(inputs[train].mean(dim=0))
    classifier.scale.copy_(inputs[train].std(dim=0) + 1e-2)
    optimizer = torch.optim.Adam(classifier.parameters(), lr=1e-3, weight_decay=1e-4)
    rng = np.random.default_rng(seed)
    known = labels[train].numpy()
    rare, common = np.flatnonzero(known == 1), np.flatnonzero(known == 0)
    best, best_weights, stale = -1.0, copy.deepcopy(classifier.state_dict()), 0
    for _ in range(EPOCHS):
        classifier.train()
        for batch in np.array_split(rng.permutation(common), max(1, 2 * len(common) // BATCH)):
            rows = np.concatenate([batch, rng.choice(rare, len(batch))])
            target = labels[rows].to(inputs.dtype)
            loss = binary_cross_entropy_with_logits(classifier(inputs[rows]), target)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        classifier.eval()
        with torch.no_grad():
            found = auc(labels[valid].numpy(), classifier(inputs[valid]).numpy())
        stale += 1
        if found > best:
            best, best_weights, stale = found, copy.deepcopy(classifier.state_dict()), 0
        if stale >= PATIENCE:
            break
    classifier.load_state_dict(best_weights)
    return classifier.eval(), best
