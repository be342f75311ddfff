"""The ledger of a node: what its row of the state holds, entry by entry.

Let V be all that the row holds as sums: those of the last layer, the decayed counts, the walk sketch. Every message m
that reached the node added a known amount to it, which has faded since:

    V = older + sum over remembered messages of added(m)

V is in the state, so `older` is known exactly without any of its events. `without` gives the row as it would be had one
event not reached the node: V, counts and recency without it. If it was the node's latest, everything is taken back to
the instant before.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from tapgnn.compiled.row_lookup import Rows
from tapgnn.kernels.attention import Attention
from tapgnn.model import Model, State
from tapgnn.model.features.node_statistics import COUNT, LAST, RECENT, SEEN
from tapgnn.model.state import Past
from tapgnn.online.explain.event_window import Excerpt, last_block
from tapgnn.online.explain.kernel_shares import (
    added,
    attention_scores,
    collect_messages,
    faded,
    finish_read,
    last_sums,
    read_sums,
)
from tapgnn.vocabulary import Id


@dataclass
class PastRows:
    """A `Past` with all its rows copied, so that they can be changed."""

    node: Tensor
    time: Tensor
    seen: Tensor
    facts: Tensor
    embedding: Tensor
    sketch: Tensor

    @classmethod
    def one(cls, past: Past, at: int) -> PastRows:
        """One query of many."""
        columns = (past.node, past.time, past.seen, past.facts, past.embedding.tensor(), past.sketch.tensor())
        return cls(*(column[at : at + 1] for column in columns))

    def repeated(self, count: int) -> PastRows:
        """The same query `count` times."""
        columns = (getattr(self, part.name) for part in fields(self))
        return PastRows(*(column.repeat(count, *[1] * (column.dim() - 1)) for column in columns))

    def with_right(self, right: PastRows) -> Past:
        """Queries of the left ends and then those of the right ends."""
        joined: Any = (torch.cat([getattr(self, part.name), getattr(right, part.name)]) for part in fields(self))
        node, time, seen, facts, embedding, sketch = joined
        return Past(node, time, seen, facts, Rows.of(embedding), Rows.of(sketch))


class Ledger:
    """One node of the link: its row as it is, and as it would be without each of n events.

    The state holds the sums of what was absorbed; the events of the history from `absorbed` on are still held back.
    """

    def __init__(self, model: Model, state: State, history: Excerpt, absorbed: int, node: Id, past: PastRows) -> None:
        self.model, self.node, self.past = model, node, past
        self.kernel = last_block(model).kernel
        self.facts = past.facts[0]
        self.messages = collect_messages(model, history, node)
        self.fed = history.walks[self.messages.event, 1 - self.messages.role].double()
        self.time = torch.from_numpy(history.time)[self.messages.event]
        self.seen = torch.from_numpy(history.seen)[self.messages.event]
        self.size = len(history)
        self.start = model.config.sketch_width if model.sketched else 0
        if not len(self.messages):
            return
        row = int(state.rows(past.node.numpy())[0])
        self.peak = self._peak(last_sums(model, state.sums[row]))
        self.now = self._clock(self.facts)
        self.part = self._added(self.now)
        self.older = self._older(state, row, self.messages.event < absorbed)
        self.total = self.part.sum(dim=0) + self.older
        self.by_event = self.part.new_zeros(self.size, len(self.total)).index_add(0, self.messages.event, self.part)
        one = torch.nn.functional.one_hot(self.messages.role, 2).double()
        self.removed = one.new_zeros(self.size, 2).index_add(0, self.messages.event, one)

    def _clock(self, facts: Tensor) -> Tensor:
        """[2] when a node with these facts was last active, in spans of the model."""
        config = self.model.config
        time, seen = facts[LAST].max(), facts[SEEN].max()
        return torch.stack([(time - config.origin) / config.span, seen / config.events])

    def _peak(self, sums: Tensor) -> Tensor:
        """Of attention, the alpha that weights are relative to."""
        if not isinstance(self.kernel, Attention) or bool(torch.isfinite(sums[0])):
            return sums[0]
        return attention_scores(self.kernel, self.messages).max()

    def _added(self, now: Tensor) -> Tensor:
        """[M, .] what each message is worth in V at the clocks `now`."""
        model, messages = self.model, self.messages
        age = now - messages.clocks
        kept = torch.exp(-age[:, 1:] * model.count_rate)
        role = torch.nn.functional.one_hot(messages.role, 2).double()
        recent = (kept.unsqueeze(2) * role.unsqueeze(1)).flatten(1)
        walks = self.fed.new_zeros(len(messages), 0)
        if model.sketched:
            rates, width = model.sketch_rate.shape[1], self.start
            kept = torch.exp(-age @ model.sketch_rate).repeat(1, model.config.sketch_steps)
            walks = torch.cat([self.fed[:, :width].repeat(1, rates), self.fed[:, width:]], dim=1)
            walks = walks * kept.repeat_interleave(width, dim=1)
        return torch.cat([added(self.kernel, messages, now, self.peak), recent, walks], dim=1)

    def _older(self, state: State, row: int, absorbed: Tensor) -> Tensor:
        """What V holds at `now` of events that the history does not have; no rounding where it has them all."""
        facts = state.facts[row]
        if int(absorbed.sum()) == int(facts[COUNT].sum()):
            return torch.zeros_like(self.part[0])
        whole = torch.cat(
            [last_sums(self.model, state.sums[row]), facts[RECENT], state.sketch[row, self.start :].double()]
        )
        then = self._clock(facts)
        known = self._added(then)[absorbed]
        left = whole - known.sum(dim=0)
        if isinstance(self.kernel, Attention):
            left[0] = 0.0
        noise = 100 * torch.finfo(self.model.dtype).eps * known.abs().sum(dim=0)
        return self._fade(torch.where(left.abs() > noise, left, 0.0), self.now - then)

    def _fade(self, row: Tensor, elapsed: Tensor) -> Tensor:
        """V as it is `elapsed` [2] later."""
        model, width = self.model, self.kernel.state_width
        counts = 2 * len(model.count_rate)
        recent = torch.exp(-elapsed[1] * model.count_rate).repeat_interleave(2)
        parts = [faded(self.kernel, row[:width], elapsed), row[width : width + counts] * recent]
        if model.sketched:
            kept = torch.exp(-elapsed @ model.sketch_rate).repeat(model.config.sketch_steps)
            parts.append(row[width + counts :] * kept.repeat_interleave(self.start))
        return torch.cat(parts)

    def without(self) -> tuple[PastRows, Tensor]:
        """The node's rows [1 + n] as it is and without each event, and whether [n] they are exact."""
        rows = self.past.repeated(1 + self.size)
        facts, embedding, sketch = rows.facts, rows.embedding, rows.sketch
        exact = torch.ones(self.size, dtype=torch.bool)
        if len(self.messages):
            left = _all_but_one(self.by_event) + self.older
            facts[1:, COUNT] -= self.removed
            for event in {int(self.messages.event[message]) for message in self._latest()}:
                exact[event] = self._recall(facts[1 + event], event, left)
            width, counts = self.kernel.state_width, 2 * len(self.model.count_rate)
            facts[1:, RECENT] = left[:, width : width + counts]
            sketch[1:, self.start :] = left[:, width + counts :].to(sketch)
            read = read_sums(self.kernel, left[:, :width], facts[1:, COUNT].sum(dim=1))
            touched = 1 + (self.removed.sum(dim=1) > 0).nonzero()[:, 0]
            embedding[touched] = finish_read(self.model, read, self.messages.own[-1])[touched - 1]
            embedding[facts[:, COUNT].sum(dim=1) == 0] = 0.0
        return rows, exact

    def _latest(self) -> list[int]:
        """The last message of each role."""
        found = [(self.messages.role == role).nonzero()[:, 0] for role in range(2)]
        return [int(which[-1]) for which in found if len(which)]

    def _recall(self, facts: Tensor, event: int, left: Tensor) -> bool:
        """Set recency, and V with it, without the latest event of a role; False where what came before is forgotten."""
        others, known = self.messages.event != event, True
        for role in range(2):
            mine = (self.messages.role == role) & others
            if facts[COUNT][role] == 0:
                facts[LAST][role], facts[SEEN][role] = -torch.inf, 0.0
            elif self.removed[event, role] and mine.any():
                facts[LAST][role], facts[SEEN][role] = self.time[mine][-1], self.seen[mine][-1]
            elif self.removed[event, role]:
                facts[LAST][role], facts[SEEN][role] = self.time[0], self.seen[0]
                known = False
        if float(facts[COUNT].sum()) == 0:
            return known
        then = self._clock(facts)
        if bool((then < self.now).any()):
            fresh = self._added(then)[others].sum(dim=0)
            left[event] = fresh + self._fade(self.older, then - self.now)
        return known

    def reading(self) -> tuple[Tensor, Tensor, Tensor]:
        """What the last layer reads [d], and the shares in it of the events [n, d] and of older ones [d]."""
        width = self.kernel.state_width
        degree = self.facts[COUNT].sum()
        which = slice(1, -1) if isinstance(self.kernel, Attention) else slice(0, self.kernel.width)
        rows = self.total[:width].repeat(2 + self.size, 1)
        rows[1, which] = self.older[:width][which]
        rows[2:, which] = self.by_event[:, :width][:, which]
        read = read_sums(self.kernel, rows, degree.repeat(len(rows)))
        return read[0], read[2:], read[1]


def _all_but_one(rows: Tensor) -> Tensor:
    """[n, .] the sum of all other rows, without ever subtracting: what is small beside the one left out stays."""
    before = torch.cat([torch.zeros_like(rows[:1]), rows.cumsum(dim=0)[:-1]])
    after = torch.cat([rows.flip(0).cumsum(dim=0).flip(0)[1:], torch.zeros_like(rows[:1])])
    return before + after
