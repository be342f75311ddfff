"""The program of a model on tensors, with gradients: modules over the operations of a backend.

Everything that `inference` does on arrays, and the same numbers; it also serves where dropout is on, plain torch, and
kernels that have no form on arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tapgnn.compiled.parallel import view as array_of
from tapgnn.compiled.row_lookup import Rows
from tapgnn.events import Events, Floats
from tapgnn.kernels.flow import Flow
from tapgnn.model.block import Chunk
from tapgnn.model.event_classifier import EventClassifier, RepresentationClassifier
from tapgnn.model.features.event_facts import event_facts
from tapgnn.model.features.node_statistics import LAST, both_roles, read_clocks, update_statistics
from tapgnn.model.features.recent_partners import update_partners
from tapgnn.model.features.walk_sketch import Sketching, decay_to_queries
from tapgnn.model.heads import QUESTIONS, PairInputs, Question
from tapgnn.model.observation import Descriptions, describe, observe
from tapgnn.model.projection import StatisticsProjection
from tapgnn.model.state import Past, QueryInputs, State
from tapgnn.model.trace import ChunkRows
from tapgnn.model.weight_arrays import pair_encoding, statistics_encoding
from tapgnn.unfold import Unfolding

if TYPE_CHECKING:
    from tapgnn.model.model import Model


class DescribedEnds(NamedTuple):
    """What is known of ends without weights: node [n]; pause [n] in spans, infinite for never; statistics and encoded
    [n, .] where a model has them.
    """

    node: Tensor
    pause: Tensor
    statistics: Any
    encoded: Tensor | None


class DescribedPairs(NamedTuple):
    """The ends of pairs, and their cosines and encoded facts [Q, .] where a model has them; see `PairInputs`."""

    ends: DescribedEnds
    walks: Tensor | None
    pairs: Tensor | None
    left: int


class Differentiable:
    """A model on tensors.

    What needs no weights (`observe`, `describe_pairs`) stands apart from what does (`embed`, `weigh_pairs`): a training
    does the first for the next chunk while it learns from the present one.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.backend, self.config = model, model.backend, model.config

    def absorb(self, events: Events, view: Unfolding, state: State) -> ChunkRows:
        """Write the rows of the active nodes into the state; see `ChunkRows`."""
        return self.embed(events, view, *self.observe(view, state), state)

    def observe(self, view: Unfolding, state: State) -> tuple[Flow, ChunkRows]:
        """What needs no weights: the chunk as kernels see it, and all rows but the embeddings, which are empty."""
        none = state.embedding[:0]
        if self.backend.compiled:
            model, arrays = self.model, state.arrays()
            clocks = (float(state.events), model.spans, model.count_rate)
            counted, found = observe(view, *clocks, self._sketching(), (arrays[1], *arrays[3:]))
            sketch, partners, *carried = map(torch.from_numpy, found)
            statistics, before = torch.from_numpy(counted.statistics), torch.from_numpy(counted.carried)
            flow = self._flow(view, counted.degree, counted.clocks, counted.elapsed)
            return flow, ChunkRows(statistics, none, sketch, partners, before, none, carried[0], carried[1], none)
        nodes, kept = self._tensor(view.nodes), (state.statistics, state.sketch, state.partners)
        carried = [arena.index_select(0, nodes + 1) for arena in kept]
        flow, statistics = self._count(view, state.events, carried[0])
        sketch = carried[1].new_empty(view.size, 0)
        if self.config.sketched:
            owner = self._tensor(view.owner())
            sketch = self.backend.propagate_sketches(flow, owner, carried[1], self.model.sketching)
        partners = self._update_partners(view, state.events, statistics, carried[2])
        for arena, table in zip(kept, (statistics, sketch, partners), strict=True):
            self.backend.replace_rows(arena, nodes, table, flow.chain[1:] - 1)
        return flow, ChunkRows(statistics, none, sketch, partners, carried[0], none, carried[1], carried[2], none)

    def embed(self, events: Events, view: Unfolding, flow: Flow, reached: ChunkRows, state: State) -> ChunkRows:
        """The rest, of weights: the embeddings; sums and embeddings of the active nodes are replaced."""
        nodes = self._tensor(view.nodes)
        carried = state.embedding.index_select(0, nodes + 1)
        # Gradients that still need the rows before these are refused: torch sees that they are written to.
        torch.autograd.graph.increment_version(state.embedding)
        embedding, states, lower = self._embed(events, view, flow, nodes, state.sums)
        start, all_of_them = 0, torch.arange(len(nodes), device=nodes.device)
        for part in states:
            self.backend.replace_rows(state.sums, nodes, part, all_of_them, start)
            start += part.shape[1]
        self.backend.replace_rows(state.embedding, nodes, embedding, flow.chain[1:] - 1)
        return reached._replace(embedding=embedding, carried_embedding=carried, lower=lower)

    def embed_directly(self, events: Events, view: Unfolding, state: State) -> Tensor:
        """h_K [T, d] of a log that starts here, aggregated from the whole neighbourhood."""
        nodes = self._tensor(view.nodes)
        flow, _ = self._count(view, 0, state.statistics[nodes + 1])
        return self._embed(events, view, flow, nodes, None)[0]

    def represent(self, past: Past) -> Tensor:
        """z [Q, d]."""
        asked = past.tensors()
        return self._project(self._describe_ends(asked, self.backend.pick(asked.statistics)), asked.embedding)

    def link(self, past: Past, left: int, question: Question) -> Tensor:
        """Logits [Q] of pairs; see `Model.link`."""
        asked = past.tensors()
        logits = self.weigh_pairs(self.describe_pairs(past, left), asked.embedding)
        return logits[:, min(QUESTIONS.index(question), logits.shape[1] - 1)]

    def describe_events(self, past: Past, features: Tensor | None) -> Tensor:
        """[Q, D] see `Model.describe_events`."""
        return self.describe_rows(past.tensors(), features)[0]

    def describe_rows(self, asked: QueryInputs, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Descriptions [Q, D] and link logits [Q] of events, from given rows of their sources and destinations."""
        model = self.model
        known = self.backend.pick(asked.statistics)
        size = len(asked.node) // 2
        pairs = self.pairs(asked, known, size)
        given = [known, self.backend.pick(asked.partners), pairs, asked.time, asked.seen]
        facts = np.empty((size, len(model.description["facts"])))
        event_facts(*(part.numpy(force=True) for part in given), self.config.unit, model.count_rate, facts)
        described = self._describe_pairs(asked, known, size, pairs)
        logits = self.weigh_pairs(described, asked.embedding)
        parts = [self._tensor(facts), logits[:, :1], described.walks, features]
        return torch.cat([part for part in parts if part is not None], dim=1), logits[:, 0]

    def classify(self, classifier: EventClassifier, past: Past, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits [Q] of the links and of the labels of events; see `Model.score_and_classify`."""
        if isinstance(classifier, RepresentationClassifier):
            return self.link(past, len(past) // 2, QUESTIONS[0]), classifier.judge(self.represent(past), features)
        described, logits = self.describe_rows(past.tensors(), features)
        return logits, classifier(described)

    def link_rows(self, asked: QueryInputs, left: int) -> Tensor:
        """Logits [Q, questions] of pairs of given rows."""
        past = self.backend.pick(asked.statistics)
        described = self._describe_pairs(asked, past, left, self.pairs(asked, past, left))
        return self.weigh_pairs(described, asked.embedding)

    def describe_pairs(self, queries: Past, left: int) -> DescribedPairs:
        """What needs no weights of a score."""
        if not self.backend.compiled:
            asked = queries.tensors()
            past = self.backend.pick(asked.statistics)
            return self._describe_pairs(asked, past, left, self.pairs(asked, past, left))
        model, like, size = self.model, self.model.walk_scale, len(queries)
        scales = statistics_encoding(model), pair_encoding(model), array_of(like)
        widths = (len(scales[0].centre), 0 if model.statistics is None else model.statistics.encoded_width)
        # The matrix library sees them: its results depend on how they are aligned.
        ends = [like.new_empty(size, width) for width in widths]
        pairs = [
            like.new_empty(size - left, width) for width in (len(like), 0 if model.pairs is None else model.pairs.width)
        ]
        pause = torch.empty(size, dtype=torch.float64)
        filled = Descriptions(*map(array_of, (pause, *ends, *pairs)))
        clocks = (self.config.unit, model.count_rate, model.spans)
        describe(queries.arrays(), left, *clocks, self._sketching(), scales, filled)
        statistics, encoded, walks, facts = (part if part.shape[1] else None for part in (*ends, *pairs))
        return DescribedPairs(
            DescribedEnds(torch.from_numpy(queries.node), pause, statistics, encoded), walks, facts, left
        )

    def weigh_pairs(self, described: DescribedPairs, embedding: Rows) -> Tensor:
        """Logits [Q, questions] of pairs whose ends have these embeddings."""
        ends, walks, pairs, left = described
        z = self._project(ends, embedding)
        return self.model.head(PairInputs(z, ends.encoded, walks, pairs, left), self.backend)  # type: ignore[no-any-return]

    def walks(self, asked: QueryInputs, past: Tensor, left: int) -> Tensor:
        """[Q, .] cosines of the sketches of pairs, whose nodes have the statistics past [Q, F]."""
        given = (column.numpy(force=True) for column in (past, asked.time, asked.seen))
        like = asked.sketch.arena[:0].numpy(force=True)
        kept = torch.from_numpy(decay_to_queries(*given, self.model.spans, self.model.sketching.rate, like))
        return self.backend.compare_sketches(asked.sketch, kept.to(past.device), left, self.model.sketching)

    def pairs(self, asked: QueryInputs, past: Tensor, left: int) -> Tensor:
        """[Q, .] facts of pairs whose nodes have the statistics past [n, F]; without columns where none are kept."""
        if not self.config.partners:
            return past.new_empty(len(asked.time) - left, 0)
        return self.backend.pair_facts(
            asked.partners, past, asked.time, asked.seen, left, self.config.unit, len(self.model.count_rate)
        )

    def _describe_pairs(self, asked: QueryInputs, past: Tensor, left: int, pairs: Tensor) -> DescribedPairs:
        """See `describe_pairs`; the ends have the statistics past [n, F], the pairs the facts [Q, .]."""
        walks = self.walks(asked, past, left) / self.model.walk_scale if self.config.sketched else None
        encoder = self.model.pairs
        known = None if encoder is None else self.backend.encode_pair_facts(encoder, pairs)
        return DescribedPairs(self._describe_ends(asked, past), walks, known, left)

    def _describe_ends(self, asked: QueryInputs, past: Tensor) -> DescribedEnds:
        """What is known without weights of nodes that have the statistics past [n, F]."""
        encoder, pause = self.model.statistics, (asked.time - both_roles(past, LAST).amax(dim=1)) / self.config.span
        if encoder is None:
            return DescribedEnds(asked.node, pause, None, None)
        described = self.backend.encode_statistics(encoder, past, asked.partners, asked.time, asked.seen)
        return DescribedEnds(asked.node, pause, *described)

    def _project(self, ends: DescribedEnds, embedding: Rows) -> Tensor:
        """z [n, d]."""
        projection = self.model.projection
        if not isinstance(projection, StatisticsProjection):
            return projection(self.backend.pick(embedding), ends.pause)  # type: ignore[no-any-return]
        known = projection.known(ends.statistics)
        if projection.of_node is not None:
            known = known + projection.of_node(self.model.inputs(ends.node))
        z = self.backend.join_rows(embedding, known, projection.weights())
        return projection.dropout(z)  # type: ignore[no-any-return]

    def _embed(
        self, events: Events, view: Unfolding, flow: Flow, nodes: Tensor, sums: Tensor | None
    ) -> tuple[Tensor, list[Tensor], Tensor]:
        """h_K [T, d], the last state [C, .] of each kernel and h_{K-1} [T, d]; without sums of nodes, directly."""
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
            carried = None if sums is None else sums[:, start:stop].index_select(0, nodes + 1).double()
            table, last = block(table, row, chunk, carried)
            if last is not None:
                states.append(last)
            row, start = None, stop
        lower = below if place is None else below.index_select(0, place)
        return table, states, lower

    def _count(self, view: Unfolding, before: int, carried: Tensor) -> tuple[Flow, Tensor]:
        """The chunk as kernels see it, after `before` events, and the statistics [T, F] of its temporal nodes."""
        model, seen = self.model, view.seen + before
        rows, elapsed = np.empty((view.size, carried.shape[1])), np.empty((view.size, 2))
        clocks, degree = np.empty((view.size, 2)), np.empty(view.size)
        update_statistics(view, seen, model.count_rate, carried.numpy(force=True), rows, elapsed)
        read_clocks(model.spans, view, seen, rows, elapsed, clocks, degree)
        return self._flow(view, degree, clocks, elapsed), self._tensor(rows)

    def _flow(self, view: Unfolding, degree: Floats, clocks: Floats, elapsed: Floats) -> Flow:
        return Flow(
            chain=self._tensor(view.chain),
            inbox=self._tensor(view.inbox),
            sender=self._tensor(view.sender),
            role=self._tensor(view.role),
            event=self._tensor(view.event),
            degree=self._tensor(degree).to(self.model.dtype),
            clocks=self._tensor(clocks),
            elapsed=self._tensor(elapsed),
            scans=self.backend.scans,
        )

    def _sketching(self) -> Sketching:
        """How walks are sketched; of no width where they are not."""
        return self.model.sketching if self.config.sketched else self.model.sketching._replace(width=0)

    def _update_partners(self, view: Unfolding, before: int, statistics: Tensor, carried: Tensor) -> Tensor:
        """The recent partners [T, .] of the temporal nodes, from those carried into their chains [C, .]."""
        rows = np.empty((view.size, carried.shape[1]))
        if carried.shape[1]:
            given = (statistics.numpy(force=True), carried.numpy(force=True))
            update_partners(view, view.owner(), view.seen + before, self.model.count_rate, *given, rows)
        return self._tensor(rows)

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.model.device)
