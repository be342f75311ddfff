"""The model: one `advance` for offline, training and online use, and the queries that read what it leaves.

    advance(events, state) -> (trace, state')         Algorithm 1, layer by layer, from a carried state
    query(where, nodes, times) -> z                   the projection (eq. 8)
    score(where, src, dst, times) -> logits           the link head (eq. 9)

`where` is a state (the live present) or a trace (any moment within its events). Cutting the stream between any two
instants changes no number; everything asked at t depends on events strictly before t.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from tapgnn.errors import ConfigError, LateEventError
from tapgnn.events import Events, Vocabulary
from tapgnn.kernels import Flow
from tapgnn.model.block import Block, Chunk
from tapgnn.model.config import Config
from tapgnn.model.encoding import TimeEncoding
from tapgnn.model.facts import COUNT, LAST, SEEN, empty_facts, fold_facts
from tapgnn.model.heads import make_head
from tapgnn.model.inputs import Inputs
from tapgnn.model.moments import Moments
from tapgnn.model.projection import FactProjection, Facts, Projection, decay_rates, sketch_rates
from tapgnn.model.sketch import compare_sketches, propagate_sketches, sketch_size
from tapgnn.model.state import Past, State
from tapgnn.model.trace import Trace
from tapgnn.unfold import Unfolding, unfold

Late = Literal["reject", "merge"]


class Model(nn.Module):
    """TAP-GNN over the nodes of a vocabulary; nodes that appear later are served by the unknown vector.

    >>> log = Events.from_arrays(["a", "a", "b"], ["b", "c", "c"], [1.0, 2.0, 3.0])
    >>> model = Model(Config.preset("paper", width=8, time_width=4), log.vocabulary)
    >>> trace, state = model.advance(log, model.empty_state())
    >>> trace.embedding.shape, state.clock
    (torch.Size([6, 8]), 3.0)
    >>> model.query(state, log.vocabulary.rows(["a", "b"]), [4.0, 4.0]).shape
    torch.Size([2, 8])
    """

    def __init__(self, config: Config, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.inputs = Inputs(config, len(vocabulary))
        self.encoding = TimeEncoding(config.time_width, config.unit / config.span)
        self._blocks = [Block(config, config.width) for _ in range(config.layers)]
        self.blocks = nn.ModuleList(self._blocks)
        self.facts = Facts(config) if config.facts else None
        facts = self.facts.width if self.facts is not None else 0
        self.projection = FactProjection(config, facts) if config.facts else Projection(config)
        self.sketched = config.sketch_width > 0 and config.sketch_steps > 0
        rates = sketch_rates(config)
        walks = 2 * ((config.sketch_steps + 1) ** 2 - 1) * rates.shape[1] if self.sketched else 0
        self.head = make_head(config, 2 * facts + walks)
        # No buffers: they stay in float64 whatever the type of the model.
        self.sketch_rate, self.count_rate = rates, decay_rates(config)
        self.register_buffer("walk_scale", torch.ones(walks))
        self.walk_scale: Tensor

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.walk_scale.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights and embeddings."""
        return self.walk_scale.dtype

    def empty_state(self) -> State:
        """The state before the first event."""
        config = self.config
        rates = self.sketch_rate.shape[1]
        size = sketch_size(config.sketch_width, config.sketch_steps, rates) if self.sketched else 0
        sums = torch.cat([block.kernel.empty() for block in self._blocks])
        return State(
            sums=sums.unsqueeze(0).to(self.device),
            facts=torch.from_numpy(empty_facts(self.count_rate.shape[1])).unsqueeze(0).to(self.device),
            embedding=torch.zeros(1, config.width, dtype=self.dtype, device=self.device),
            sketch=torch.zeros(1, size, dtype=self.dtype, device=self.device),
            sketch_width=config.sketch_width if self.sketched else 0,
        )

    def advance(self, events: Events, state: State, late: Late = "reject") -> tuple[Trace, State]:
        """Absorb events into the state; the state handed in is consumed.

        Events must be younger than the clock of the state. With late='merge', older ones are absorbed at the present
        instant instead: exact for undecayed sums of the first layer, an approximation otherwise.
        """
        self._check_events(events)
        events = _in_order(events, state.clock, late)
        following = state.consume()
        following.admit(self.vocabulary)
        view = unfold(events)
        nodes = self._tensor(view.nodes)
        rows = nodes + 1
        carried_facts = following.facts[rows]
        flow, facts = self._flow(view, events, following, carried_facts)
        carried_sums = following.sums[rows]
        embedding, sums = self._embed(events, view, flow, nodes, carried_sums)
        sketch, carried_sketch = self._sketch(flow, view, following.sketch[rows])
        trace = Trace(
            view=view,
            embedding=embedding,
            facts=facts,
            sketch=sketch,
            carried_embedding=following.embedding[rows],
            carried_facts=carried_facts,
            carried_sketch=carried_sketch,
            event_time=events.time,
            events_before=following.events,
            successor=following,
        )
        if len(events):
            last = flow.chain[1:] - 1
            following.write(nodes, sums, facts[last], embedding[last], sketch[last])
            following.clock = float(events.time[-1])
            following.events += len(events)
        return trace, following

    def advance_directly(self, events: Events) -> Tensor:
        """TAP-GNN*: the embeddings [T, d] of a log from its start, aggregated from the whole neighbourhood.

        The same weights and the same numbers as `advance`, at the cost of the links of G_MP. Rows as in `unfold`.
        """
        self._check_events(events)
        view = unfold(events)
        nodes = self._tensor(view.nodes)
        start = self.empty_state()
        start.admit(self.vocabulary)
        flow, _ = self._flow(view, events, start, start.facts[nodes + 1])
        return self._embed(events, view, flow, nodes, None)[0]

    def query(self, where: State | Trace, nodes: ArrayLike | Tensor, times: ArrayLike | Tensor) -> Tensor:
        """z(v,t) [Q, d] of rows of the vocabulary (-1: a node nobody knows) at times after their last activity."""
        return self.represent(where.past(*self._asked(nodes, times)))

    def score(
        self,
        where: State | Trace,
        src: ArrayLike | Tensor,
        dst: ArrayLike | Tensor,
        times: ArrayLike | Tensor,
    ) -> Tensor:
        """Logits [Q] of an event src -> dst at each time."""
        left, right = where.past(*self._asked(src, times)), where.past(*self._asked(dst, times))
        return self.link(left, self.represent(left), right, self.represent(right))

    def represent(self, past: Past) -> Tensor:
        """z [Q, d] from what is known before each query."""
        if self.facts is None:
            return self.projection(past)  # type: ignore[no-any-return]
        return self.projection(past, self.inputs(past.node), self.facts(past))  # type: ignore[no-any-return]

    def link(self, left: Past, z_left: Tensor, right: Past, z_right: Tensor) -> Tensor:
        """Logits [Q] of pairs whose pasts and representations are at hand."""
        columns = []
        if self.facts is not None:
            columns += [self.facts(left), self.facts(right)]
        if self.sketched:
            columns.append(self.walks(left, right) / self.walk_scale)
        pair = torch.cat(columns, dim=1) if columns else None
        return self.head(z_left, z_right, pair)  # type: ignore[no-any-return]

    def walks(self, left: Past, right: Past) -> Tensor:
        """[Q, .] what the sketches of each pair have in common: log walk counts, and cosines."""
        fades = self._fade(left), self._fade(right)
        config = self.config
        counts, cosines = compare_sketches(left.sketch, right.sketch, *fades, config.sketch_width, config.sketch_steps)
        return torch.cat([torch.sign(counts) * torch.log1p(counts.abs()), cosines], dim=1)

    @torch.no_grad()
    def calibrate(self, pasts: Iterable[tuple[Past, Past]]) -> None:
        """Set the centre and scale of facts and walks from pairs of queries like those to come."""
        facts, walks = Moments(), Moments()
        for left, right in pasts:
            if self.facts is not None:
                facts.add(self.facts.plain(left))
                facts.add(self.facts.plain(right))
            if self.sketched:
                walks.add(self.walks(left, right))
        if self.facts is not None:
            self.facts.centre.copy_(facts.mean())
            self.facts.scale.copy_(facts.deviation() + 1e-2)
        if self.sketched:
            self.walk_scale.copy_(walks.deviation() + 1e-3)

    def _embed(
        self, events: Events, view: Unfolding, flow: Flow, nodes: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """h_K [T, d] and the last kernel states [C, .], layer by layer; without carried states, directly."""
        config = self.config
        instants = (self._tensor(view.instants) - config.origin) / config.span
        edge = None
        if events.features is not None:
            edge = torch.from_numpy(events.features).to(self.device, self.dtype)
        chunk = Chunk(flow, self._tensor(view.instant), self.encoding(instants), edge)
        table: Tensor = self.inputs(nodes)
        row: Tensor | None = self._tensor(view.owner())
        states, start = [], 0
        for block in self._blocks:
            stop = start + block.kernel.state_width
            table, last = block(table, row, chunk, None if carried is None else carried[:, start:stop])
            states.append(last)
            row, start = None, stop
        return table, torch.cat(states, dim=1) if carried is not None else table

    def _flow(self, view: Unfolding, events: Events, state: State, carried: Tensor) -> tuple[Flow, Tensor]:
        """The chunk as kernels see it, and the facts [T, F] of its temporal nodes."""
        config = self.config
        spans = np.array([config.span, config.events])
        seen = state.events + np.searchsorted(events.time, view.instants, side="right")
        facts = np.empty((view.size, carried.shape[1]))
        elapsed = np.empty((view.size, 2))
        seen = seen[view.instant].astype(np.float64)
        rate = self.count_rate.numpy() / spans[:, None]
        fold_facts(
            view.chain,
            view.inbox,
            view.role,
            view.time,
            seen,
            rate,
            carried.cpu().numpy(),
            facts,
            elapsed,
        )
        rows = self._tensor(facts)
        flow = Flow(
            chain=self._tensor(view.chain),
            inbox=self._tensor(view.inbox),
            sender=self._tensor(view.sender),
            role=self._tensor(view.role),
            event=self._tensor(view.event),
            degree=rows[:, COUNT].sum(dim=1).to(self.dtype),
            clocks=self._tensor(np.stack([view.time - config.origin, seen], axis=1) / spans),
            elapsed=self._tensor(elapsed / spans),
        )
        return flow, rows

    def _sketch(self, flow: Flow, view: Unfolding, carried: Tensor) -> tuple[Tensor, Tensor]:
        """Sketch rows of the temporal nodes, and those carried in."""
        if not self.sketched:
            return carried.new_empty(view.size, 0), carried
        owner = self._tensor(view.owner())
        config = self.config
        rows = propagate_sketches(
            flow, owner, self.sketch_rate.to(self.device), carried, config.sketch_width, config.sketch_steps
        )
        return rows, carried

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _fade(self, past: Past) -> Tensor:
        """[Q, H] what is left of a sketch from a node's last activity until the query."""
        last, seen = past.facts[:, LAST].amax(dim=1), past.facts[:, SEEN].amax(dim=1)
        since = torch.stack([past.time - last, past.seen - seen], dim=1)
        since = torch.where(last.isinf().unsqueeze(1), 0.0, since)
        spans = torch.tensor([self.config.span, self.config.events], dtype=torch.float64, device=self.device)
        return torch.exp(-(since / spans) @ self.sketch_rate.to(self.device)).to(self.dtype)

    def _asked(self, nodes: ArrayLike | Tensor, times: ArrayLike | Tensor) -> tuple[Tensor, Tensor]:
        node = torch.as_tensor(nodes, dtype=torch.int64, device=self.device)
        time = torch.as_tensor(times, dtype=torch.float64, device=self.device)
        return node, time.expand(node.shape)

    def _check_events(self, events: Events) -> None:
        if events.vocabulary is not self.vocabulary:
            raise ConfigError(
                "the events number their ids apart from the model; build them with vocabulary=model.vocabulary"
            )
        if events.feature_width != self.config.edge_features:
            raise ConfigError(
                f"the model expects {self.config.edge_features} features per event, these events have "
                f"{events.feature_width}; pass the features it was trained with"
            )


def _in_order(events: Events, clock: float, late: Late) -> Events:
    """The events, all younger than the clock; or, merged, none older than it."""
    if len(events) == 0 or events.time[0] > clock:
        return events
    if late == "merge":
        return Events(
            events.src,
            events.dst,
            np.maximum(events.time, clock),
            events.features,
            events.labels,
            events.vocabulary,
        )
    names = events.vocabulary.ids
    raise LateEventError(
        f"event {names[events.src[0]]!r} -> {names[events.dst[0]]!r} at {events.time[0]} is not younger than the clock "
        f"of the state, {clock}; send events in order of time, pass late='merge', or put a re-order buffer in front"
    )
