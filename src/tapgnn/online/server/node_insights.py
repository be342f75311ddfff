"""What the page shows of the model: a node's card, and a map of embeddings that moves with time.

The map is a plane through the representations z(v, now) of the nodes active most recently: their two principal
directions, rotated so that nodes stay where they were as far as possible, and updated slowly, so that movement on the
map is movement of the nodes. A card's drift is exact: 1 - cosine of a node's embedding at each of its instants in the
window with the present one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch

from tapgnn.data.reading.cells import plain_value
from tapgnn.errors import QueryError
from tapgnn.events import Events, Floats
from tapgnn.model import EventClassifier, FactClassifier, Trace
from tapgnn.model.features.node_statistics import COUNT, both_roles
from tapgnn.online.answers import Explanation, RiskExplanation
from tapgnn.online.engine.engine import Engine
from tapgnn.online.engine.ingest_scoring import classifier_of
from tapgnn.online.engine.queries import LiveView
from tapgnn.online.explain.event_window import Excerpt, Window
from tapgnn.online.explain.link_explanation import explain
from tapgnn.online.explain.moment import Moment
from tapgnn.online.explain.risk_explanation import explain_risk
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.vocabulary import Id, Vocabulary

ENDS = ("src", "dst")
MAP_NODES = 300
MAP_SECONDS = 1.0
NEAREST_AMONG = 20_000


class NodeInsights:
    """Queries that need the window of recent events beside the engine; any thread may call."""

    def __init__(self, engine: Engine, size: int) -> None:
        self.engine = engine
        self._lock = threading.Lock()
        self._vocabulary: Vocabulary | None = None
        self._frame: _Frame | None = None
        self._drawn: tuple[float, dict[str, Any]] | None = None
        with engine.live() as live:
            own = engine.schema.id
            self.window = Window(live.model, size, [*([] if own is None else [own]), *engine.schema.columns])
            self._follow(live.model.vocabulary)
        engine.listen(self._absorbed)

    def _follow(self, vocabulary: Vocabulary) -> None:
        """Drop what is kept of events that were undone: the live model then has another vocabulary."""
        if vocabulary is not self._vocabulary:
            self.window.clear()
            self._frame = self._drawn = None
            self._vocabulary = vocabulary

    def _absorbed(self, events: Events, trace: Trace) -> None:
        self._follow(events.vocabulary)
        self.window.record(events, trace)

    def clear(self) -> None:
        """Drop everything that is kept of events and nodes, because some events were undone."""
        with self.engine.live() as live:
            self._vocabulary = None
            self._follow(live.model.vocabulary)

    def explain(self, src: Id, dst: Id, time: float | None, limit: int) -> Explanation | RiskExplanation:
        """Why a link has its score, now or at a later time."""
        ids = self.engine.node_ids
        with self.engine.live() as live:
            when = live.now if time is None else time
            moment = Moment.of(live.model, live.where, ids.src([src])[0], ids.dst([dst])[0], when)
            history = moment.history(*self._windows(live))
        return self._explained(live, None, moment, history, {}, limit)

    def explain_event(self, batch: EventBatch, limit: int) -> Explanation | RiskExplanation:
        """Why the one event of a batch would have its risk if it happened next."""
        with self.engine.live() as live:
            classifier = classifier_of(live.live_state)
            ends = batch.ids[int(batch.src[0])], batch.ids[int(batch.dst[0])]
            features = live.live_state.features.of(batch)
            moment = Moment.of(live.model, live.where, *ends, float(batch.time[0]), features)
            history = moment.history(*self._windows(live))
        cells = {name: plain_value(column[0]) for name, column in batch.columns.items()}
        return self._explained(live, classifier, moment, history, cells, limit)

    def explain_arrival(self, moment: Moment, cells: Mapping[str, Any], limit: int) -> Explanation | RiskExplanation:
        """Why an event that arrived had its risk, or its score where there is no classifier."""
        with self.engine.live() as live:
            history = moment.history(*self._windows(live))
        return self._explained(live, live.live_state.start.classifier, moment, history, cells, limit)

    def _explained(
        self,
        live: LiveView,
        classifier: EventClassifier | None,
        moment: Moment,
        history: Excerpt,
        cells: Mapping[str, Any],
        limit: int,
    ) -> Explanation | RiskExplanation:
        """Why a classifier gives this risk, or without one why the link has its score, with the user's own ids."""
        model, names, own = live.model, self.window.names, self.engine.node_ids.own
        found: Explanation | RiskExplanation
        if classifier is None:
            found = explain(model, moment, history, limit, names)
        elif isinstance(classifier, FactClassifier):
            table = live.live_state.start.table
            found = explain_risk(model, classifier, table, moment, history, cells, limit, names)
        else:
            raise QueryError(
                "the classifier was trained with the protocol of the paper, on embeddings that have no parts; "
                "train one with 'tapgnn fit --classify' to have its risks explained"
            )
        ends = [own([cause.src, cause.dst]) for cause in found.causes]
        causes = [replace(cause, src=one, dst=two) for cause, (one, two) in zip(found.causes, ends, strict=True)]
        src, dst = own([found.src, found.dst])
        return replace(found, src=src, dst=dst, causes=causes)

    def _windows(self, live: LiveView) -> list[Window]:
        """The latest events that were absorbed, and then those that are held."""
        self._follow(live.model.vocabulary)
        if not isinstance(live.where, Trace):
            return [self.window]
        return [self.window, Window.of(live.model, live.held, live.where, self.window.names)]

    def card(self, node: Id, role: str | None = None, most: int = 50) -> dict[str, Any]:
        """Statistics of a node (of a side, where there are two), its latest events, drift, similar nodes and links."""
        with self.engine.live() as live:
            names, ids = live.model.vocabulary, self.engine.node_ids
            given, node = node, ids.node(node, names.__contains__, role)
            row = names.rows([node])
            if row[0] < 0:
                raise QueryError(f"no node is called {given!r}; ids are matched by value and type (7 is not '7')")
            statistics, embedding, *_ = live.model.recall(live.where, row, [live.now])
            history = reduce(Excerpt.followed_by, [window.touching(node) for window in self._windows(live)])
            present = embedding[0]
            nearest = self._nearest(live, node, present)
            counts = both_roles(statistics[0], COUNT).tolist()
        mine = [0 if src == node else 1 for src in history.src]
        vectors = torch.from_numpy(history.embedding[np.arange(len(mine)), mine])
        drift = _distance(vectors, present).tolist()
        events = [
            {
                **dict(zip(ENDS, ids.own([src, dst]), strict=True)),
                "time": float(when),
                "drift": float(moved),
                "columns": {name: plain_value(cell) for name, cell in zip(self.window.names, cells, strict=True)},
            }
            for src, dst, when, moved, cells in zip(
                history.src, history.dst, history.time, drift, history.cells, strict=True
            )
        ]
        own, side = ids.own([node])[0], ids.role(node)
        # A destination with the id of this source is another node.
        suggested = [pair for pair in self.engine.rank(node, None, 6) if side == "src" or pair[0] != own]
        return {
            "node": own,
            "role": side,
            "time": live.now,
            "as_source": int(counts[0]),
            "as_destination": int(counts[1]),
            "events": events[-most:],
            "nearest": nearest,
            "suggested": [{"dst": name, "score": value, "probability": value} for name, value in suggested[:5]],
        }

    def _nearest(self, live: LiveView, node: Id, present: torch.Tensor) -> list[dict[str, Any]]:
        """The recently active nodes with the most similar embeddings."""
        others = [name for name in self.window.latest_nodes(NEAREST_AMONG) if name != node]
        if not others:
            return []
        _, vectors, *_ = live.model.recall(live.where, live.model.vocabulary.rows(others), live.now)
        similarity = 1.0 - _distance(vectors, present)
        best = torch.topk(similarity, min(5, len(others)))
        ids, names = self.engine.node_ids, [others[place] for place in best.indices.tolist()]
        return [
            {"node": ids.own([name])[0], "role": ids.role(name), "similarity": float(value)}
            for name, value in zip(names, best.values.tolist(), strict=True)
        ]

    def map(self) -> dict[str, Any]:
        """Coordinates of the recently active nodes; computed at most once a second."""
        with self._lock:
            if self._drawn is not None and time.monotonic() - self._drawn[0] < MAP_SECONDS:
                return self._drawn[1]
            drawn = self._draw()
            self._drawn = (time.monotonic(), drawn)
            return drawn

    def _draw(self) -> dict[str, Any]:
        with self.engine.live() as live:
            self._follow(live.model.vocabulary)
            nodes = self.window.latest_nodes(MAP_NODES)
            if len(nodes) < 3:
                return {"time": live.now, "nodes": []}
            rows = live.model.vocabulary.rows(nodes)
            times = np.full(len(rows), live.now)
            vectors = live.model.query(live.where, rows, times).double().numpy()
            counts = both_roles(live.model.recall(live.where, rows, times)[0], COUNT).numpy()
        self._frame = _Frame.following(self._frame, vectors)
        places, ids = self._frame.places(vectors), self.engine.node_ids
        return {
            "time": live.now,
            "nodes": [
                {
                    "node": ids.own([node])[0],
                    "role": ids.role(node),
                    "x": float(x),
                    "y": float(y),
                    "sent": int(sent),
                    "received": int(received),
                }
                for node, (x, y), (sent, received) in zip(nodes, places, counts.tolist(), strict=True)
            ],
        }


