"""Questions to a live state: representations, scores, rankings, risks. They see all events so far, held ones too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from tapgnn.errors import QueryError, StateError
from tapgnn.events import Events, Floats, Ints
from tapgnn.model import Model, State, Trace
from tapgnn.model.features.node_statistics import COUNT
from tapgnn.online.engine.ingest import Writer
from tapgnn.online.engine.ingest_scoring import check_aspects, classify_events, score_links
from tapgnn.online.engine.live_state import Fold
from tapgnn.online.journal.event_batch import Arriving, Batch
from tapgnn.unfold import DESTINATION
from tapgnn.vocabulary import Id

Ids = Sequence[Id] | ArrayLike
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Live:
    """What a question is answered from; valid inside `with engine.live() as live` only.

    model       its vocabulary is the live one: `model.vocabulary.rows(ids)`
    where       a State, or a Trace where events are held: `model.query(where, rows, times)`, `model.score(where, ...)`
    clock       time of the newest instant absorbed; ask for times after it
    now         the earliest time that sees every event so far, the held ones included
    fold        what all of these are parts of
    """

    model: Model
    where: State | Trace
    clock: float
    now: float
    fold: Fold

    @property
    def held(self) -> Events:
        """The events that are held; where there are some, `where` is their trace."""
        return self.fold.pending.events(self.fold.roster)


class Questions:
    """What an engine answers; times at or before the clock are a QueryError."""

    _fold: Fold
    _writer: Writer
    _closed = False

    @contextmanager
    def live(self, time: float = np.inf) -> Iterator[Live]:
        """The model and what to ask it about times after the clock, up to `time`; batches wait while the block runs."""
        self._check_open()
        fold = self._fold
        with fold.lock, torch.no_grad():
            self._writer.check_sound()
            try:
                where = fold.present(time)
            except BaseException:
                self._writer.broken = True
                raise
            yield Live(fold.model, where, fold.clock, fold.now, fold)

    def embed(self, nodes: Ids, time: ArrayLike | None = None) -> Scores:
        """z(v,t) [Q, d] of nodes at times (None: now); a node never seen is a normal case."""
        with self._asked(time) as (live, when):
            rows = live.model.vocabulary.rows(nodes)
            return live.model.query(live.where, rows, _spread(when, rows)).double().numpy(force=True)

    def score(self, src: Ids, dst: Ids, time: ArrayLike | None = None) -> Scores:
        """The probability [Q] of each link src -> dst at its time (None: now)."""
        with self._asked(time) as (live, when):
            left, right = live.model.vocabulary.rows(src), live.model.vocabulary.rows(dst)
            if left.shape != right.shape:
                raise QueryError(f"there are {len(left)} sources and {len(right)} destinations; give as many of both")
            return score_links(live.model, live.where, left, right, _spread(when, left))

    def rank(
        self, src: Id, time: float | None = None, k: int = 10, candidates: Ids | None = None
    ) -> list[tuple[Id, float]]:
        """The k likeliest destinations of a source at a time (None: now), best first, with their probabilities.

        Candidates are those given, or all nodes (where the training log was bipartite, all that were a destination).
        """
        if k < 1:
            raise QueryError(f"k is how many destinations to give, at least 1, not {k}")
        with self._asked(time) as (live, when):
            names = live.model.vocabulary
            pool = _destinations(live.fold) if candidates is None else names.known_rows(candidates)
            past = live.model.past(live.where, np.concatenate([names.rows([src]), pool]), float(when))
            best = torch.topk(live.model.link(past, 1), min(k, len(pool)))
            chance = torch.sigmoid(best.values.double()).tolist()
            return [(names.ids[pool[row]], value) for row, value in zip(best.indices.tolist(), chance, strict=True)]

    def classify(self, events: Arriving) -> Scores:
        """The classifier's probability [E] of the rare label, each event judged alone from what was observed."""
        self._check_open()
        check_aspects(self._fold, ("risk",))
        batch = Batch.of(events, self._fold.model.config)
        with self._asked(batch.time) as (live, when):
            names, classifier = live.model.vocabulary.rows(batch.ids), live.fold.origin.classifier
            if classifier is None:
                return np.empty(0)
            src, dst = names[batch.src], names[batch.dst]
            return classify_events(live.model, classifier, live.where, src, dst, when, batch.features)

    @contextmanager
    def _asked(self, time: ArrayLike | None) -> Iterator[tuple[Live, Floats]]:
        """What to ask about a time or times, and these; None is now."""
        when = None if time is None else np.asarray(time, dtype=np.float64)
        with self.live(np.inf if when is None else float(np.max(when, initial=-np.inf))) as live:
            yield live, np.asarray(live.now) if when is None else when

    def _check_open(self) -> None:
        if self._closed:
            raise StateError("the engine is closed; open it again")


def _destinations(fold: Fold) -> Ints:
    """The rows that may be recommended."""
    items, living = fold.origin.candidates, fold.roster.living()
    if items is None:
        return living
    received = fold.state.statistics[1 : fold.state.size + 1, COUNT + DESTINATION].numpy(force=True) > 0
    received[items] = True
    return living[received[living]]


def _spread(when: Floats, rows: Ints) -> Floats:
    try:
        return np.broadcast_to(when, rows.shape).copy()
    except ValueError:
        raise QueryError(f"there are {when.size} times for {len(rows)} queries; give one, or one for each") from None
