"""Memory: a vector per node that a recurrent cell rewrites at each of its instants; what TGN, JODIE and DyRep share.

    s_v      = cell([partner, role, log(1 + gap), f], s_v-)              at each instant in which v is active
    partner  = s_u- + x_u                                                the other end of v's last event in that instant

A minus means: just before the instant, so that events of one instant do not see each other. A question at t reads the
memory after all instants strictly before t, whatever batch it comes in: a batch keeps every version that it passes
through (one per temporal node), and a question picks its own. Versions are computed in waves: all those whose inputs
are known, together.

The last message of each node is *pending*: the state holds the memory before it and the message itself, and it is the
next batch that applies it, with the weights of that moment. So the cell gets a gradient from every node that is read,
also where no node is active twice in one batch. Between batches everything is plain numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numba as nb
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tapgnn.baselines.sampled.temporal_attention import Past
from tapgnn.baselines.shared.link_network import event_features
from tapgnn.events import Events, Floats, Ints
from tapgnn.unfold import SOURCE, unfold

# As source, as destination, log gap, first event: what a message has besides its partner and the event's features.
PLAIN = 4


@dataclass
class MemoryState:
    """What is known of every node; nodes beyond N have never been active.

    memory [N, d]    before the pending message
    pending [N, m]   the message store: the last message of each node, not yet applied
    last [N]         when each node was last active, -inf for never
    """

    memory: Tensor
    pending: Tensor
    past: Past
    last: Floats = field(default_factory=lambda: np.empty(0))

    def grow(self, size: int) -> None:
        """Make room for at least so many nodes."""
        if size > len(self.last):
            more = max(size, 2 * len(self.last)) - len(self.last)
            self.memory = torch.cat([self.memory, self.memory.new_zeros(more, self.memory.shape[1])])
            self.pending = torch.cat([self.pending, self.pending.new_zeros(more, self.pending.shape[1])])
            self.last = np.append(self.last, np.full(more, -np.inf))

    def last_of(self, nodes: Ints) -> Floats:
        """[Q] when each node was last active; -inf for one that never was, -1 among them."""
        known = (nodes >= 0) & (nodes < len(self.last))
        return np.where(known, np.append(self.last, -np.inf)[np.where(known, nodes, -1)], -np.inf)


@dataclass(frozen=True)
class Met:
    """The latest neighbours of some (node, time) [Q]: rows of their memories and the events, [Q, n], -1 for none."""

    rows: Ints
    event: Ints


class Layout:
    """A batch of events and questions, laid out: rows 0..U-1 are memories before it, then one per temporal node.

    nodes [U]           the nodes that play a part, ascending
    owner [U + T]       whose memory each row is, as a place in `nodes`
    last [U + T]        when that node was last active, -inf for never
    row [Q]             the row that each question reads
    met                 the neighbours of the questions
    earlier [T]         the row that each temporal node replaces
    partner [T]         the row that tells it
    plain [T, p]        what its message has besides the partner
    partner_met         the neighbours of the partner
    waves               the temporal nodes in groups, each after all that it needs
    """

    def __init__(
        self, state: MemoryState, events: Events, node: Ints, time: Floats, reads: int, tells: int, unit: float
    ) -> None:
        graph = state.past.graph
        features = state.past.table.features
        self.view = view = unfold(events)
        self.node, self.time, self.unit = node, time, unit
        message = view.inbox[1:] - 1
        sender = view.sender[message]
        self.teller = view.nodes[view.owner()[sender]]
        found = graph.latest(node, time, reads) if reads else None
        told = graph.latest(self.teller, view.time, tells) if tells else None
        listed = [part.node.ravel() for part in (found, told) if part is not None]
        # Padding is -1, which is also how an unknown node is asked for; it costs one row of zeros.
        self.nodes = np.unique(np.concatenate([view.nodes, node, *listed]))
        self.first = len(self.nodes)
        chains = np.searchsorted(self.nodes, view.nodes)
        self.owner = np.concatenate([np.arange(self.first), chains[view.owner()]])
        self.last = np.concatenate([state.last_of(self.nodes), view.time])
        self.earlier = np.arange(view.size) + self.first - 1
        self.earlier[view.chain[:-1]] = chains
        self.partner = self.earlier[sender]
        self.row = self._find(node, time)
        self.met = None if found is None else self._met(found, time)
        self.partner_met = None if told is None else self._met(told, view.time)
        self.plain = self._plain(message, event_features(events, features))
        self.waves = self._waves()

    def _find(self, nodes: Ints, times: Floats) -> Ints:
        """The row of each (node, time): its memory after all that came strictly before the time."""
        row = self.view.before(nodes, times)
        within = (row >= 0) & (row < self.view.size)
        return np.where(within, row + self.first, np.searchsorted(self.nodes, nodes))

    def _met(self, found: Any, time: Floats) -> Met:
        count = found.node.shape[1]
        rows = self._find(found.node.ravel(), np.repeat(time, count)).reshape(found.node.shape)
        return Met(np.where(found.mask, rows, -1), found.event)

    def _plain(self, message: Ints, vectors: NDArray[np.float32]) -> Tensor:
        """[T, p] role, log gap, whether it is the first event, and the event's features."""
        role = self.view.role[message]
        gap = self.view.time - self.last[self.earlier]
        first = np.isinf(gap)
        columns = [role == SOURCE, role != SOURCE, np.log1p(np.where(first, 0.0, gap) / self.unit), first]
        columns += list(vectors[self.view.event[message]].T)
        return torch.from_numpy(np.column_stack(columns).astype(np.float32))

    def _waves(self) -> list[Ints]:
        if not self.view.size:
            return []
        needs = [self.earlier, self.partner]
        if self.partner_met is not None:
            needs += list(self.partner_met.rows.T)
        order = np.argsort(self.view.instant, kind="stable")
        level = _levels(order, np.column_stack(needs) - self.first)
        order = np.argsort(level, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(level[order])) + 1)


@nb.njit(cache=True)
def _levels(order: Any, needs: Any) -> NDArray[np.int64]:
    """[T] one more than the highest level among the temporal nodes that each one needs; negative ones are no such."""
    level = np.zeros(len(order), dtype=np.int64)
    for i in order:
        for k in range(needs.shape[1]):
            if needs[i, k] >= 0:
                level[i] = max(level[i], level[needs[i, k]] + 1)
    return level
