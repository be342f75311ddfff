"""The window: the latest events as the model absorbed them, and what each end told the other in the last layer.

Of every event an excerpt is kept: its time, its place on the clock of events, its columns as they were sent, its
features and, for both ends at that instant,

    embedding [2, d] h_K
    lower [2, d]     h_{K-1}, from which the last layer's messages are made
    walks [2, .]     the sketch without its last step, which fed the partner's sketch
    degree [2]       messages received so far

The memory of a window is taken once: a ring of `size` events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tapgnn.compiled.jit import compiled
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints
from tapgnn.model import Model, Trace
from tapgnn.model.features.node_statistics import COUNT, both_roles
from tapgnn.vocabulary import Id


class Excerpt(NamedTuple):
    """n events, oldest first: ids src, dst [n], time, seen [n], edge [n, f], and of both ends [n, 2, .] the rest.

    cells [n, c] are the columns as they were sent.
    """

    src: NDArray[Any]
    dst: NDArray[Any]
    time: Floats
    seen: Floats
    embedding: NDArray[Any]
    lower: NDArray[Any]
    walks: NDArray[Any]
    degree: NDArray[Any]
    edge: NDArray[Any]
    cells: NDArray[Any]

    def take(self, rows: Any) -> Excerpt:
        """Chosen events, by slice or positions."""
        return Excerpt(*(column[rows] for column in self))

    def followed_by(self, later: Excerpt) -> Excerpt:
        """These events and then others."""
        return Excerpt(*map(np.concatenate, zip(self, later, strict=True)))


class Window:
    """The latest `size` events; `record` is told of every advance of the live state."""

    def __init__(self, model: Model, size: int, names: Sequence[str] = ()) -> None:
        """`names` are the columns whose cells are kept as they were sent."""
        if size < 1:
            raise ConfigError(f"the window must hold at least one event, not {size}")
        config, kind = model.config, np.dtype(str(model.dtype).removeprefix("torch."))
        # How much of a sketch row reaches partners: all but its last step.
        steps = 1 + (config.sketch_steps - 1) * model.sketching.rate.shape[1]
        fed = config.sketch_width * steps if config.sketched else 0
        self.size, self.names = size, tuple(names)
        self._ring = Excerpt(
            src=np.empty(size, object),
            dst=np.empty(size, object),
            time=np.empty(size),
            seen=np.empty(size),
            embedding=np.empty((size, 2, config.width), kind),
            lower=np.empty((size, 2, config.width), kind),
            walks=np.empty((size, 2, fed), kind),
            degree=np.empty((size, 2), kind),
            edge=np.empty((size, config.feature_width), kind),
            cells=np.empty((size, len(self.names)), object),
        )
        # Written to, so that the memory is there from the start and the process does not grow later.
        self.clear()

    @classmethod
    def of(cls, model: Model, events: Events, trace: Trace, names: Sequence[str] = ()) -> Window:
        """The events of one `advance`."""
        window = cls(model, len(events), names)
        window.record(events, trace)
        return window

    def record(self, events: Events, trace: Trace) -> None:
        """Keep the events of the advance that has just been done, and what its trace says of them."""
        late = slice(max(len(events) - self.size, 0), None)
        places = (self.count + np.arange(len(events))[late]) % self.size
        ring, ends = self._ring, _ends(trace)[late]
        statistics, embedding, sketch, *_, lower = (torch.as_tensor(rows).numpy(force=True) for rows in trace.reached)
        for source, target in ((embedding, ring.embedding), (lower, ring.lower), (sketch, ring.walks)):
            _copy_rows(source, ends, places, target)
        ring.degree[places] = both_roles(statistics, COUNT).sum(axis=1)[ends]
        if events.features is not None:
            ring.edge[places] = events.features[late]
        ring.src[places], ring.dst[places] = _names(events, events.src[late]), _names(events, events.dst[late])
        for place, name in enumerate(self.names):
            cells = events.columns.get(name)
            ring.cells[places, place] = None if cells is None else cells[late]
        ring.time[places] = events.time[late]
        # How many events there were up to and including the instant of each.
        seen = np.searchsorted(trace.event_time, trace.event_time[late], side="right")
        ring.seen[places] = trace.events_before + seen
        self.count += len(events)

    def latest_nodes(self, most: int) -> list[Id]:
        """Up to `most` nodes, the most recently active first."""
        order = (self.count - 1 - np.arange(min(self.count, self.size))) % self.size
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
        for column in self._ring:
            column.fill(None if column.dtype == object else np.nan)


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


@compiled
def _copy_rows(source, ends, places, target):  # type: ignore[no-untyped-def]
    """target[place of e, side] = the first columns of source[end of e on that side]."""
    width = target.shape[2]
    for e in range(len(ends)):
        for side in range(2):
            target[places[e], side] = source[ends[e, side], :width]
