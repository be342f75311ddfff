"""Neighbourhoods: what a network of several layers needs to know about (v, t), with nothing in it twice.

Layer l of (v, t) reads layer l - 1 of v itself and of its n latest neighbours before t. Below it a neighbour (u, t'),
met at t', is read as it was at that event (`moment="event"`), or at the time of the question (`moment="question"`).
Top down this gives one frontier a layer: the distinct (node, time) that it computes, each once however many questions
or neighbours need it. n^layers becomes at most two ends per event and the questions themselves, where the moment is
the event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.events import Floats, Ints

Moment = Literal["event", "question"]


@dataclass(frozen=True)
class Frontier:
    """The distinct (node, time) [R] that one layer computes, and where in the layer below its inputs lie.

    own [R], index [R, n]   rows of the layer below, -1 for no neighbour
    event, when [R, n]      the events that join them, -1 for none, and their times
    """

    node: Ints
    time: Floats
    own: Ints
    index: Ints
    event: Ints
    when: Floats


def frontiers(
    graph: Adjacency, node: Ints, time: Floats, layers: int, count: int, moment: Moment
) -> tuple[Ints, list[Frontier]]:
    """The distinct nodes at the bottom, and the frontier of every layer above them, the first layer first."""
    found: list[Frontier] = []
    for layer in range(layers, 0, -1):
        met = graph.latest(node, time, count)
        here = met.mask
        seen_at = met.time[here] if moment == "event" else np.repeat(time, here.sum(axis=1))
        # Below the first layer a node is the same at all times.
        times = np.concatenate([time, seen_at]) if layer > 1 else np.zeros(len(time) + len(seen_at))
        rows, place = distinct(np.concatenate([node, met.node[here]]), times)
        index = np.full(met.node.shape, -1, dtype=np.int64)
        index[here] = place[len(node) :]
        found.insert(0, Frontier(node, time, place[: len(node)], index, met.event, met.time))
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
