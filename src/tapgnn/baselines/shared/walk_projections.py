"""Walk projections: random projections of the temporal walk matrices of a stream (Lu et al., "Improving Temporal Link
Prediction via Temporal Walk Matrix Projection", NeurIPS 2024).

    A_0(t)          = the identity
    A_l(t)[u, v]    = sum of exp(-rate (t - t_1)) ... exp(-rate (t - t_l)) over the walks u -> .. -> v of l events
                      with t > t_1 > t_2 > ... > t_l
    H_l(t)          = A_l(t) P,  P [N, r] with entries from N(0, 1 / r)
    <H_l(t)[u], H_k(t)[v]> is about (A_l(t) A_k(t)^T)[u, v], the walks from both ends that meet

An event between u and v at t lengthens the walks of both ends by one: H_l[u] += H_{l-1}[v] and the reverse, l = 1 .. K.
Events of one instant do not see each other. A row decays by exp(-rate l dt) when it is next touched, so an event costs
O(K r) however many nodes there are; a pair is read by decaying its dot products instead of its rows.

A row of P is a function of the seed and the node. A node that has never been active has zeros, the identity included.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tapgnn.baselines.shared.counter_rng import combine, seed_key, uniform
from tapgnn.baselines.shared.row_table import grown
from tapgnn.compiled.jit import compile_loop
from tapgnn.events import Events, Floats, Ints


class Projections(NamedTuple):
    """H [N, K + 1, r] of every node as of its last event [N], -inf for never."""

    rows: NDArray[np.float32]
    last: Floats


class WalkProjections:
    """The projections of a stream, and what they tell of pairs at their times."""

    def __init__(self, steps: int, width: int, rate: float, seed: int) -> None:
        self.steps, self.rate = steps, rate
        self._key = seed_key(seed)
        self._table = Projections(np.empty((0, steps + 1, width), dtype=np.float32), np.empty(0))

    @property
    def pair_width(self) -> int:
        """How many products a pair has: (l, k) with l >= k of the one end, of the other, and all between the two."""
        size = self.steps + 1
        return size * (size + 1) + size * size

    def replay(self, events: Events, left: Ints, right: Ints, time: Floats) -> NDArray[np.float32]:
        """[Q, pair_width] the products of each pair strictly before its time; absorbs the events."""
        size = int(max(events.src.max(initial=-1), events.dst.max(initial=-1))) + 1
        rows, last = self._table
        self._table = Projections(grown(rows, size), grown(last, size, -np.inf))
        order = np.argsort(time, kind="stable")
        found = np.zeros((len(time), self.pair_width), dtype=np.float32)
        columns = (events.src, events.dst, events.time)
        _replay(columns, (left, right, time), order, found, self._table, self.rate, self._key)
        return found


@compile_loop
def _replay(events: Any, queries: Any, order: Any, found: Any, table: Any, rate: Any, key: Any) -> None:
    src, dst, time = events
    left, right, when = queries
    scale = np.empty((2, table.rows.shape[1]), dtype=np.float64)
    done = 0
    for query in order:
        while done < len(time) and time[done] < when[query]:
            done = _absorb_instant(src, dst, time, done, table, rate, key)
        _read(left[query], right[query], when[query], found[query], table, rate, scale)
    while done < len(time):
        done = _absorb_instant(src, dst, time, done, table, rate, key)


@compile_loop
def _absorb_instant(src: Any, dst: Any, time: Any, first: Any, table: Any, rate: Any, key: Any) -> Any:
    """Absorb all events of the instant that starts at `first`; returns where the next one starts."""
    end = first
    while end < len(time) and time[end] == time[first]:
        _move_to(src[end], time[first], table, rate, key)
        _move_to(dst[end], time[first], table, rate, key)
        end += 1
    # The longest walks first: what they are made of is then still as it was before the instant.
    for step in range(table.rows.shape[1] - 1, 0, -1):
        for event in range(first, end):
            u, v = src[event], dst[event]
            for place in range(table.rows.shape[2]):
                table.rows[u, step, place] += table.rows[v, step - 1, place]
            for place in range(table.rows.shape[2]):
                table.rows[v, step, place] += table.rows[u, step - 1, place]
    return end


@compile_loop
def _move_to(node: Any, time: Any, table: Any, rate: Any, key: Any) -> None:
    """Decay the rows of a node to this time, or begin them."""
    _, steps, width = table.rows.shape
    if table.last[node] == -np.inf:
        own = combine(key, np.uint64(node))
        for place in range(width):
            radius = math.sqrt(-2.0 * math.log(1.0 - uniform(own, 2 * place)) / width)
            table.rows[node, 0, place] = radius * math.cos(2.0 * math.pi * uniform(own, 2 * place + 1))
    else:
        for step in range(1, steps):
            kept = np.float32(math.exp(-rate * step * (time - table.last[node])))
            for place in range(width):
                table.rows[node, step, place] *= kept
    table.last[node] = time


@compile_loop
def _read(left: Any, right: Any, time: Any, found: Any, table: Any, rate: Any, scale: Any) -> None:
    """The products of the left end with itself, of the right one with itself, of the two."""
    steps = table.rows.shape[1]
    known = (_decay(left, time, table, rate, scale[0]), _decay(right, time, table, rate, scale[1]))
    place = 0
    for end in range(2):
        node = left if end == 0 else right
        for a in range(steps):
            for b in range(a + 1):
                if known[end]:
                    found[place] = scale[end, a] * scale[end, b] * _dot(table.rows[node, a], table.rows[node, b])
                place += 1
    for a in range(steps):
        for b in range(steps):
            if known[0] and known[1]:
                found[place] = scale[0, a] * scale[1, b] * _dot(table.rows[left, a], table.rows[right, b])
            place += 1


@compile_loop
def _decay(node: Any, time: Any, table: Any, rate: Any, scale: Any) -> Any:
    """Whether the node was ever active, and if so what its rows [K + 1] are worth at this time."""
    if node < 0 or node >= len(table.last) or table.last[node] == -np.inf:
        return False
    for step in range(len(scale)):
        scale[step] = math.exp(-rate * step * (time - table.last[node]))
    return True


def _dot_rows(left: Any, right: Any) -> Any:
    total = np.float32(0.0)
    for place in range(len(left)):
        total += left[place] * right[place]
    return total


_dot = compile_loop(_dot_rows, {"reassoc", "contract", "nsz"})
