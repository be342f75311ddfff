"""The state: what a model remembers of every node, as a fold over the events absorbed so far.

Four arenas with one row a node; row 0 is the node that nobody knows, with no history, and node v has row v + 1.

    sums       [N, .] float64   per layer, what the kernel carries
    facts      [N, F] float64   recency and counts (model/features/node_statistics.py)
    embedding  [N, d]           h_K at the node's latest instant
    sketch     [N, .]           walk sketches (model/features/walk_sketch.py)

`advance` consumes a state and returns the next one, which takes over the arenas: rows of active nodes are written in
place, so the cost does not depend on the number of nodes. A consumed state refuses to be used; `copy` keeps one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.row_lookup import Rows, put_rows, take_rows
from tapgnn.errors import QueryError, StateError
from tapgnn.events import Bools, Floats, Ints
from tapgnn.model.features.node_statistics import LAST, find_active
from tapgnn.model.features.walk_sketch import sign_vectors
from tapgnn.vocabulary import Vocabulary

ARENAS = ("sums", "facts", "embedding", "sketch")


@dataclass
class Past:
    """What is known of nodes strictly before the times of some queries: one row a query.

    node [Q] (-1: unknown), time [Q], seen [Q] events of the graph before the time, and the rows of three arenas; the
    long ones, of embeddings and sketches, are found but not copied, and so are good only until the next `advance`.
    """

    node: Tensor
    time: Tensor
    seen: Tensor
    facts: Tensor
    embedding: Rows
    sketch: Rows

    def __len__(self) -> int:
        return len(self.node)


Tables = tuple[Tensor, Tensor, Tensor]


class Known(Protocol):
    """A state or a trace: what can be asked."""

    def tables(self) -> tuple[Tables, ...]:
        """Here, carried and arena of facts, embedding and sketch."""

    def table_arrays(self) -> tuple[tuple[Any, ...], ...]:
        """The same as arrays."""


@dataclass(frozen=True)
class Places:
    """Where the rows of some queries stand, as in `Rows`; for facts, embedding and sketch the same place and row.

    node, place, row, time, seen [Q] (arrays); `owner` has the tables: here, carried and arena of each of the three.
    """

    node: Ints
    place: Ints
    row: Ints
    time: Floats
    seen: Floats
    owner: Known

    def active(self) -> Bools:
        """[Q] whether the node has a history."""
        here, carried, arena = self.owner.tables()[0]
        if arena.device.type != "cpu":
            return self.plain_active()
        found = np.empty(len(self.place), dtype=np.bool_)
        find_active(self.place, self.row, here.numpy(), carried.numpy(), arena.numpy(), found)
        return found

    def plain_active(self) -> Bools:
        """`active` in plain torch."""
        never = self.past().facts[:, LAST].amax(dim=1).isinf()
        return ~never.numpy(force=True)

    def take(self, chosen: Bools) -> Places:
        """Those of the queries that are chosen [Q]."""
        index = np.flatnonzero(chosen)
        node, place, row = self.node[index], self.place[index], self.row[index]
        return Places(node, place, row, self.time[index], self.seen[index], self.owner)

    def past(self) -> Past:
        """The rows themselves."""
        tables = self.owner.tables()
        device = tables[0][2].device
        columns = (self.node, self.time, self.seen, self.place, self.row)
        node, time, seen, place, row = (torch.from_numpy(column).to(device) for column in columns)
        facts, embedding, sketch = (Rows(place, row, *table) for table in tables)
        return Past(node, time, seen, facts.tensor(), embedding, sketch)


@dataclass
class State:
    """See the module; made by `Model.empty_state`.

    clock is the time of the latest instant absorbed (-inf for none), events their number, size the number of nodes that
    have a row, sketch_width the length of the random vector at the start of a sketch row.
    """

    sums: Tensor
    facts: Tensor
    embedding: Tensor
    sketch: Tensor
    sketch_width: int
    clock: float = -np.inf
    events: int = 0
    size: int = 0
    consumed: bool = False
    views: tuple[Any, ...] | None = field(default=None, repr=False, compare=False)

    def copy(self) -> State:
        """An independent state with the same contents."""
        self.check_usable()
        return replace(self, views=None, **{name: getattr(self, name).clone() for name in ARENAS})

    def admit(self, vocabulary: Vocabulary) -> None:
        """Give a fresh row to every node of the vocabulary that has none; arenas double when they are full."""
        if self.size > len(vocabulary):
            raise StateError(
                f"the state holds {self.size} nodes, the vocabulary {len(vocabulary)}: it belongs to another vocabulary"
            )
        if self.size == len(vocabulary):
            return
        rows = 1 + len(vocabulary)
        if rows > len(self.facts):
            capacity = max(rows, 2 * len(self.facts))
            self.views = None
            for name in ARENAS:
                arena = getattr(self, name)
                grown = arena.new_empty(capacity, arena.shape[1])
                grown[: 1 + self.size] = arena[: 1 + self.size]
                setattr(self, name, grown)
        fresh = slice(1 + self.size, rows)
        for name in ARENAS:
            arena = getattr(self, name)
            arena[fresh] = arena[0]
        if self.sketch_width:
            signs = sign_vectors(vocabulary.hashes(self.size), self.sketch_width)
            self.sketch[fresh, : self.sketch_width] = torch.from_numpy(signs).to(self.sketch)
        self.size = len(vocabulary)

    def rows(self, node: Ints) -> Ints:
        """The arena row of each node; one that is unknown or not admitted has row 0."""
        return np.where((node >= 0) & (node < self.size), node + 1, 0)

    def take(self, node: Tensor) -> list[Tensor]:
        """The rows of some nodes in each of the ARENAS, copied."""
        arenas = [getattr(self, name) for name in ARENAS]
        if self.facts.device.type != "cpu":
            return [arena.index_select(0, node + 1) for arena in arenas]
        found = [arena.new_empty(len(node), arena.shape[1]) for arena in arenas]
        for arena, out in zip(self.arrays(), found, strict=True):
            take_rows(node.numpy(), arena, out.numpy())
        return found

    def write(self, node: Tensor, last: Tensor, sums: list[Tensor], *reached: Tensor) -> None:
        """Replace the rows of some nodes: by sums [C, .] side by side, and by row last [C] of each of three tables."""
        arenas = [getattr(self, name) for name in ARENAS]
        if self.facts.device.type != "cpu":
            rows = [torch.cat(sums, dim=1), *(table.detach().index_select(0, last) for table in reached)]
            for arena, values in zip(arenas, rows, strict=True):
                arena.index_copy_(0, node + 1, values.detach().to(arena.dtype))
            return
        to, start = node.numpy(), 0
        for part in sums:
            put_rows(to, np.arange(len(to)), part.detach().contiguous().numpy(), start, self.arrays()[0])
            start += part.shape[1]
        for arena, table in zip(self.arrays()[1:], reached, strict=True):
            put_rows(to, last.numpy(), table.detach().contiguous().numpy(), 0, arena)

    def past(self, node: Tensor, time: Tensor) -> Past:
        """What this state knows of (node, time); the time must lie after the clock."""
        return self.find(node.numpy(force=True), time.numpy(force=True)).past()

    def find(self, node: Ints, time: Floats) -> Places:
        """Where (node, time) is known; the time must lie after the clock."""
        self.check_usable()
        check_after(self.clock, time)
        nowhere = np.full(len(node), -1)
        seen = np.full(len(node), float(self.events))
        return Places(node, nowhere, self.rows(node), time, seen, self)

    def tables(self) -> tuple[Tables, ...]:
        """See `Known`."""
        return tuple((arena[:0], arena[:0], arena) for arena in (self.facts, self.embedding, self.sketch))

    def table_arrays(self) -> tuple[tuple[Any, ...], ...]:
        """See `Known`; with no row of their own, arrays of a chunk may be any."""
        return tuple((arena, arena, arena) for arena in self.arrays()[1:])

    def arrays(self) -> tuple[Any, ...]:
        """The arenas as arrays, in the order of ARENAS; the same memory."""
        if self.views is None:
            self.views = tuple(getattr(self, name).numpy() for name in ARENAS)
        return self.views

    def consume(self) -> State:
        """Hand the arenas over to a new state; this one can no longer be used.

        Gradients that still need the rows it held are refused: torch sees that they were written to.
        """
        self.check_usable()
        torch.autograd.graph.increment_version(self.embedding)
        successor = replace(self)
        self.consumed = True
        return successor

    def check_usable(self) -> None:
        """Refuse to go on with a state that was consumed."""
        if self.consumed:
            raise StateError("this state was advanced; use the state that advance returned, or advance a copy of it")

    def widths(self) -> tuple[int, ...]:
        """How many numbers a node has in each of the ARENAS."""
        return self.sums.shape[1], self.facts.shape[1], self.embedding.shape[1], self.sketch.shape[1]

    def check_widths(self, widths: tuple[int, ...]) -> None:
        """Refuse a state of a model of another shape: compiled code would reach beyond its rows."""
        if self.widths() != widths:
            raise StateError(
                f"the state has rows of {self.widths()} numbers, the model of {widths}: it belongs to another model; "
                "start from this model's empty_state()"
            )


def check_after(clock: float, time: Floats) -> None:
    """Refuse queries at or before the clock: what is known may hold events that they must not see."""
    late = ~(time > clock)
    if late.any():
        first = int(late.argmax())
        raise QueryError(
            f"query {first} asks for time {float(time[first])}, but events up to {clock} are already absorbed; ask for "
            "a later time, or replay the log up to the time you need"
        )
