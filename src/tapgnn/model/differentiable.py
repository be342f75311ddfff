"""The program of a model on tensors, with gradients: modules over the operations of a backend.

Everything that `inference` does on arrays, and the same numbers; it also serves where dropout is on, plain torch, and
kernels that have no form on arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tapgnn.events import Events
from tapgnn.kernels.flow import Flow
from tapgnn.model.block import Chunk
from tapgnn.model.event_classifier import EventClassifier, RepresentationClassifier
from tapgnn.model.features.event_facts import event_facts
from tapgnn.model.features.node_statistics import LAST, both_roles, fold_statistics, read_clocks
from tapgnn.model.features.recent_partners import fold_partners
from tapgnn.model.features.walk_sketch import decay_to_queries
from tapgnn.model.heads import QUESTIONS, PairInputs, Question
from tapgnn.model.projection import Projection
from tapgnn.model.state import ARENAS, Asked, Past, State
from tapgnn.model.trace import Reached
from tapgnn.unfold import Unfolding

if TYPE_CHECKING:
    from tapgnn.model.model import Model


class Differentiable:
    """A model on tensors."""

    def __init__(self, model: Model) -> None:
        self.model, self.backend, self.config = model, model.backend, model.config

    def absorb(self, events: Events, view: Unfolding, state: State) -> Reached:
        """Write the rows of the active nodes into the state; see `Reached`."""
        nodes = self._tensor(view.nodes)
        sums, *carried = (getattr(state, name).index_select(0, nodes + 1) for name in ARENAS)
        flow, statistics = self._flow(view, state.events, carried[0])
        embedding, states, lower = self._embed(events, view, flow, nodes, sums)
        sketch = carried[2].new_empty(view.size, 0)
        if self.config.sketched:
            owner = self._tensor(view.owner())
            sketch = self.backend.propagate_sketches(flow, owner, carried[2], self.model.sketching)
        partners = self._fold_partners(view, state.events, statistics, carried[3])
        start, all_of_them, last = 0, torch.arange(len(nodes), device=nodes.device), flow.chain[1:] - 1
        for part in states:
            self.backend.replace_rows(state.sums, nodes, part, all_of_them, start)
            start += part.shape[1]
        reached = Reached(*(statistics, embedding, sketch, partners, *carried, lower))
        for arena, table in zip(state.arenas(), reached[:4], strict=True):
            self.backend.replace_rows(arena, nodes, table, last)
        return reached

    def embed_directly(self, events: Events, view: Unfolding, state: State) -> Tensor:
        """h_K [T, d] of a log that starts here, aggregated from the whole neighbourhood."""
        nodes = self._tensor(view.nodes)
        flow, _ = self._flow(view, 0, state.statistics[nodes + 1])
        return self._embed(events, view, flow, nodes, None)[0]

    def represent(self, past: Past) -> Tensor:
        """z [Q, d]."""
        asked = past.tensors()
        return self._project(asked, self.backend.pick(asked.statistics))[0]

    def link(self, past: Past, left: int, question: Question) -> Tensor:
        """Logits [Q] of pairs; see `Model.link`."""
        logits = self.link_rows(past.tensors(), left)
        return logits[:, min(QUESTIONS.index(question), logits.shape[1] - 1)]

    def describe_events(self, past: Past, features: Tensor | None) -> Tensor:
        """[Q, D] see `Model.describe_events`."""
        return self.describe_rows(past.tensors(), features)[0]

    def describe_rows(self, asked: Asked, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Descriptions [Q, D] and link logits [Q] of events, from given rows of their sources and destinations."""
        model = self.model
        known = self.backend.pick(asked.statistics)
        size = len(asked.node) // 2
        pairs = self.pairs(asked, known, size)
        given = [known, self.backend.pick(asked.partners), pairs, asked.time, asked.seen]
        facts = np.empty((size, len(model.description["facts"])))
        event_facts(*(part.numpy(force=True) for part in given), self.config.unit, model.count_rate, facts)
        logits, walks = self._link(asked, known, size, pairs)
        parts = [self._tensor(facts), logits[:, :1], walks, features]
        return torch.cat([part for part in parts if part is not None], dim=1), logits[:, 0]

    def classify(self, classifier: EventClassifier, past: Past, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits [Q] of the links and of the labels of events; see `Model.score_and_classify`."""
        if not isinstance(classifier, RepresentationClassifier):
            described, logits = self.describe_rows(past.tensors(), features)
            return logits, classifier(described)
        z = self.represent(past)
        half = len(z) // 2
        parts = [z[:half], z[half:]] if features is None else [z[:half], z[half:], features]
        return self.link(past, half, QUESTIONS[0]), classifier(torch.cat(parts, dim=1))

    def link_rows(self, asked: Asked, left: int) -> Tensor:
        """Logits [Q, questions] of pairs of given rows."""
        past = self.backend.pick(asked.statistics)
        return self._link(asked, past, left, self.pairs(asked, past, left))[0]

    def walks(self, asked: Asked, past: Tensor, left: int) -> Tensor:
        """[Q, .] cosines of the sketches of pairs, whose nodes have the statistics past [Q, F]."""
        given = (column.numpy(force=True) for column in (past, asked.time, asked.seen))
        like = asked.sketch.arena[:0].numpy(force=True)
        kept = torch.from_numpy(decay_to_queries(*given, self.model.spans, self.model.sketching.rate, like))
        return self.backend.compare_sketches(asked.sketch, kept.to(past.device), left, self.model.sketching)

    def pairs(self, asked: Asked, past: Tensor, left: int) -> Tensor:
        """[Q, .] facts of pairs whose nodes have the statistics past [n, F]; without columns where none are kept."""
        if not self.config.partners:
            return past.new_empty(len(asked.time) - left, 0)
        return self.backend.pair_facts(
            asked.partners, past, asked.time, asked.seen, left, self.config.unit, len(self.model.count_rate)
        )

    def _link(self, asked: Asked, past: Tensor, left: int, pairs: Tensor) -> tuple[Tensor, Tensor | None]:
        """Logits [Q, questions] of pairs, whose ends have the statistics past [n, F], and their cosines [Q, .]."""
        walks = self.walks(asked, past, left) / self.model.walk_scale if self.config.sketched else None
        z, encoded = self._project(asked, past)
        known = None if self.model.pairs is None else self.model.pairs(pairs)
        return self.model.head(PairInputs(z, encoded, walks, known, left), self.backend), walks

    def _project(self, asked: Asked, past: Tensor) -> tuple[Tensor, Tensor | None]:
        """z [Q, d] and the encoded statistics [Q, .], where the model has them, from the statistics past [Q, F]."""
        model, projection = self.model, self.model.projection
        if model.statistics is None or isinstance(projection, Projection):
            pause = (asked.time - both_roles(past, LAST).amax(dim=1)) / self.config.span
            return projection(self.backend.pick(asked.embedding), pause), None
        statistics, encoded = self.backend.encode_statistics(
            model.statistics, past, asked.partners, asked.time, asked.seen
        )
        known = projection.known(statistics)
        if projection.of_node is not None:
            known = known + projection.of_node(model.inputs(asked.node))
        z = self.backend.join_rows(asked.embedding, known, projection.weights())
        return projection.dropout(z), encoded

    def _embed(
        self, events: Events, view: Unfolding, flow: Flow, nodes: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, list[Tensor], Tensor]:
        """h_K [T, d], the last state [C, .] of each kernel and h_{K-1} [T, d]; without carried states, directly."""
        model, config = self.model, self.config
        instants = (self._tensor(view.instants) - config.origin) / config.span
        edge = None if events.features is None else self._tensor(events.features).to(model.dtype)
        chunk = Chunk(flow, self._tensor(view.instant), model.encoding(instants), edge)
        table: Tensor = model.inputs(nodes)
        row: Tensor | None = self._tensor(view.owner())
        states, start = [], 0
        for block in model.layers:
            stop = start + block.kernel.state_width
            below, place = table.detach(), row
            table, last = block(table, row, chunk, None if carried is None else carried[:, start:stop])
            if last is not None:
                states.append(last)
            row, start = None, stop
        lower = below if place is None else below.index_select(0, place)
        return table, states, lower

    def _flow(self, view: Unfolding, before: int, carried: Tensor) -> tuple[Flow, Tensor]:
        """The chunk as kernels see it, after `before` events, and the statistics [T, F] of its temporal nodes."""
        model, seen = self.model, view.seen + before
        rows, elapsed = np.empty((view.size, carried.shape[1])), np.empty((view.size, 2))
        clocks, degree = np.empty((view.size, 2)), np.empty(view.size)
        fold_statistics(view, seen, model.count_rate, carried.numpy(force=True), rows, elapsed)
        read_clocks(model.spans, view, seen, rows, elapsed, clocks, degree)
        flow = Flow(
            chain=self._tensor(view.chain),
            inbox=self._tensor(view.inbox),
            sender=self._tensor(view.sender),
            role=self._tensor(view.role),
            event=self._tensor(view.event),
            degree=self._tensor(degree).to(model.dtype),
            clocks=self._tensor(clocks),
            elapsed=self._tensor(elapsed),
            scans=self.backend.scans,
        )
        return flow, self._tensor(rows)

    def _fold_partners(self, view: Unfolding, before: int, statistics: Tensor, carried: Tensor) -> Tensor:
        """The recent partners [T, .] of the temporal nodes, from those carried into their chains [C, .]."""
        rows = np.empty((view.size, carried.shape[1]))
        if carried.shape[1]:
            given = (statistics.numpy(force=True), carried.numpy(force=True))
            fold_partners(view, view.owner(), view.seen + before, self.model.count_rate, *given, rows)
        return self._tensor(rows)

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.model.device)
