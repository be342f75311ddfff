"""Neighbourhoods: what a network of several layers computes for (v, t), without computing anything twice.

Layer l of (v, t) reads layer l - 1 of v itself and of its sampled neighbours before t. A neighbour (u, t'), met at t',
is read as it was at that event (`moment="event"`), or as it is at the time of the query (`moment="query"`). From the
top down this gives one frontier per layer: the distinct (node, time) that it computes, each once however many queries
or neighbours need it. With `moment="event"`, n^layers becomes at most two ends per event plus the queries themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tapgnn.baselines.shared.adjacency import Neighbours
from tapgnn.events import Floats, Ints

Moment = Literal["event", "query"]
Sample = Callable[[Ints, Floats, int], Neighbours]


@dataclass(frozen=True)
class Frontier:
    """The distinct (node, time) [R] that one layer computes, and where in the layer below its inputs lie.

    own [R], index [R, n]   rows of the layer below, -1 for padding
    met                     the neighbours themselves, with their times and events
    """

    node: Ints
    time: Floats
    own: Ints
    index: Ints
    met: Neighbours


def frontiers(sample: Sample, node: Ints, time: Floats, layers: int, moment: Moment) -> tuple[Ints, list[Frontier]]:
    """The distinct nodes at the bottom, and the frontier of every layer above them, the first layer first.

    `sample(node, time, depth)` gives the neighbours; the depth counts from 0 at the top layer.
    """
    found: list[Frontier] = []
    for depth in range(layers):
        met = sample(node, time, depth)
        here = met.mask
        seen_at = met.time[here] if moment == "event" else np.repeat(time, here.sum(axis=1))
        # Below the first layer a node is the same at all times.
        times = np.concatenate([time, seen_at]) if depth < layers - 1 else np.zeros(len(time) + len(seen_at))
        rows, place = distinct(np.concatenate([node, met.node[here]]), times)
        index = np.full(met.node.shape, -1, dtype=np.int64)
        index[here] = place[len(node) :]
        found.insert(0, Frontier(node, time, place[: len(node)], index, met))
        node, time = rows
    return node, found


def distinct(node: Ints, time: Floats) -> tuple[tuple[Ints, Floats], Ints]:
    """The distinct (node, time) pairs, and the place [Q] of each pair among them.

    >>> distinct(np.array([4, -1, 4]), np.array([2.0, 2.0, 2.0]))
    ((array([-1,  4]), array([2., 2.])), array([1, 0, 1]))
    """
    instants, instant = np.unique(time, return_inverse=True)
    size = max(len(instants), 1)
    keys, place = np.unique((node + 1) * size + instant, return_inverse=True)
    return (keys // size - 1, instants[keys % size]), place
