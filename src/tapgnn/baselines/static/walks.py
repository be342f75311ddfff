"""Walks: along events that follow each other in time, and along the static graph that remains without time.

    temporal        from (v, t) to a uniform choice among the events of v strictly after t, and so on with its partner
                    and its time; events of one instant never follow each other
    second order    from v, reached from w, to a neighbour x of v with probability proportional to
                    bias(w, x) = 1/p if x = w, 1 if x and w are neighbours, 1/q otherwise; the first step is uniform

A static step draws uniformly and is accepted with probability bias / max bias, which gives exactly the above without a
table for every pair of nodes. A walk is a function of the seed and of its row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.baselines.shared.counter_rng import combine, random_below, seed_key, uniform
from tapgnn.compiled.jit import compile_loop
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints


@dataclass(frozen=True)
class StaticGraph:
    """The undirected static graph of a log: partner[border[v] : border[v + 1]] are the neighbours of v, ascending.

    A self-loop makes a node its own neighbour.
    """

    border: Ints
    partner: Ints

    @classmethod
    def from_events(cls, events: Events) -> StaticGraph:
        """Drop the times, directions and repetitions of a log."""
        nodes = int(max(events.src.max(initial=-1), events.dst.max(initial=-1))) + 1
        pairs = np.unique(np.concatenate([events.src * nodes + events.dst, events.dst * nodes + events.src]))
        return cls(np.searchsorted(pairs, np.arange(nodes + 1) * nodes), pairs % max(nodes, 1))

    def __len__(self) -> int:
        return len(self.border) - 1

    def nodes(self) -> Ints:
        """The nodes that have a neighbour, ascending."""
        return np.flatnonzero(np.diff(self.border))


def temporal_walks(graph: Adjacency, nodes: Ints, times: Floats, length: int, seed: int) -> Ints:
    """[W, length] the nodes after each start (v, t), -1 after the end of a walk."""
    walks = np.full((len(nodes), length), -1, dtype=np.int64)
    starts = np.ascontiguousarray(nodes, dtype=np.int64), np.ascontiguousarray(times, dtype=np.float64)
    _walk_in_time(*starts, seed_key(seed), walks, graph.arena)
    return walks


def second_order_walks(graph: StaticGraph, starts: Ints, length: int, p: float, q: float, seed: int) -> Ints:
    """[W, length] the nodes of a walk from each start, itself first; -1 where a start has no neighbours."""
    if not (p > 0 and q > 0):
        raise ConfigError(f"p and q must be positive, not {p} and {q}")
    walks = np.full((len(starts), length), -1, dtype=np.int64)
    walks[:, 0] = starts
    _walk_by_bias(walks, 1.0 / p, 1.0 / q, seed_key(seed), graph.border, graph.partner)
    return walks


@compile_loop
def _walk_in_time(nodes: Any, times: Any, key: Any, walks: Any, arena: Any) -> None:
    for row in range(len(nodes)):
        own = combine(key, np.uint64(row))
        place, now = nodes[row], times[row]
        for step in range(walks.shape[1]):
            if place < 0 or place >= len(arena.start):
                break
            first, size = arena.start[place], arena.length[place]
            past = np.searchsorted(arena.time[first : first + size], now, side="right")
            if past == size:
                break
            pick = first + past + random_below(own, step, size - past)
            place, now = arena.node[pick], arena.time[pick]
            walks[row, step] = place


@compile_loop
def _adjacent(first: Any, second: Any, border: Any, partner: Any) -> Any:
    low, high = border[first], border[first + 1]
    found = low + np.searchsorted(partner[low:high], second)
    return found < high and partner[found] == second


@compile_loop
def _walk_by_bias(walks: Any, back: Any, away: Any, key: Any, border: Any, partner: Any) -> None:
    highest = max(1.0, back, away)
    for row in range(len(walks)):
        own = combine(key, np.uint64(row))
        counter = 0
        for step in range(1, walks.shape[1]):
            place = walks[row, step - 1]
            first, size = border[place], border[place + 1] - border[place]
            if size == 0:
                break
            while True:
                chosen = partner[first + random_below(own, counter, size)]
                threshold = uniform(own, counter + 1) * highest
                counter += 2
                if step == 1:
                    break
                previous = walks[row, step - 2]
                if chosen == previous:
                    bias = back
                elif _adjacent(previous, chosen, border, partner):
                    bias = 1.0
                else:
                    bias = away
                if threshold < bias:
                    break
            walks[row, step] = chosen
