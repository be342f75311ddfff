"""The window: the latest events as the model absorbed them, and what each end told the other in the last layer.

Of every event an excerpt is kept: its time, its place on the clock of events, its features and, for both ends at that
instant,

    embedding [2, d] h_K
    lower [2, d]     h_{K-1}, from which the last layer's messages are made
    walks [2, .]     the sketch without its last step, which fed the partner's sketch
    degree [2]       messages received so far

The memory of a window is taken once: a ring of `size` events.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tapgnn.compiled.jit import compiled
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints
from tapgnn.model import Model, Trace
from tapgnn.model.features.node_statistics import COUNT, both_roles
from tapgnn.vocabulary import Id


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


def excerpt(model: Model, events: Events, trace: Trace) -> Excerpt:
    """What was absorbed in one `advance`: its events, in order of time, and its trace."""
    size, ends = len(events), torch.from_numpy(_ends(trace).reshape(-1))
    statistics, embedding, sketch, *_, lower = map(torch.as_tensor, trace.reached)
    walks = sketch[:, : _fed_width(model)]
    degree = both_roles(statistics, COUNT).sum(dim=1).to(model.dtype)
    both = (table.index_select(0, ends).reshape(size, 2, -1) for table in (embedding, lower, walks))
    edge = embedding.new_zeros(size, 0) if events.features is None else torch.from_numpy(events.features)
    embedding, lower, fed = both
    return Excerpt(
        _names(events, events.src),
        _names(events, events.dst),
        events.time,
        _seen(trace),
        embedding,
        lower,
        fed,
        degree.index_select(0, ends).reshape(size, 2),
        edge.to(model.dtype),
    )


def _ends(trace: Trace) -> Ints:
    """[E, 2] the temporal nodes at the ends of each event."""
    view = trace.view
    end = np.empty((len(trace.event_time), 2), dtype=np.int64)
    end[view.event, 1 - view.role] = view.sender
    return end


def _names(events: Events, rows: Ints) -> NDArray[Any]:
    names = np.empty(len(rows), dtype=object)
    names[:] = list(map(events.vocabulary.ids.__getitem__, rows.tolist()))
    return names


def _seen(trace: Trace) -> Floats:
    """[E] how many events there were up to and including the instant of each."""
    before = np.searchsorted(trace.event_time, trace.event_time, side="right")
    return (trace.events_before + before).astype(np.float64)


@compiled
def _copy_rows(source, ends, places, target):  # type: ignore[no-untyped-def]
    """target[place of e, side] = the first columns of source[end of e on that side]."""
    width = target.shape[2]
    for e in range(len(ends)):
        for side in range(2):
            target[places[e], side] = source[ends[e, side], :width]


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

    def record(self, events: Events, trace: Trace) -> None:
        """Keep the events of the advance that has just been done, and what its trace says of them."""
        late = slice(max(len(events) - self.size, 0), None)
        places = (self.count + np.arange(len(events))[late]) % self.size
        ring, ends = self._ring, _ends(trace)[late]
        statistics, embedding, sketch, *_, lower = (torch.as_tensor(rows).numpy(force=True) for rows in trace.reached)
        for source, target in ((embedding, ring.embedding), (lower, ring.lower), (sketch, ring.walks)):
            _copy_rows(source, ends, places, target.numpy())
        ring.degree.numpy()[places] = both_roles(statistics, COUNT).sum(axis=1)[ends]
        if events.features is not None:
            ring.edge.numpy()[places] = events.features[late]
        ring.src[places], ring.dst[places] = _names(events, events.src[late]), _names(events, events.dst[late])
        ring.time[places], ring.seen[places] = events.time[late], _seen(trace)[late]
        self.count += len(events)

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
    width, steps, rate = model.sketching
    return int(width * (1 + (steps - 1) * rate.shape[1])) if model.config.sketched else 0
