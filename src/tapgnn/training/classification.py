"""Event classification: does this event, at this moment, have the positive label?

The model, trained without labels, is frozen. An event (u, v, t) is described by what is known just before t
(`Model.describe_events`) and by its own features; a classifier learns the label of the first 70 % of the events, the
next 15 % choose what it is given and whether its intercept is corrected, and the last 15 % are judged. Events without
a label count as history, but are neither learnt from nor judged.

With protocol 'paper' the description is [z(u,t), z(v,t), features], as in the paper (`representation_classifier`).

Memory is bounded, however long the log is: descriptions are kept of at most LARGEST events of a part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tapgnn.data.splits import Split, split_strict
from tapgnn.errors import ConfigError, EventError
from tapgnn.evaluation.metrics import (
    Alerts,
    Calibration,
    TimeCurve,
    alerts,
    auc,
    auc_along_time,
    average_precision,
    calibration,
    log_loss,
)
from tapgnn.events import Events, Floats, Ints
from tapgnn.model import EventClassifier, FactClassifier, Model, State, Trace
from tapgnn.model.event_classifier import dense_features
from tapgnn.training.fact_classifier import MORE_PIECES, Period, Plan, choose_shift, forward_test, predicts_better
from tapgnn.training.representation_classifier import fit_representations
from tapgnn.training.stream_scoring import ask_along, represent_along

ClassifierProtocol = Literal["facts", "paper"]
# Events that are described at a time, and of which descriptions are kept to learn from.
PIECE, LARGEST = 1 << 16, 500_000
# Shares of the events that raise an alert.
BUDGETS = (0.001, 0.005, 0.01)
Describe = Callable[[Model, State, Events], tuple[NDArray[np.float32], State]]
Cut = Callable[[Events], Split]


@dataclass
class Classification:
    """A trained classifier and how it does on validation and on the labelled events of the last part.

    labels, scores, times [Q]   of those events, scores being probabilities (with the paper's protocol, of balanced
                                classes)
    positives                   events with the positive label in the whole log
    test_log_loss               mean; `base_log_loss` is that of the share of the positive label in the first part
    alerts                      precision and recall at each of the BUDGETS
    walks, pieces, shift        whether walk sketches are used, into how many pieces a number is cut, and the correction
                                of the intercept
    """

    classifier: EventClassifier
    valid_auc: float
    test_auc: float
    test_ap: float
    labels: Ints
    scores: NDArray[np.float64]
    positives: int
    times: Floats
    valid_ap: float
    valid_log_loss: float
    test_log_loss: float
    base_log_loss: float
    alerts: list[Alerts]
    calibration: Calibration
    by_time: TimeCurve
    protocol: ClassifierProtocol
    walks: bool
    pieces: int
    shift: float

    def metrics(self) -> dict[str, float]:
        """Every figure by name, such as `precision_0.01` at an alert budget of 1 %."""
        names = ("valid_auc", "valid_ap", "test_auc", "test_ap", "test_log_loss", "base_log_loss")
        found = {name: getattr(self, name) for name in names} | {"calibration_error": self.calibration.error}
        for alert in self.alerts:
            found |= {f"precision_{alert.budget:g}": alert.precision, f"recall_{alert.budget:g}": alert.recall}
        return found

    @property
    def counts(self) -> dict[str, int]:
        """How many events were judged, how many of them are positive, and how many events of the whole log."""
        judged = {"test_events": len(self.labels), "test_positives": int(self.labels.sum())}
        return judged | {"positives": self.positives}


@dataclass
class Part:
    """Events of one part of a log that are learnt from: rows [n, .] that describe them, labels [n], 0 or 1.

    odds: of the positive label among all labelled events of the part, over those among these.
    """

    rows: NDArray[np.float32]
    labels: Ints
    odds: float


def describe_events(model: Model, state: State, events: Events) -> tuple[NDArray[np.float32], State]:
    """[E, D] what each event is known by just before it happens, and the state after the last."""
    width = sum(map(len, model.description.values()))
    described, features = np.empty((len(events), width), dtype=np.float32), events.features

    def answer(where: State | Trace, rows: Ints) -> Tensor:
        given = None if features is None else features[rows]
        return model.describe_events(where, events.src[rows], events.dst[rows], events.time[rows], given)

    return described, ask_along(model, state, events, events.time, answer, described)


def represent_events(model: Model, state: State, events: Events) -> tuple[NDArray[np.float32], State]:
    """[E, w] z of both ends just before each event, its features, and the state after the last."""
    node, time = np.concatenate([events.src, events.dst]), np.tile(events.time, 2)
    z, state = represent_along(model, state, events, node, time)
    own = [] if events.features is None else [dense_features(events.features, model.config)]
    return np.concatenate([z[: len(events)], z[len(events) :], *own], axis=1), state


def score_events(classifier: EventClassifier, model: Model, state: State, events: Events) -> NDArray[np.float64]:
    """[E] the probability of the positive label for each event, seen just before it happens; the state is consumed."""
    scores, features = np.empty(len(events)), events.features

    def answer(where: State | Trace, rows: Ints) -> Tensor:
        given = None if features is None else features[rows]
        logits = model.classify(where, classifier, events.src[rows], events.dst[rows], events.time[rows], given)
        return torch.sigmoid(logits.double())

    ask_along(model, state, events, events.time, answer, scores)
    return scores


def train_classifier(
    model: Model, events: Events, seed: int = 0, protocol: ClassifierProtocol = "facts", cut: Cut = split_strict
) -> Classification:
    """Train on the first 70 % of a labelled log, choose on the next 15 %, report on the last 15 %.

    One pass over the log. Descriptions are kept of at most LARGEST training events and as many for the choice: every
    rare one (half of so many at most), and a sample of the others. Every labelled event of the last part is judged.
    """
    if protocol not in ("facts", "paper"):
        raise ConfigError(f"protocol is facts or paper, not {protocol!r}")
    train, valid, (test, truth) = labelled_parts(events, cut)
    state, rng = model.empty_state(), np.random.default_rng(seed)
    describe = describe_events if protocol == "facts" else represent_events
    kept: list[Part] = []
    for events_of_part, labels in (train, valid):
        part, state = describe_part(model, state, events_of_part, labels, rng, describe)
        kept.append(part)
    walks = protocol == "facts" and bool(model.description["walks"])
    classifier: EventClassifier
    if protocol == "facts":
        classifier, valid_logits, walks = choose_classifier(model, kept[0], kept[1], seed)
    else:
        inputs, valid_inputs = (torch.from_numpy(part.rows) for part in kept)
        classifier, _ = fit_representations(inputs, kept[0].labels, valid_inputs, kept[1].labels, seed)
        with torch.no_grad():
            valid_logits = classifier(valid_inputs).double().numpy()
    scores = score_events(classifier, model, state, test)
    positives = int(sum((labels == 1).sum() for labels in (train[1], valid[1], truth)))
    share = float((train[1] == 1).sum() / (train[1] >= 0).sum())
    known = truth >= 0
    judged = ScoredLabels(truth[known], scores[known], test.time[known])
    return _summarise(classifier, protocol, walks, Period(valid_logits, kept[1].labels), judged, positives, share)


def choose_classifier(model: Model, train: Part, valid: Part, seed: int) -> tuple[FactClassifier, Floats, bool]:
    """The classifier, with or without walk sketches, then with more pieces or not: what predicts later events better.

    See `forward_test` and `predicts_better`. Also its logits on validation, and whether it uses the walk sketches.
    """
    columns = column_groups(model)
    without = np.concatenate([columns["facts"], columns["link"], columns["features"]])
    parts = (train.rows, train.labels), (valid.rows, valid.labels)
    plan, best = Plan(without), forward_test(*parts, Plan(without), seed)
    with_walks = np.sort(np.concatenate([without, columns["walks"]]))
    for change in ("walks", "pieces"):
        other = plan._replace(used=with_walks) if change == "walks" else plan._replace(pieces=MORE_PIECES)
        if len(other.used) > len(plan.used) or other.pieces > plan.pieces:
            found = forward_test(*parts, other, seed)
            if predicts_better(found[1], best[1]):
                plan, best = other, found
    classifier, periods = best
    # What the samples of the events that were kept do to the odds is taken back.
    logits = periods[-1].logits + np.log(train.odds)
    shift = choose_shift([*periods[:-1], Period(logits - np.log(valid.odds), valid.labels)])
    classifier.shift += shift + np.log(train.odds)
    return classifier, logits + shift, len(plan.used) > len(without)


def column_groups(model: Model) -> dict[str, Ints]:
    """The columns of a description by what they tell of."""
    sizes = [len(names) for names in model.description.values()]
    starts = np.cumsum([0, *sizes])
    return {name: np.arange(*starts[place : place + 2]) for place, name in enumerate(model.description)}


class ScoredLabels(NamedTuple):
    """Labels, probabilities and times [Q] of the labelled events of the last part."""

    labels: Ints
    scores: Floats
    times: Floats


def _summarise(
    classifier: EventClassifier,
    protocol: ClassifierProtocol,
    walks: bool,
    valid: Period,
    judged: ScoredLabels,
    positives: int,
    share: float,
) -> Classification:
    """The metrics; share is that of the positive label in the first part."""
    truth, scores, times = judged
    probability = np.clip(scores, 1e-12, 1 - 1e-12)
    return Classification(
        classifier=classifier,
        valid_auc=auc(valid.labels, valid.logits),
        test_auc=auc(truth, scores),
        test_ap=average_precision(truth, scores),
        labels=truth,
        scores=scores,
        positives=positives,
        times=times,
        valid_ap=average_precision(valid.labels, valid.logits),
        valid_log_loss=valid.loss(),
        test_log_loss=float(log_loss(truth, np.log(probability / (1 - probability))).mean()),
        base_log_loss=float(log_loss(truth, np.full(len(truth), np.log(share / (1 - share)))).mean()),
        alerts=[alerts(truth, scores, budget) for budget in BUDGETS],
        calibration=calibration(truth, scores),
        by_time=auc_along_time(truth, scores, times),
        protocol=protocol,
        walks=walks,
        pieces=classifier.low.shape[1] if isinstance(classifier, FactClassifier) else 0,
        shift=float(classifier.shift) if isinstance(classifier, FactClassifier) else 0.0,
    )


def labelled_parts(events: Events, cut: Cut = split_strict) -> list[tuple[Events, Ints]]:
    """The events to train, select and test a classifier on, each with its labels: 0, 1, -1 where not known.

    Every part has both classes.
    """
    if events.labels is None:
        raise EventError("the log has no labels; name the label column when it is read (--label), or omit --classify")
    split = cut(events)
    parts = {"first 70 %": split.train, "next 15 %": split.valid, "last 15 %": split.test}
    found = [(part, np.sign(np.asarray(part.labels)).astype(np.int64)) for part in parts.values()]
    for name, (_, labels) in zip(parts, found, strict=True):
        if len(np.unique(labels[labels >= 0])) < 2:
            raise EventError(
                f"the {name} of the events all have the same class, and a classifier needs both classes there; use a "
                "longer log, simulate more fraud with --fraud 0.05, or omit --classify and --label"
            )
    return found


def choose_rows(labels: Ints, most: int, rng: np.random.Generator) -> Ints:
    """Ascending labelled rows, at most so many: all, or the rare ones (at most half) and a sample of the others.

    >>> choose_rows(np.array([0, 1, 0, -1, 0, 0, 0]), 3, np.random.default_rng(0)).tolist()
    [1, 5, 6]
    """
    rare, common = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    if len(rare) + len(common) <= most:
        return np.flatnonzero(labels >= 0)
    rare = rng.choice(rare, min(len(rare), most - min(len(common), most - most // 2)), replace=False)
    return np.sort(np.concatenate([rare, rng.choice(common, min(len(common), most - len(rare)), replace=False)]))


def describe_part(
    model: Model, state: State, events: Events, labels: Ints, rng: np.random.Generator, describe: Describe
) -> tuple[Part, State]:
    """Descriptions of labelled events, and the state after all events; in memory for one piece and those kept."""
    rows, kept, start = choose_rows(labels, LARGEST, rng), [], 0
    for piece in events.chunks(PIECE):
        description, state = describe(model, state, piece)
        first, last = np.searchsorted(rows, [start, start + len(piece)])
        kept.append(description[rows[first:last] - start])
        start += len(piece)
    chosen = labels[rows]
    rare, common = ((labels == value).sum() / (chosen == value).sum() for value in (1, 0))
    return Part(np.concatenate(kept), chosen, float(rare / common)), state
