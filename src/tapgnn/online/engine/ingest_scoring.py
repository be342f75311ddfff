"""Questions to a fold: the numbers asked for, and those about events at the very moment at which they are absorbed.

`score` is the probability of the link, `risk` the classifier's probability of the rare label. An event is judged from
what came strictly before its own instant, also within its batch. The trace of the `advance` that absorbs it knows that;
an event that stays pending is judged from the present.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from tapgnn.errors import QueryError
from tapgnn.events import Events, Floats, Ints
from tapgnn.model import EventClassifier, Model, State, Trace
from tapgnn.online.engine.live_state import Fold
from tapgnn.online.journal.event_batch import Batch

Answers = NDArray[np.float64]
Aspect = Literal["score", "risk"]


def score_links(model: Model, where: State | Trace, src: Ints, dst: Ints, time: Floats) -> Answers:
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
) -> Answers:
    """The probability [Q] of the rare label of each event src -> dst at its time."""
    logits = model.classify(where, classifier, src, dst, time, features)
    return torch.sigmoid(logits.double()).numpy(force=True)


def check_aspects(fold: Fold, aspects: Sequence[Aspect]) -> None:
    """Refuse what the model cannot say."""
    unknown = [name for name in aspects if name not in get_args(Aspect)]
    if unknown:
        raise QueryError(f"ask for {' or '.join(get_args(Aspect))}, not for {unknown[0]!r}")
    if "risk" in aspects and fold.origin.classifier is None:
        raise QueryError("the model has no classifier; train one with fit_classifier and save the model again")


class Inquiry:
    """What is asked about the events of a batch while it is folded in: `before`, `during` each advance, `after`."""

    def __init__(self, fold: Fold, batch: Batch, aspects: Sequence[Aspect]) -> None:
        self._fold, self._batch = fold, batch
        self._open = np.ones(len(batch), dtype=bool)
        self.answers = {name: np.full(len(batch), np.nan) for name in aspects}

    def before(self) -> None:
        """Judge late events, which will be merged: they are asked about as of the present instant's end."""
        late = self._batch.time <= self._fold.clock
        if late.any():
            moment = np.full(len(self._batch), np.nextafter(self._fold.clock, np.inf))
            self._answer(self._fold.state, late, moment)

    def during(self, events: Events, trace: Trace) -> None:
        """Judge the events that were just absorbed."""
        self._answer(trace, self._open & (self._batch.time <= events.time[-1]), self._batch.time)

    def after(self) -> None:
        """Judge the events that stay pending."""
        if self._open.any():
            latest = float(self._batch.time[self._open].max())
            self._answer(self._fold.present(latest), self._open.copy(), self._batch.time)

    def _answer(self, where: State | Trace, chosen: NDArray[np.bool_], time: Floats) -> None:
        rows = np.flatnonzero(chosen)
        if not len(rows) or not self.answers:
            return
        self._open[rows] = False
        names, batch, model = self._fold.roster.rows(self._batch.ids), self._batch, self._fold.model
        src, dst, when = names[batch.src[rows]], names[batch.dst[rows]], time[rows]
        if "score" in self.answers:
            self.answers["score"][rows] = score_links(model, where, src, dst, when)
        classifier = self._fold.origin.classifier
        if "risk" in self.answers and classifier is not None:
            features = None if batch.features is None else batch.features[rows]
            self.answers["risk"][rows] = classify_events(model, classifier, where, src, dst, when, features)
