"""The state: what a model remembers of every node, as a fold over the events absorbed so far.

Five arenas with one row a node; row 0 is the node that nobody knows, with no history, and node v has row v + 1.

    sums        [N, .]           per layer, what the kernel carries
    statistics  [N, F] float64   recency and counts (features/node_statistics.py)
    embedding   [N, d]           h_K at the node's latest instant
    sketch      [N, .]           walk sketches (features/walk_sketch.py)
    partners    [N, .] float64   recent partners (features/recent_partners.py)

`advance` consumes a state and returns the next one, which takes over the arenas: rows of active nodes are written in
place, so the cost does not depend on the number of nodes. A consumed state refuses to be used; `copy` keeps one.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.jit import whole
from tapgnn.compiled.row_lookup import Rows
from tapgnn.errors import QueryError, StateError
from tapgnn.events import Bools, Floats, Ints
from tapgnn.model.features.recent_partners import partner_keys
from tapgnn.model.features.walk_sketch import sign_vectors
from tapgnn.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tapgnn.model.trace import Trace

ARENAS = ("sums", "statistics", "embedding", "sketch", "partners")

# Here, carried and arena, as in `Rows`, of all ARENAS but the sums.
Tables = tuple[tuple[Any, Any, Any], ...]


class QueryInputs(NamedTuple):
    """Queries with what is known of their nodes, as tensors or arrays: node, time and events seen [Q], and `Rows`."""

    node: Any
    time: Any
    seen: Any
    statistics: Rows
    embedding: Rows
    sketch: Rows
    partners: Rows


@dataclass(slots=True)
class Past:
    """What is known of nodes strictly before the times of some queries, found but not copied.

    node [Q] (-1: unknown), time [Q], seen [Q] events of the graph before the time; place and row [Q] say where the rows
    stand in the tables of the owner, as in `Rows`. Good until the next `advance`.
    """

    node: Ints
    place: Ints
    row: Ints
    time: Floats
    seen: Floats
    owner: State | Trace

    def __len__(self) -> int:
        return len(self.node)

    def take(self, chosen: Bools) -> Past:
        """Those of the queries that are chosen [Q]."""
        index = np.flatnonzero(chosen)
        node, place, row = self.node[index], self.place[index], self.row[index]
        return Past(node, place, row, self.time[index], self.seen[index], self.owner)

    def tensors(self) -> QueryInputs:
        """The queries for a program on tensors, on the device of their rows."""
        tables = self.owner.tables()
        columns = (self.node, self.time, self.seen, self.place, self.row)
        node, time, seen, place, row = (torch.from_numpy(column).to(tables[0][2].device) for column in columns)
        return QueryInputs(node, time, seen, *(Rows(place, row, *table) for table in tables))

    def arrays(self) -> QueryInputs:
        """The same for a program on arrays."""
        rows = [Rows(self.place, self.row, *table) for table in self.owner.table_arrays()]
        return QueryInputs(self.node, self.time, self.seen, *rows)


@dataclass
class State:
    """See the module; made by `Model.empty_state`.

    clock is the time of the latest instant absorbed (-inf for none), events their number, size the number of nodes that
    have a row, sketch_width the length of the random vector at the start of a sketch row.
    """

    sums: Tensor
    statistics: Tensor
    embedding: Tensor
    sketch: Tensor
    partners: Tensor
    sketch_width: int
    clock: float = -np.inf
    events: int = 0
    size: int = 0
    consumed: bool = False
    views: tuple[Any, ...] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        # How many numbers a node has in each of the ARENAS.
        self.widths = tuple(getattr(self, name).shape[1] for name in ARENAS)

    def copy(self) -> State:
        """An independent state with the same contents."""
        self.check_usable()
        twin = copy.copy(self)
        twin.views = None
        for name in ARENAS:
            setattr(twin, name, getattr(self, name).clone())
        return twin

    def admit(self, vocabulary: Vocabulary) -> None:
        """Give a fresh row to every node of the vocabulary that has none; arenas double when they are full."""
        if self.size > len(vocabulary):
            raise StateError(
                f"the state holds {self.size} nodes, the vocabulary {len(vocabulary)}: it belongs to another vocabulary"
            )
        if self.size == len(vocabulary):
            return
        first = self.size
        self.reserve(len(vocabulary))
        fresh = slice(1 + first, 1 + self.size)
        self.blank(fresh)
        if self.partners.shape[1]:
            self.partners[fresh, 0] = torch.from_numpy(partner_keys(vocabulary.hashes(first))).to(self.partners)
        if self.sketch_width:
            signs = sign_vectors(vocabulary.hashes(first), self.sketch_width)
            self.sketch[fresh, : self.sketch_width] = torch.from_numpy(signs).to(self.sketch)

    def reserve(self, size: int) -> None:
        """Give rows to so many nodes without writing anything into the new ones; that is the caller's to do."""
        if 1 + size > len(self.statistics):
            capacity = max(1 + size, 2 * len(self.statistics))
            self.views = None
            for name in ARENAS:
                arena = getattr(self, name)
                grown = arena.new_empty(capacity, arena.shape[1])
                grown[: 1 + self.size] = arena[: 1 + self.size]
                setattr(self, name, grown)
        self.size = size

    def blank(self, rows: slice | Ints) -> None:
        """Make arena rows those of a node that nobody knows."""
        for name in ARENAS:
            arena = getattr(self, name)
            arena[rows] = arena[0].clone()

    def rows(self, node: Ints) -> Ints:
        """The arena row of each node; one that is unknown or not admitted has row 0."""
        return np.where((node >= 0) & (node < self.size), node + 1, 0)

    def past(self, node: Ints, time: Floats) -> Past:
        """What this state knows of (node, time); the time must lie after the clock."""
        place, row, seen = self.find(node, time, self.clock)
        return Past(node, place, row, time, seen, self)

    def find(self, node: Ints, time: Floats, clock: float) -> tuple[Ints, Ints, Floats]:
        """The place (none), arena row, and events seen [Q] of queries.

        Those at or before the clock are refused: what is known may hold events that they must not see.
        """
        self.check_usable()
        late, place, row, seen = _find(node, time, clock, self.size, float(self.events))
        if late >= 0:
            raise QueryError(
                f"query {late} asks for time {float(time[late])}, but events up to {clock} are already absorbed; ask "
                "for a later time, or replay the log up to the time you need"
            )
        return place, row, seen

    def tables(self) -> Tables:
        """The rows that can be asked for, as tensors."""
        return tuple((arena[:0], arena[:0], arena) for arena in self.arenas())

    def table_arrays(self) -> Tables:
        """The same as arrays; those of a chunk, of which no row is asked for, may be any."""
        _, statistics, embedding, sketch, partners = self.arrays()
        return (statistics,) * 3, (embedding,) * 3, (sketch,) * 3, (partners,) * 3

    def arenas(self) -> tuple[Tensor, ...]:
        """All of them but the sums."""
        return self.statistics, self.embedding, self.sketch, self.partners

    def arrays(self) -> tuple[Any, ...]:
        """The arenas as arrays, in the order of ARENAS; the same memory."""
        if self.views is None:
            self.views = tuple(getattr(self, name).numpy() for name in ARENAS)
        return self.views

    def consume(self) -> State:
        """Hand the arenas over to a new state; this one can no longer be used."""
        self.check_usable()
        successor = State.__new__(State)
        successor.__dict__.update(self.__dict__)
        self.consumed = True
        return successor

    def check_usable(self) -> None:
        """Refuse to go on with a state that was consumed."""
        if self.consumed:
            raise StateError("this state was advanced; use the state that advance returned, or advance a copy of it")

    def check_widths(self, widths: tuple[int, ...]) -> None:
        """Refuse a state of a model of another shape: compiled code would reach beyond its rows."""
        if self.widths != widths:
            raise StateError(
                f"the state has rows of {self.widths} numbers, the model of {widths}: it belongs to another model; "
                "start from this model's empty_state()"
            )


@whole
def _find(node: Any, time: Any, clock: Any, size: Any, events: Any) -> Any:
    """The first query that is too late (-1: none), and of each [Q] its place (none), arena row, and events seen."""
    late, place, row, seen = -1, np.empty_like(node), np.empty_like(node), np.empty(len(node))
    for q in range(len(node)):
        place[q], row[q], seen[q] = -1, node[q] + 1 if 0 <= node[q] < size else 0, events
        if late < 0 and not time[q] > clock:
            late = q
    return late, place, row, seen
