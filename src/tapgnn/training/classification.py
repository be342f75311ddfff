"""Dynamic node (event) classification, as in the paper: does this event, at this moment, have the rare label?

The self-supervised model is frozen. The inputs for an event (u, v, t) are the two representations z(u,t) and z(v,t),
which see only what came strictly before t, and the event's own features, if any. A three-layer MLP learns the label
from balanced batches (the rare class is oversampled), stops when the validation AUC has not risen for ten epochs, and
keeps its best weights.

Memory is bounded, however long the log is: the inputs are 2d numbers per event, so those of ten million events would be
gigabytes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from tapgnn.data.splits import split_strict
from tapgnn.errors import EventError
from tapgnn.evaluation.metrics import auc, average_precision
from tapgnn.events import Events, Ints
from tapgnn.model import EventClassifier, Model, State, Trace
from tapgnn.training.stream_scoring import ask_along, represent_along

BATCH, PATIENCE, EPOCHS = 512, 10, 100
# Events that are described at a time, and of which descriptions are kept to learn from.
PIECE, LARGEST = 1 << 16, 500_000


@dataclass
class Classification:
    """A trained classifier and how it does: AUC and AP on validation and test, and the test scores."""

    classifier: EventClassifier
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
    own = [] if events.features is None else [events.features]
    return np.concatenate([z[: len(events)], z[len(events) :], *own], axis=1), state


def score_events(classifier: EventClassifier, model: Model, state: State, events: Events) -> NDArray[np.float64]:
    """[E] the probability that each event is of the rare kind, seen just before it happens; the state is consumed."""
    scores, features = np.empty(len(events)), events.features

    def answer(where: State | Trace, rows: Ints) -> Tensor:
        given = None if features is None else features[rows]
        logits = model.classify(where, classifier, events.src[rows], events.dst[rows], events.time[rows], given)
        return torch.sigmoid(logits.double())

    ask_along(model, state, events, events.time, answer, scores)
    return scores


def train_classifier(model: Model, events: Events, seed: int = 0) -> Classification:
    """Train on the first 70 % of a labelled log, choose on the next 15 %, report on the last 15 %.

    One pass over the log. Descriptions are kept of at most LARGEST training events and as many for the choice: every
    rare one (half of so many at most), and a sample of the others. Every event of the last part is judged.
    """
    (train, train_labels), (valid, valid_labels), (test, truth) = labelled_parts(events)
    rng, state = np.random.default_rng(seed), model.empty_state()
    kept: list[tuple[Tensor, Ints]] = []
    for part, labels in ((train, train_labels), (valid, valid_labels)):
        rows = choose_rows(labels, LARGEST, rng)
        inputs, state = _described(model, state, part, rows)
        kept.append((inputs, labels[rows]))
    classifier, best = fit_classifier(*kept[0], *kept[1], seed)
    scores = score_events(classifier, model, state, test)
    positives = int(train_labels.sum() + valid_labels.sum() + truth.sum())
    return Classification(
        classifier, best, auc(truth, scores), average_precision(truth, scores), truth, scores, positives
    )


def labelled_parts(events: Events) -> list[tuple[Events, Ints]]:
    """The events to train, select and test a classifier on, each with its labels, 0 or 1; every part has both."""
    if events.labels is None:
        raise EventError("the log has no labels; name the label column when it is read (--label), or omit --classify")
    split = split_strict(events)
    parts = {"first 70 %": split.train, "next 15 %": split.valid, "last 15 %": split.test}
    found = [(part, (np.asarray(part.labels) > 0).astype(np.int64)) for part in parts.values()]
    for name, (_, labels) in zip(parts, found, strict=True):
        if len(np.unique(labels)) < 2:
            raise EventError(
                f"the {name} of the events all have the same class, and a classifier needs both classes there; use a "
                "longer log, simulate more fraud with --fraud 0.05, or omit --classify and --label"
            )
    return found


def choose_rows(labels: Ints, most: int, rng: np.random.Generator) -> Ints:
    """Ascending rows, at most so many: all, or the rare ones (at most half) and a sample of the others.

    >>> choose_rows(np.array([0, 1, 0, 0, 0, 0]), 3, np.random.default_rng(0)).tolist()
    [1, 4, 5]
    """
    if len(labels) <= most:
        return np.arange(len(labels))
    rare, common = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    rare = rng.choice(rare, min(len(rare), most - min(len(common), most - most // 2)), replace=False)
    return np.sort(np.concatenate([rare, rng.choice(common, min(len(common), most - len(rare)), replace=False)]))


def _described(model: Model, state: State, events: Events, rows: Ints) -> tuple[Tensor, State]:
    """Descriptions of some events, by ascending row, and the state after all of them; in memory for one piece."""
    kept, start = [], 0
    for piece in events.chunks(PIECE):
        description, state = describe_events(model, state, piece)
        first, last = np.searchsorted(rows, [start, start + len(piece)])
        kept.append(description[rows[first:last] - start])
        start += len(piece)
    return torch.from_numpy(np.concatenate(kept)), state


def balanced_batches(labels: Ints, rng: np.random.Generator) -> Iterator[Ints]:
    """Rows of one epoch: every common event once, and beside them as many rare ones, drawn again and again."""
    rare, common = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    for batch in np.array_split(rng.permutation(common), max(1, 2 * len(common) // BATCH)):
        yield np.concatenate([batch, rng.choice(rare, len(batch))])


def fit_classifier(
    inputs: Tensor, labels: Ints, valid_inputs: Tensor, valid_labels: Ints, seed: int
) -> tuple[EventClassifier, float]:
    """The classifier of its best epoch, and its validation AUC in that."""
    torch.manual_seed(seed)
    classifier = EventClassifier(inputs.shape[1])
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
