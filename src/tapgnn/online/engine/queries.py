"""Queries to a live state: embeddings, scores, rankings, risks. They see all events so far, held ones too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike

from tapgnn.errors import QueryError, StateError, advise
from tapgnn.events import Events, Floats, Ints
from tapgnn.model import Model, State, Trace
from tapgnn.model.features.node_statistics import COUNT
from tapgnn.online.engine.ingest import Writer
from tapgnn.online.engine.ingest_scoring import classifier_of, scores_of
from tapgnn.online.engine.live_state import LiveState
from tapgnn.online.engine.node_ids import NodeIds
from tapgnn.online.journal.event_rows import Arriving
from tapgnn.unfold import DESTINATION
from tapgnn.vocabulary import Id

Ids = Sequence[Id] | ArrayLike


@dataclass(frozen=True)
class LiveView:
    """What a query is answered from; valid inside `with engine.live() as live` only.

    model       its vocabulary is the live one: `model.vocabulary.rows(ids)`
    where       a State, or a Trace where events are held: `model.query(where, rows, times)`, `model.score(where, ...)`
    now         the earliest time that sees every event so far, the held ones included
    """

    live_state: LiveState
    model: Model
    where: State | Trace
    now: float

    @property
    def clock(self) -> float:
        """The time of the newest instant absorbed; queries are about times after it."""
        return self.live_state.clock

    @property
    def held(self) -> Events:
        """The events that are held; where there are some, `where` is their trace."""
        return self.live_state.pending


class Queries:
    """The queries that an engine answers; times at or before the clock are a QueryError."""

    _live: LiveState
    _writer: Writer
    _closed = False

    @property
    def node_ids(self) -> NodeIds:
        """The translation of ids between the table and the model."""
        return self._writer.node_ids

    @contextmanager
    def live(self, time: float = np.inf) -> Iterator[LiveView]:
        """The model, and what to query at times after the clock, up to `time`; batches wait while the block runs."""
        self._check_open()
        live = self._live
        with live.lock, torch.no_grad():
            self._writer.check_intact()
            try:
                where = live.present(time)
            except BaseException:
                self._writer.broken = True
                raise
            yield LiveView(live, live.model, where, live.now)

    def embed(self, nodes: Ids, time: ArrayLike | None = None) -> Floats:
        """z(v,t) [Q, d] of nodes at times (None: now); a node never seen is a normal case."""
        with self._at(time) as (live, when):
            names = live.model.vocabulary
            rows = names.rows(self.node_ids.nodes(nodes, names.__contains__))
            return live.model.query(live.where, rows, _one_for_each(when, rows)).double().numpy(force=True)

    def score(self, src: Ids, dst: Ids, time: ArrayLike | None = None) -> Floats:
        """The score [Q] of each link src -> dst at its time (None: now), its chance against one random destination."""
        with self._at(time) as (live, when):
            names = live.model.vocabulary
            left, right = names.rows(self.node_ids.src(src)), names.rows(self.node_ids.dst(dst))
            if left.shape != right.shape:
                raise QueryError(f"there are {len(left)} sources and {len(right)} destinations; give as many of both")
            return scores_of(live.model.score(live.where, left, right, _one_for_each(when, left)))

    def rank(
        self, src: Id, time: float | None = None, k: int = 10, candidates: Ids | None = None
    ) -> list[tuple[Id, float]]:
        """The k likeliest destinations of a source at a time (None: now), best first, with their scores.

        Candidates are those given, or all nodes (where the training log was bipartite, all that were a destination).
        """
        if k < 1:
            raise QueryError(f"k is the number of destinations, at least 1, not {k}")
        with self._at(time) as (live, when):
            names = live.model.vocabulary
            inside = self.node_ids
            pool = _destinations(live.live_state) if candidates is None else names.known_rows(inside.dst(candidates))
            past = live.model.past(live.where, np.concatenate([names.rows(inside.src([src])), pool]), float(when))
            best = torch.topk(live.model.link(past, 1), min(k, len(pool)))
            rows = pool[best.indices.numpy(force=True)].tolist()
            values = scores_of(best.values).tolist()
            return list(zip(inside.own([names.ids[row] for row in rows]), values, strict=True))

    def classify(self, events: Arriving) -> Floats:
        """The classifier's probability [E] of the positive label, each event on its own; nothing is observed."""
        self._check_open()
        classifier = classifier_of(self._live)
        batch = self._writer.rows.read(events)
        with self._at(batch.time) as (live, when):
            rows = live.model.vocabulary.rows(batch.ids)
            src, dst = rows[batch.src], rows[batch.dst]
            features = live.live_state.features.of(batch)
            return scores_of(live.model.classify(live.where, classifier, src, dst, when, features))

    @contextmanager
    def _at(self, time: ArrayLike | None) -> Iterator[tuple[LiveView, Floats]]:
        """What to query at a time or times, and these; None is now."""
        when = None if time is None else np.asarray(time, dtype=np.float64)
        with self.live(np.inf if when is None else float(np.max(when, initial=-np.inf))) as live:
            yield live, np.asarray(live.now) if when is None else when

    def _check_open(self) -> None:
        if self._closed:
            raise advise(
                StateError,
                "the engine is closed",
                "open it again",
                "start the command again",
                "the server is stopping or starting; send the request again later",
            )


def _destinations(live: LiveState) -> Ints:
    """The rows that may be recommended."""
    items, occupied = live.start.candidates, live.vocabulary.occupied_rows()
    if items is None:
        return occupied
    received = live.state.statistics[1 : live.state.size + 1, COUNT + DESTINATION].numpy(force=True) > 0
    received[items] = True
    return occupied[received[occupied]]


def _one_for_each(when: Floats, rows: Ints) -> Floats:
    try:
        return np.broadcast_to(when, rows.shape).copy()
    except ValueError:
        raise QueryError(f"there are {when.size} times for {len(rows)} queries; give one, or one for each") from None
