"""The window: the latest events as the model absorbed them, and what each end told the other in the last layer.

Of every event an excerpt is kept: its time, its place on the clock of events, its features and, for both ends at that
instant,

    embedding [2, d] h_K
    lower [2, d]     h_{K-1}, from which the last layer's messages are made
    walks [2, .]     the sketch without its last step, which fed the partner's sketch
    degree [2]       messages received so far

`record_lower` makes a model leave h_{K-1} on its traces. The memory of a window is taken once: a ring of `size` events.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Id
from tapgnn.model import Model, State, Trace
from tapgnn.model.block import Block, Chunk
from tapgnn.model.facts import COUNT


@dataclass
class RecordedTrace(Trace):
    """A trace with h_{K-1} [T, d] of its temporal nodes and the features [E, f] of its events."""

    lower: Tensor = field(default_factory=lambda: torch.empty(0))
    edge: Tensor | None = None


def last_block(model: Model) -> Block:
    """The block whose messages are told apart."""
    return cast(Block, model.blocks[-1])


def record_lower(model: Model) -> Callable[[], None]:
    """Make every `advance` of this model return a `RecordedTrace`; call what comes back to undo it."""
    # Of each thread: a second one may fold the journal once more.
    kept = threading.local()

    def keep(_: Any, arguments: tuple[Tensor, Tensor | None, Chunk, Any]) -> None:
        kept.input = arguments[:3]

    plain, own = model.advance, vars(model)

    def advance(events: Events, state: State, late: Any = "reject") -> tuple[Trace, State]:
        # The compiled form for a few events has no blocks to listen to.
        own["_step"] = lambda size: None
        try:
            trace, following = plain(events, state, late)
        finally:
            del own["_step"]
        table, row, chunk = kept.input
        del kept.input
        lower = (table if row is None else table.index_select(0, row)).detach()
        parts = {part.name: getattr(trace, part.name) for part in fields(Trace)}
        return RecordedTrace(**parts, lower=lower, edge=chunk.edge), following

    hook = last_block(model).register_forward_pre_hook(keep)
    # On the instance: the recurrence stays the model's own, only what it returns is richer.
    setattr(model, "advance", advance)  # noqa: B010

    def undo() -> None:
        hook.remove()
        delattr(model, "advance")

    return undo


@dataclass
class Excerpt:
    """n events, oldest first: ids src, dst [n], time, seen [n], edge [n, f], and of both ends [n, 2, .] the rest."""

    src: NDArray[Any]
    dst: NDArray[Any]
    time: Floats
    seen: Floats
    embedding: Tensor
    lower: Tensor
    walks: Tensor
    degree: Tensor
    edge: Tensor

    def __len__(self) -> int:
        return len(self.time)

    def take(self, rows: NDArray[Any]) -> Excerpt:
        """Chosen events, by mask or positions."""
        where = torch.from_numpy(rows)
        columns = [getattr(self, part.name) for part in fields(self)]
        taken: Any = (column[where] if isinstance(column, Tensor) else column[rows] for column in columns)
        return Excerpt(*taken)

    def touching(self, *nodes: Id) -> Excerpt:
        """The events that have one of these nodes at an end."""
        masks = [side == node for node in nodes for side in (self.src, self.dst)]
        return self.take(np.logical_or.reduce(masks))

    def followed_by(self, later: Excerpt) -> Excerpt:
        """These events and then others."""
        pairs = [(getattr(self, part.name), getattr(later, part.name)) for part in fields(self)]
        joined: Any = (torch.cat(pair) if isinstance(pair[0], Tensor) else np.concatenate(pair) for pair in pairs)
        return Excerpt(*joined)


def excerpt(model: Model, trace: RecordedTrace) -> Excerpt:
    """The events of a trace."""
    view = trace.view
    size = len(trace.event_time)
    end = np.empty((size, 2), dtype=np.int64)
    end[view.event, 1 - view.role] = view.sender
    node = view.nodes[view.owner()[end.reshape(-1)]]
    names = np.empty(2 * size, dtype=object)
    names[:] = list(map(model.vocabulary.ids.__getitem__, node.tolist()))
    ends = torch.from_numpy(end.reshape(-1))
    seen = trace.events_before + np.searchsorted(trace.event_time, trace.event_time, side="right")
    degree = trace.facts[:, COUNT].sum(dim=1)
    return Excerpt(
        names[0::2],
        names[1::2],
        trace.event_time,
        seen.astype(np.float64),
        trace.embedding.index_select(0, ends).reshape(size, 2, -1),
        trace.lower.index_select(0, ends).reshape(size, 2, -1),
        trace.sketch.index_select(0, ends)[:, : _fed_width(model)].reshape(size, 2, -1),
        degree.index_select(0, ends).reshape(size, 2).to(model.dtype),
        trace.embedding.new_zeros(size, 0) if trace.edge is None else trace.edge,
    )


class Window:
    """The latest `size` events; `record` is told of every advance of the live state."""

    def __init__(self, model: Model, size: int) -> None:
        if size < 1:
            raise ConfigError(f"the window must hold at least one event, not {size}")
        self.size, self.count, self._width = size, 0, _fed_width(model)
        kind, width, edge = model.dtype, model.config.width, model.config.edge_features
        # Filled, so that the memory is there from the start and the process does not grow later.
        self._ring = Excerpt(
            np.full(size, None, dtype=object),
            np.full(size, None, dtype=object),
            np.full(size, np.nan),
            np.full(size, np.nan),
            torch.full((size, 2, width), torch.nan, dtype=kind),
            torch.full((size, 2, width), torch.nan, dtype=kind),
            torch.full((size, 2, self._width), torch.nan, dtype=kind),
            torch.full((size, 2), torch.nan, dtype=kind),
            torch.full((size, edge), torch.nan, dtype=kind),
        )

    def __len__(self) -> int:
        return min(self.count, self.size)

    def record(self, model: Model, trace: Trace) -> None:
        """Keep the events of the advance that has just been done."""
        if not isinstance(trace, RecordedTrace) or not len(trace.event_time):
            return
        fresh = excerpt(model, trace)
        done = max(len(fresh) - self.size, 0)
        while done < len(fresh):
            place = (self.count + done) % self.size
            stop = min(done + self.size - place, len(fresh))
            for part in fields(Excerpt):
                getattr(self._ring, part.name)[place : place + stop - done] = getattr(fresh, part.name)[done:stop]
            done = stop
        self.count += len(fresh)

    def latest_nodes(self, most: int) -> list[Id]:
        """Up to `most` nodes, the most recently active first."""
        order = (self.count - 1 - np.arange(len(self))) % self.size
        found: dict[Id, None] = {}
        for place in order:
            found[self._ring.src[place]] = found[self._ring.dst[place]] = None
            if len(found) >= most:
                break
        return list(found)[:most]

    def touching(self, *nodes: Id) -> Excerpt:
        """The events kept that have one of these nodes at an end, oldest first."""
        masks = [side == node for node in nodes for side in (self._ring.src, self._ring.dst)]
        places = np.flatnonzero(np.logical_or.reduce(masks))
        return self._ring.take(places[np.argsort((places - self.count) % self.size)])

    def clear(self) -> None:
        """Forget everything, as a node's erasure asks for."""
        self.count = 0
        self._ring.src.fill(None)
        self._ring.dst.fill(None)
        for part in fields(Excerpt)[2:]:
            getattr(self._ring, part.name)[:] = np.nan


def _fed_width(model: Model) -> int:
    """How much of a sketch row reaches partners: all but its last step."""
    config = model.config
    rates = int(model.sketch_rate.shape[1])
    return config.sketch_width * (1 + (config.sketch_steps - 1) * rates) if model.sketched else 0