class _Frame(NamedTuple):
    """The plane of the map: a centre [d], two directions [d, 2], and the scale of each [2]."""

    centre: Floats
    basis: Floats
    scale: Floats

    @classmethod
    def following(cls, before: _Frame | None, vectors: Floats, haste: float = 0.15) -> _Frame:
        """The principal plane of the vectors; a step towards it from the plane before, turned as that one is."""
        centre = vectors.mean(axis=0)
        _, _, directions = np.linalg.svd(vectors - centre, full_matrices=False)
        basis = directions[:2].T
        if basis.shape[1] < 2:
            basis = np.pad(basis, ((0, 0), (0, 2 - basis.shape[1])))
        if before is not None:
            left, _, right = np.linalg.svd(basis.T @ before.basis)
            basis = (1 - haste) * before.basis + haste * basis @ left @ right
            centre = (1 - haste) * before.centre + haste * centre
        spread = np.abs((vectors - centre) @ basis)
        scale = np.quantile(spread, 0.98, axis=0) + 1e-9
        if before is not None:
            scale = (1 - haste) * before.scale + haste * scale
        return cls(centre, basis, scale)

    def places(self, vectors: Floats) -> Floats:
        """[n, 2] within about -1 to 1."""
        return np.clip((vectors - self.centre) @ self.basis / self.scale, -1.3, 1.3)


def _distance(vectors: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """[n] 1 - cosine of each vector with the present one; 1 where one of them is zero."""
    return 1.0 - torch.nn.functional.cosine_similarity(vectors, present.unsqueeze(0), dim=1)
