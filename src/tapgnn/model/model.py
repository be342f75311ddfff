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

from tapgnn.compiled.flow import Flow
from tapgnn.errors import ConfigError, LateEventError
from tapgnn.events import Events, Floats
from tapgnn.model.block import Block, Chunk
from tapgnn.model.config import Config
from tapgnn.model.features.node_statistics import empty_facts, fold_facts, read_clocks
from tapgnn.model.features.walk_sketch import compare_sketches, fade_ends, propagate_sketches, sketch_size
from tapgnn.model.heads import make_head
from tapgnn.model.inputs import Inputs
from tapgnn.model.projection import FactProjection, Facts, Projection, decay_rates, sketch_rates
from tapgnn.model.state import Past, State
from tapgnn.model.step import FEW, Step
from tapgnn.model.sweep import Sweep
from tapgnn.model.time_encoding import TimeEncoding
from tapgnn.model.trace import Reached, Trace
from tapgnn.unfold import Unfolding, unfold
from tapgnn.vocabulary import Vocabulary

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
        walks = ((config.sketch_steps + 1) ** 2 - 1) * rates.shape[1] if self.sketched else 0
        encoded = self.facts.encoded_width if self.facts is not None else 0
        self.head = make_head(config, encoded, walks)
        # No buffers: they stay in float64 whatever the type of the model.
        self.sketch_rate, self.count_rate = rates, decay_rates(config)
        self.register_buffer("walk_scale", torch.ones(walks))
        self.walk_scale: Tensor
        self._compiled: Any = None
        self._widths = self.empty_state().widths()

    def _apply(self, *arguments: Any, **options: Any) -> Model:
        """A move to another type or device replaces tensors, which the compiled form would not notice."""
        self._compiled = None
        return super()._apply(*arguments, **options)  # type: ignore[no-untyped-call,no-any-return]

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
            facts=torch.from_numpy(empty_facts(len(self.count_rate))).unsqueeze(0).to(self.device),
            embedding=torch.zeros(1, config.width, dtype=self.dtype, device=self.device),
            sketch=torch.zeros(1, size, dtype=self.dtype, device=self.device),
            sketch_width=config.sketch_width if self.sketched else 0,
        )

    def advance(self, events: Events, state: State, late: Late = "reject") -> tuple[Trace, State]:
        """Absorb events into the state; the state handed in is consumed.

        Events must be younger than the clock of the state. With late='merge', older ones are absorbed at the present
        instant instead: exact for undecayed sums of the first layer whose messages tell neither time nor degree (mean,
        pool, attention without time encoding), an approximation otherwise.
        """
        self._check_events(events)
        state.check_usable()
        state.check_widths(self._widths)
        events = _in_order(events, state.clock, late)
        state.admit(self.vocabulary)
        view = unfold(events)
        seen = state.events + np.searchsorted(events.time, view.instants, side="right")[view.instant].astype(np.float64)
        step = self._step(len(events))
        following = state.consume()
        rows = self._absorb(events, view, seen, following) if step is None else step.absorb(view, seen, following)
        trace = Trace(view, *rows, events.time, state.events, state.clock, following)
        if len(events):
            following.clock = float(events.time[-1])
            following.events += len(events)
        return trace, following

    def _absorb(self, events: Events, view: Unfolding, seen: Floats, state: State) -> Reached:
        """Write the rows of the active nodes into the state; see `Reached`."""
        nodes = self._tensor(view.nodes)
        sums, *carried = state.take(nodes)
        flow, facts = self._flow(view, seen, carried[0])
        embedding, states, lower = self._embed(events, view, flow, nodes, sums)
        reached = (facts, embedding, self._sketch(flow, view, carried[2]))
        state.write(nodes, flow.chain[1:] - 1, states, *reached)
        return Reached(*(*reached, *carried, lower))

    def _step(self, size: int) -> Step | Sweep | None:
        """The form without gradients for so many events or pairs, where there is one."""
        form = Sweep if self.config.kernel == "attention" else Step
        if torch.is_grad_enabled() or (form is Step and size > FEW):
            return None
        kept = self._compiled
        step: Step | Sweep | None = form.of(self, kept)
        if step is not kept:
            self._compiled = step
        return step

    def advance_directly(self, events: Events) -> Tensor:
        """TAP-GNN*: the embeddings [T, d] of a log from its start, aggregated from the whole neighbourhood.

        The same weights and the same numbers as `advance`, at the cost of the links of G_MP. Rows as in `unfold`.
        """
        self._check_events(events)
        view = unfold(events)
        nodes = self._tensor(view.nodes)
        start = self.empty_state()
        start.admit(self.vocabulary)
        seen = np.searchsorted(events.time, view.instants, side="right")[view.instant].astype(np.float64)
        flow, _ = self._flow(view, seen, start.facts[nodes + 1])
        return self._embed(events, view, flow, nodes, None)[0]

    def query(self, where: State | Trace, nodes: ArrayLike | Tensor, times: ArrayLike | Tensor) -> Tensor:
        """z(v,t) [Q, d] of rows of the vocabulary (-1: a node nobody knows), at times after what was absorbed."""
        where.check_widths(self._widths)
        return self.represent(where.past(*self._asked(nodes, times)))

    def score(
        self, where: State | Trace, src: ArrayLike | Tensor, dst: ArrayLike | Tensor, times: ArrayLike | Tensor
    ) -> Tensor:
        """Logits [Q] of an event src -> dst at each time."""
        where.check_widths(self._widths)
        size = len(src)  # type: ignore[arg-type]
        step = self._step(size)
        if step is not None:
            nodes = np.concatenate([src, dst]).astype(np.int64, copy=False)
            moments = np.empty(2 * size)
            moments[:size] = moments[size:] = times
            return step.link(where.find(nodes, moments), size)
        left, time = self._asked(src, times)
        right, _ = self._asked(dst, times)
        return self.link(where.past(torch.cat([left, right]), time.repeat(2)), size)

    def represent(self, past: Past) -> Tensor:
        """z [Q, d] from what is known before each query."""
        return self._project(past, None if self.facts is None else self.facts.describe(past)[0])

    def link(self, past: Past, left: int) -> Tensor:
        """Logits [Q] of pairs: the first `left` queries are left ends, the others right ends in blocks of `left`.

        The i-th of every block is paired with the i-th left end: an end in many pairs is described once.
        """
        walks = self.walks(past, left) / self.walk_scale if self.sketched else None
        facts, encoded = (None, None) if self.facts is None else self.facts.describe(past)
        z = self._project(past, facts)
        return self.head(z, encoded, walks, left)  # type: ignore[no-any-return]

    def _project(self, past: Past, facts: Tensor | None) -> Tensor:
        if facts is None:
            return self.projection(past)  # type: ignore[no-any-return]
        return self.projection(past, facts, self.inputs)  # type: ignore[no-any-return]

    def walks(self, past: Past, left: int) -> Tensor:
        """[Q, .] cosines of the sketches of pairs, given as to `link`."""
        config = self.config
        return compare_sketches(past.sketch, self._fade(past), left, config.sketch_width, config.sketch_steps)

    @torch.no_grad()
    def calibrate(self, asked: Iterable[tuple[Past, int]]) -> None:
        """Set the scales of facts and walks from queries like those to come, given as to `link`."""
        facts, walks = [], []
        for past, left in asked:
            if self.facts is not None:
                facts.append(self.facts.plain(past))
            if self.sketched:
                walks.append(self.walks(past, left))
        if self.facts is not None and facts:
            self.facts.calibrate(torch.cat(facts))
        if walks:
            self.walk_scale.copy_(torch.cat(walks).std(dim=0, correction=0) + 1e-3)

    def _embed(
        self, events: Events, view: Unfolding, flow: Flow, nodes: Tensor, carried: Tensor | None
    ) -> tuple[Tensor, list[Tensor], Tensor]:
        """h_K [T, d], the last state [C, .] of each kernel and h_{K-1} [T, d]; without carried states, directly."""
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
            below, place = table.detach(), row
            table, last = block(table, row, chunk, None if carried is None else carried[:, start:stop])
            if last is not None:
                states.append(last)
            row, start = None, stop
        lower = below if place is None else below.index_select(0, place)
        return table, states, lower

    def _flow(self, view: Unfolding, seen: Floats, carried: Tensor) -> tuple[Flow, Tensor]:
        """The chunk as kernels see it, and the facts [T, F] of its temporal nodes."""
        config = self.config
        facts, elapsed = np.empty((view.size, carried.shape[1])), np.empty((view.size, 2))
        clocks, degree = np.empty((view.size, 2)), np.empty(view.size)
        rate, before = self.count_rate.numpy() / config.events, carried.cpu().numpy()
        fold_facts(view.chain, view.inbox, view.role, view.time, seen, rate, before, facts, elapsed)
        read_clocks(config.origin, config.span, config.events, view.time, seen, facts, elapsed, clocks, degree)
        rows = self._tensor(facts)
        flow = Flow(
            chain=self._tensor(view.chain),
            inbox=self._tensor(view.inbox),
            sender=self._tensor(view.sender),
            role=self._tensor(view.role),
            event=self._tensor(view.event),
            degree=self._tensor(degree).to(self.dtype),
            clocks=self._tensor(clocks),
            elapsed=self._tensor(elapsed),
        )
        return flow, rows

    def _sketch(self, flow: Flow, view: Unfolding, carried: Tensor) -> Tensor:
        """Sketch rows of the temporal nodes."""
        if not self.sketched:
            return carried.new_empty(view.size, 0)
        owner = self._tensor(view.owner())
        config = self.config
        return propagate_sketches(
            flow, owner, self.sketch_rate.to(self.device), carried, config.sketch_width, config.sketch_steps
        )

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _fade(self, past: Past) -> Tensor:
        """[Q, 1 + H] what is left of S_0, and of S_k at each rate, from a node's last activity until the query."""
        spans = np.array([self.config.span, self.config.events])
        out = torch.empty(len(past), 1 + self.sketch_rate.shape[1], dtype=self.dtype)
        facts, time, seen = (tensor.numpy(force=True) for tensor in (past.facts, past.time, past.seen))
        fade_ends(facts, time, seen, spans, self.sketch_rate.numpy(), out.numpy())
        return out.to(self.device)

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
    if late not in ("reject", "merge"):
        raise ConfigError(f"late is reject or merge, not {late!r}")
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
