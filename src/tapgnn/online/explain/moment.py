"""A moment: what is known of two nodes just before an instant, copied, so that a score can still be explained later.

Of each node the row that a query gets, and the row of the state behind it, which holds the sums of the last layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tapgnn.compiled.row_lookup import rows_of
from tapgnn.events import Floats, Ints
from tapgnn.model import Model, State, Trace
from tapgnn.model.state import QueryInputs
from tapgnn.online.explain.event_window import Excerpt, Window
from tapgnn.vocabulary import Id

MOST_EVENTS = 512


class CopiedRows(NamedTuple):
    """What is known of a node at some queries, as copies that can be changed."""

    node: Tensor
    time: Tensor
    seen: Tensor
    statistics: Tensor
    embedding: Tensor
    sketch: Tensor
    partners: Tensor

    @classmethod
    def of(cls, model: Model, where: State | Trace, nodes: Ints, times: Floats) -> CopiedRows:
        """Of each node at its time."""
        seen = model.past(where, nodes, times).seen
        return cls(*map(torch.from_numpy, (nodes, times, seen)), *model.recall(where, nodes, times))

    def take(self, query: int) -> CopiedRows:
        """One of the queries."""
        return CopiedRows(*(column[query : query + 1] for column in self))

    def repeated(self, count: int) -> CopiedRows:
        """The same query `count` times."""
        return CopiedRows(*(column.repeat_interleave(count, dim=0) for column in self))

    def with_right(self, right: CopiedRows) -> QueryInputs:
        """Queries of the left ends and then those of the right ends."""
        node, time, seen, *tables = map(torch.cat, zip(self, right, strict=True))
        return QueryInputs(node, time, seen, *map(rows_of, tables))


class StateRows(NamedTuple):
    """Rows [n, .] of a state that holds so many events, copied: sums, statistics and sketch of some nodes."""

    events: int
    sums: Tensor
    statistics: Tensor
    sketch: Tensor

    @classmethod
    def of(cls, state: State, events: int, nodes: Ints) -> StateRows:
        """Of some nodes; `events` are those that the rows of the state hold."""
        rows = torch.from_numpy(state.rows(nodes))
        return cls(events, *(arena[rows] for arena in (state.sums, state.statistics, state.sketch)))

    def take(self, rows: Sequence[int]) -> StateRows:
        """Some of the rows."""
        return StateRows(self.events, *(arena[list(rows)] for arena in self[1:]))


class Moment(NamedTuple):
    """Just before an event src -> dst, with these features [1, f] where the model takes any."""

    src: Id
    dst: Id
    ends: tuple[CopiedRows, CopiedRows]
    state: StateRows
    features: NDArray[np.float32] | None = None

    @classmethod
    def of(
        cls,
        model: Model,
        where: State | Trace,
        src: Id,
        dst: Id,
        time: float,
        features: NDArray[np.float32] | None = None,
    ) -> Moment:
        """At a time after all events so far, of which the state of a trace does not hold those of the trace."""
        nodes = model.vocabulary.rows([src, dst])
        known = CopiedRows.of(model, where, nodes, np.full(2, time))
        state, events = (where.successor, where.events_before) if isinstance(where, Trace) else (where, where.events)
        return cls(src, dst, (known.take(0), known.take(1)), StateRows.of(state, events, nodes), features)

    @property
    def time(self) -> float:
        """The time of the event."""
        return float(self.ends[0].time[0])

    def history(self, *windows: Window) -> Excerpt:
        """The past events of both nodes that these windows hold, one after the other."""
        found = reduce(Excerpt.followed_by, [window.touching(self.src, self.dst) for window in windows])
        return found.take(np.flatnonzero(found.seen <= float(self.ends[0].seen[0]))[-MOST_EVENTS:])
