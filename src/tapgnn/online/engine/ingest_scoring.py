"""Scores of events at the very moment at which they are absorbed.

An event is scored from what came strictly before its own instant, also within its batch: from the trace of the
`advance` that absorbs it, or from the present where it stays pending.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from torch import Tensor

from tapgnn.errors import QueryError
from tapgnn.events import Bools, Events, Floats, Ints
from tapgnn.model import EventClassifier, State, Trace
from tapgnn.online.engine.live_state import LiveState
from tapgnn.online.explain.moment import CopiedRows, Moment, StateRows
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.online.journal.kept_answers import Answer
from tapgnn.online.journal.record import Record


def scores_of(logits: Tensor) -> Floats:
    """The score [Q] of a link, or the risk [Q] of an event, that each logit stands for."""
    return torch.sigmoid(logits.double()).numpy(force=True)


def classifier_of(live: LiveState) -> EventClassifier:
    """The classifier of a model that has one."""
    if live.start.classifier is None:
        raise QueryError("the model has no classifier; train one with fit_classifier and save the model again")
    return live.start.classifier


class IngestScoring:
    """The `answer` to a batch and the `moments` of its riskiest events, made `along` the way on which it is applied."""

    def __init__(self, live: LiveState, batch: EventBatch, score: bool, classify: bool, keep: int = 0) -> None:
        """`keep` so many moments, or a few more."""
        self._live, self._batch, self._keep = live, batch, keep
        self._before: StateRows | None = None
        self.moments: dict[int, Moment] = {}
        self._unscored = np.ones(len(batch), dtype=bool)
        self.answer = Answer(*(np.full(len(batch), np.nan) if wanted else None for wanted in (score, classify)))

    @classmethod
    def told(cls, live: LiveState, record: Record, batch: EventBatch | None) -> IngestScoring | None:
        """The scoring of a journalled batch whose sender was told of it, to be done again; None of any other record."""
        scored, classified = record.kind.told
        if batch is None or not (scored or classified) or (classified and live.start.classifier is None):
            return None
        return cls(live, batch, scored, classified)

    def along(self, steps: Iterator[tuple[Events, Trace]]) -> Iterator[tuple[Events, Trace]]:
        """The steps in which the batch is applied, which must all be taken; its events are scored meanwhile."""
        live, time = self._live, self._batch.time
        if self._keep:
            self._before = StateRows.of(live.state, live.state.events, live.model.vocabulary.rows(self._batch.ids))
        late = live.buffer.is_late(time)
        if late.any():
            # They will be merged: they are scored as of the end of the present instant.
            self._score(live.state, late, np.full(len(late), np.nextafter(live.clock, np.inf)))
        for events, trace in steps:
            self._score(trace, self._unscored & (time <= events.time[-1]), time)
            yield events, trace
        if self._unscored.any():
            pending = live.present(float(time[self._unscored].max()))
            self._score(pending, self._unscored.copy(), time)

    def _score(self, where: State | Trace, chosen: Bools, time: Floats) -> None:
        rows = np.flatnonzero(chosen)
        if not len(rows):
            return
        self._unscored[rows] = False
        batch, model = self._batch, self._live.model
        nodes, when = model.vocabulary.rows(batch.ids), time[rows]
        src, dst = nodes[batch.src[rows]], nodes[batch.dst[rows]]
        scores, risks = self.answer
        if risks is None:
            links = model.score(where, src, dst, when)
        else:
            encoded = self._live.features.of(batch)
            features = None if encoded is None else encoded[rows]
            links, logits = model.score_and_classify(where, classifier_of(self._live), src, dst, when, features)
            risks[rows] = scores_of(logits)
        if scores is not None:
            scores[rows] = scores_of(links)
        if self._before is not None:
            self._keep_riskiest(where, rows, src, dst, when, self._before)

    def _keep_riskiest(
        self, where: State | Trace, rows: Ints, src: Ints, dst: Ints, when: Floats, before: StateRows
    ) -> None:
        """Keep the moments of the riskiest of these events, or of the least expected where there is no classifier."""
        batch, model, features = self._batch, self._live.model, self._live.features.of(self._batch)
        scores, risks = self.answer
        risk = risks if risks is not None else -cast(Floats, scores)
        best = np.argsort(-risk[rows], kind="stable")[: self._keep]
        ends = np.concatenate([src[best], dst[best]])
        known = CopiedRows.of(model, where, ends, np.tile(when[best], 2))
        for place, row in enumerate(rows[best].tolist()):
            left, right = int(batch.src[row]), int(batch.dst[row])
            self.moments[row] = Moment(
                batch.ids[left],
                batch.ids[right],
                (known.take(place), known.take(len(best) + place)),
                before.take([left, right]),
                None if features is None else features[row : row + 1],
            )
