"""Scores of events at the very moment at which they are absorbed.

`probabilities` are those of the links, `risks` the classifier's probabilities of the rare label. An event is scored
from what came strictly before its own instant, also within its batch: from the trace of the `advance` that absorbs it,
or from the present where it stays pending.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from tapgnn.errors import QueryError
from tapgnn.events import Bools, Events, Floats, Ints
from tapgnn.model import EventClassifier, Model, State, Trace
from tapgnn.online.engine.live_state import LiveState
from tapgnn.online.journal.event_batch import EventBatch


def score_links(model: Model, where: State | Trace, src: Ints, dst: Ints, time: Floats) -> Floats:
    """The probability [Q] of each link src -> dst at its time."""
    return torch.sigmoid(model.score(where, src, dst, time).double()).numpy(force=True)


def classify_events(
    model: Model,
    classifier: EventClassifier,
    where: State | Trace,
    src: Ints,
    dst: Ints,
    time: Floats,
    features: NDArray[np.float32] | None,
) -> Floats:
    """The probability [Q] of the rare label of each event src -> dst at its time."""
    logits = model.classify(where, classifier, src, dst, time, features)
    return torch.sigmoid(logits.double()).numpy(force=True)


def classifier_of(live: LiveState) -> EventClassifier:
    """The classifier of a model that has one."""
    if live.start.classifier is None:
        raise QueryError("the model has no classifier; train one with fit_classifier and save the model again")
    return live.start.classifier


class IngestScoring:
    """Scores [E] of a batch: `score_late` before it is applied, `score_absorbed` meanwhile, `score_pending` after."""

    def __init__(self, live: LiveState, batch: EventBatch, score: bool, classify: bool) -> None:
        self._live, self._batch = live, batch
        self._unscored = np.ones(len(batch), dtype=bool)
        self.probabilities = np.full(len(batch), np.nan) if score else None
        self.risks = np.full(len(batch), np.nan) if classify else None

    def score_late(self) -> None:
        """Score late events, which will be merged, as of the end of the present instant."""
        late = self._live.buffer.is_late(self._batch.time)
        if late.any():
            present = np.full(len(late), np.nextafter(self._live.clock, np.inf))
            self._score(self._live.state, late, present)

    def score_absorbed(self, events: Events, trace: Trace) -> None:
        """Score the events that were just absorbed."""
        self._score(trace, self._unscored & (self._batch.time <= events.time[-1]), self._batch.time)

    def score_pending(self) -> None:
        """Score the events that stay pending."""
        if self._unscored.any():
            latest = float(self._batch.time[self._unscored].max())
            self._score(self._live.present(latest), self._unscored.copy(), self._batch.time)

    def _score(self, where: State | Trace, chosen: Bools, time: Floats) -> None:
        rows = np.flatnonzero(chosen)
        if not len(rows):
            return
        self._unscored[rows] = False
        batch, model = self._batch, self._live.model
        nodes, when = model.vocabulary.rows(batch.ids), time[rows]
        src, dst = nodes[batch.src[rows]], nodes[batch.dst[rows]]
        if self.probabilities is not None:
            self.probabilities[rows] = score_links(model, where, src, dst, when)
        if self.risks is not None:
            features = None if batch.features is None else batch.features[rows]
            self.risks[rows] = classify_events(model, classifier_of(self._live), where, src, dst, when, features)
