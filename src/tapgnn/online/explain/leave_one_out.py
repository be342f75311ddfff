"""Leave one out: the row of a node as it would be had one event not reached it.

Let V be all that the row holds as sums: those of the last layer, the decayed counts, the walk sketch. Every message m
that reached the node added a known amount to it, which has decayed since:

    V = older + sum over remembered messages of added(m)

V is in the state, so `older` is known exactly without any of its events. `without` gives the row as it would be had one
event not reached the node: V, counts, recency and the memory of partners without it. If it was the node's latest,
everything is taken back to the instant before.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.layer_norm import join_and_normalise
from tapgnn.kernels.kernel import Messages
from tapgnn.model import Model
from tapgnn.model.features.node_statistics import COUNT, LAST, RECENT, SEEN, both_roles, recent_counts
from tapgnn.online.explain.event_window import Excerpt
from tapgnn.online.explain.moment import CopiedRows, StateRows
from tapgnn.online.explain.partners_without import FORGOTTEN, ReceivedMessages, partners_without
from tapgnn.vocabulary import Id


class NodeHistory:
    """One node of the link: its row as it is, and as it would be without each of n events.

    The row `kept` of the state holds the sums of the events that it counts; later ones were still held back.
    """

    def __init__(self, model: Model, history: Excerpt, node: Id, past: CopiedRows, kept: StateRows) -> None:
        self.model, self.node, self.past = model, node, past
        self.kernel = model.layers[-1].kernel
        self.statistics = past.statistics[0]
        self.messages = self._received(history)
        self.fed = torch.from_numpy(history.walks)[self.messages.event, 1 - self.messages.role].double()
        self.time = torch.from_numpy(history.time)[self.messages.event]
        self.seen = torch.from_numpy(history.seen)[self.messages.event]
        self.size = len(history.time)
        self.start = model.config.sketch_width if model.config.sketched else 0
        rates = (model.config.count_rates(), model.config.sketch_rates())
        self.count_rate, self.sketch_rate = map(torch.from_numpy, rates)
        if not len(self.messages):
            return
        event, role = self.messages.event.numpy(), self.messages.role.numpy()
        others = np.where(role == 0, history.dst[event], history.src[event])
        self.meetings = ReceivedMessages.of(event, role, self.time.numpy(), self.seen.numpy(), others)
        self.peak = self.kernel.find_peak(self._last_sums(kept), self.messages)
        self.now = self._clock(self.statistics)
        self.part = self._added(self.now)
        self.older = self._older(kept, self.seen <= kept.events)
        self.total = self.part.sum(dim=0) + self.older
        self.by_event = self.part.new_zeros(self.size, len(self.total)).index_add(0, self.messages.event, self.part)
        one = torch.nn.functional.one_hot(self.messages.role, 2).double()
        self.removed = one.new_zeros(self.size, 2).index_add(0, self.messages.event, one)

    def _received(self, history: Excerpt) -> Messages:
        """The last layer's messages to the node along the events of an excerpt, made again."""
        model, block = self.model, self.model.layers[-1]
        ends = np.stack([history.src == self.node, history.dst == self.node], axis=1)
        event, receiver = (torch.from_numpy(found) for found in np.nonzero(ends))
        columns = (history.time, history.seen, history.lower, history.degree, history.edge)
        time, seen, lower, degree, edge = map(torch.from_numpy, columns)
        sender, clocks = 1 - receiver, self._in_spans(time, seen)[event]
        value: Tensor = block.transform(lower[event, sender])
        if block.of_time is not None:
            value = value + block.of_time(model.encoding(clocks[:, 0]))
        if edge.shape[1]:
            value = value + block.edges(edge[event])
        if block.gate is not None:
            value = value * block.gate[sender]
        return Messages(event, receiver, value.double(), lower[event, receiver], degree[event, sender].double(), clocks)

    def _last_sums(self, kept: StateRows) -> Tensor:
        """The last layer's part of a row of sums."""
        return kept.sums[0, kept.sums.shape[1] - self.kernel.state_width :].double()

    def _in_spans(self, time: Tensor, seen: Tensor) -> Tensor:
        """[..., 2] moments on both clocks, in spans of the model."""
        config = self.model.config
        return torch.stack([(time - config.origin) / config.span, seen / config.events], dim=-1)

    def _clock(self, statistics: Tensor) -> Tensor:
        """[2] when a node with these statistics was last active."""
        return self._in_spans(both_roles(statistics, LAST).max(), both_roles(statistics, SEEN).max())

    def _added(self, now: Tensor) -> Tensor:
        """[M, .] what each message is worth in V at the clocks `now`."""
        model, messages = self.model, self.messages
        age = now - messages.clocks
        kept = torch.exp(-age[:, 1:] * self.count_rate)
        role = torch.nn.functional.one_hot(messages.role, 2).double()
        recent = (kept.unsqueeze(2) * role.unsqueeze(1)).flatten(1)
        walks = self.fed.new_zeros(len(messages), 0)
        if model.config.sketched:
            rates, width = self.sketch_rate.shape[1], self.start
            kept = torch.exp(-age @ self.sketch_rate).repeat(1, model.config.sketch_steps)
            walks = torch.cat([self.fed[:, :width].repeat(1, rates), self.fed[:, width:]], dim=1)
            walks = walks * kept.repeat_interleave(width, dim=1)
        return torch.cat([self.kernel.contributions(messages, now, self.peak), recent, walks], dim=1)

    def _older(self, kept: StateRows, absorbed: Tensor) -> Tensor:
        """What V holds at `now` of events that the history does not have; no rounding where it has them all."""
        statistics = kept.statistics[0]
        if int(absorbed.sum()) == int(both_roles(statistics, COUNT).sum()):
            return torch.zeros_like(self.part[0])
        sums = self.kernel.additive(self._last_sums(kept))
        whole = torch.cat([sums, recent_counts(statistics), kept.sketch[0, self.start :].double()])
        then = self._clock(statistics)
        known = self._added(then)[absorbed]
        left = whole - known.sum(dim=0)
        noise = 100 * torch.finfo(self.model.dtype).eps * known.abs().sum(dim=0)
        return self._decay(torch.where(left.abs() > noise, left, 0.0), self.now - then)

    def _decay(self, row: Tensor, elapsed: Tensor) -> Tensor:
        """V as it is `elapsed` [2] later."""
        model, width = self.model, self.kernel.state_width
        counts = 2 * len(self.count_rate)
        recent = torch.exp(-elapsed[1] * self.count_rate).repeat_interleave(2)
        parts = [self.kernel.decay_sums(row[:width], elapsed), row[width : width + counts] * recent]
        if model.config.sketched:
            kept = torch.exp(-elapsed @ self.sketch_rate).repeat(model.config.sketch_steps)
            parts.append(row[width + counts :] * kept.repeat_interleave(self.start))
        return torch.cat(parts)

    def without(self) -> tuple[CopiedRows, Tensor]:
        """The node's rows [1 + n] as it is and without each event, and whether [n] they are exact."""
        rows = self.past.repeated(1 + self.size)
        statistics, embedding, sketch = rows.statistics, rows.embedding, rows.sketch
        counts = both_roles(statistics, COUNT)
        exact = torch.ones(self.size, dtype=torch.bool)
        if len(self.messages):
            left = _all_but_one(self.by_event) + self.older
            counts[1:] -= self.removed
            for event in {int(self.messages.event[message]) for message in self._latest()}:
                exact[event] = self._recall(statistics[1 + event], event, left)
            width, stop = self.kernel.state_width, self.kernel.state_width + 2 * len(self.count_rate)
            statistics[1:, RECENT:] = left[:, width:stop]
            sketch[1:, self.start :] = left[:, stop:].to(sketch)
            read = self.kernel.read_sums(left[:, :width], counts[1:].sum(dim=1))
            touched = 1 + (self.removed.sum(dim=1) > 0).nonzero()[:, 0]
            embedding[touched] = self.finish_read(read)[touched - 1]
            embedding[counts.sum(dim=1) == 0] = 0.0
            if rows.partners.shape[1]:
                self._forget_meetings(rows.partners, exact)
        return rows, exact

    def _forget_meetings(self, partners: Tensor, exact: Tensor) -> None:
        """Set the memory of partners [1 + n, .] without each event."""
        count = int(both_roles(self.statistics, COUNT).sum())
        rate = self.count_rate.numpy() / self.model.config.events
        row = partners[0].numpy()
        for event in np.unique(self.meetings.event).tolist():
            without, known = partners_without(row, self.meetings, event, count, rate)
            partners[1 + event] = torch.from_numpy(without)
            exact[event] &= known

    def _latest(self) -> list[int]:
        """The last message of each role."""
        found = [(self.messages.role == role).nonzero()[:, 0] for role in range(2)]
        return [int(which[-1]) for which in found if len(which)]

    def _recall(self, statistics: Tensor, event: int, left: Tensor) -> bool:
        """Set recency, and V with it, without the latest event of a role; False where what came before is forgotten."""
        others, known = self.messages.event != event, True
        for role in range(2):
            mine = (self.messages.role == role) & others
            if statistics[COUNT + role] == 0:
                statistics[LAST + role], statistics[SEEN + role] = -torch.inf, 0.0
            elif self.removed[event, role] and mine.any():
                statistics[LAST + role], statistics[SEEN + role] = self.time[mine][-1], self.seen[mine][-1]
            elif self.removed[event, role]:
                statistics[LAST + role], statistics[SEEN + role] = self.time[0], self.seen[0]
                known = False
        if float(both_roles(statistics, COUNT).sum()) == 0:
            return known
        then = self._clock(statistics)
        if bool((then < self.now).any()):
            fresh = self._added(then)[others].sum(dim=0)
            growth = self._decay(torch.ones_like(self.older), then - self.now)
            fits = growth < np.exp(FORGOTTEN)
            left[event] = fresh + torch.where(fits, self.older * growth, 0.0)
            known = known and (len(self.messages) == int(both_roles(self.statistics, COUNT).sum()) or bool(fits.all()))
        return known

    def finish_read(self, read: Tensor) -> Tensor:
        """The embedding [B, d] that the last block makes of what it reads, and of the node's own h_{K-1}."""
        block = self.model.layers[-1]
        read = block.kernel.activate(read.to(self.model.dtype))
        own = self.messages.own[-1].detach().expand_as(read)
        return read if block.end is None else join_and_normalise(own, *block.end, read)

    def reading(self) -> tuple[Tensor, Tensor, Tensor]:
        """What the last layer reads [d], and the shares in it of the events [n, d] and of older ones [d]."""
        width = self.kernel.state_width
        degree = both_roles(self.statistics, COUNT).sum()
        which = self.kernel.summed_values()
        rows = self.total[:width].repeat(2 + self.size, 1)
        rows[1, which] = self.older[:width][which]
        rows[2:, which] = self.by_event[:, :width][:, which]
        read = self.kernel.read_sums(rows, degree.repeat(len(rows)))
        return read[0], read[2:], read[1]


def _all_but_one(rows: Tensor) -> Tensor:
    """[n, .] the sum of all other rows, without ever subtracting: what is small beside the one left out stays."""
    before = torch.cat([torch.zeros_like(rows[:1]), rows.cumsum(dim=0)[:-1]])
    after = torch.cat([rows.flip(0).cumsum(dim=0).flip(0)[1:], torch.zeros_like(rows[:1])])
    return before + after
