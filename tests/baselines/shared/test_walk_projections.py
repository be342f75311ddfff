"""Walk projections: the products are those of the walk matrices by their definition, whatever the cut of the stream."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tapgnn.baselines.shared.walk_projections import WalkProjections
from tapgnn.events import Events, Floats, Ints

NODES, STEPS, WIDTH, RATE = 6, 3, 5, 0.1


def random_log(size: int = 40, seed: int = 0) -> Events:
    """Ties, repeats and self-loops."""
    rng = np.random.default_rng(seed)
    time = np.cumsum(rng.choice([0.0, 0.5, 2.0], size))
    return Events(rng.integers(NODES, size=size), rng.integers(NODES, size=size), time)


def queries(log: Events) -> tuple[Ints, Ints, Floats]:
    """All pairs at several times, some of them instants of events; rows that never occur among them; not in order."""
    nodes = np.array([*range(NODES), -1, NODES + 4])
    left, right, time = (grid.ravel() for grid in np.meshgrid(nodes, nodes, [*log.time[[0, 9, 25]], log.time[-1] + 1]))
    order = np.random.default_rng(1).permutation(len(left))
    return left[order], right[order], time[order]


def walk_matrices(log: Events, time: float) -> list[Floats]:
    """A_0 .. A_K at this time, walk by walk: from each node back along ever earlier events."""
    matrices = [np.eye(NODES), *(np.zeros((NODES, NODES)) for _ in range(STEPS))]

    def extend(start: int, node: int, before: float, weight: float, length: int) -> None:
        for u, v, when in zip(log.src.tolist(), log.dst.tolist(), log.time.tolist(), strict=True):
            if when >= before:
                break
            for here, there in ((u, v), (v, u)):
                if here == node:
                    longer = weight * np.exp(-RATE * (time - when))
                    matrices[length][start, there] += longer
                    if length < STEPS:
                        extend(start, there, when, longer, length + 1)

    for node in range(NODES):
        extend(node, node, time, 1.0, 1)
    return matrices


def products(rows: list[Floats], left: int, right: int) -> list[float]:
    """The products of one pair, in the order of `pair_width`; rows [K + 1] are [N, r] each."""
    steps = range(STEPS + 1)
    own = [float(rows[a][node] @ rows[b][node]) for node in (left, right) for a in steps for b in range(a + 1)]
    return own + [float(rows[a][left] @ rows[b][right]) for a in steps for b in steps]


def start(log: Events) -> NDArray[np.float32]:
    """P [N, r], read from a stream in which every node has been active."""
    walks = WalkProjections(STEPS, WIDTH, RATE, seed=3)
    nothing = np.empty(0, dtype=np.int64)
    walks.replay(log, nothing, nothing, np.empty(0))
    return walks._table.rows[:NODES, 0]


def test_the_products_are_those_of_the_walk_matrices_strictly_before_the_query() -> None:
    log = random_log()
    walks = WalkProjections(STEPS, WIDTH, RATE, seed=3)
    left, right, time = queries(log)
    found = walks.replay(log, left, right, time)
    assert found.shape == (len(left), walks.pair_width)
    projection = start(log).astype(np.float64)
    for when in np.unique(time):
        seen = np.unique(np.concatenate([log.src[log.time < when], log.dst[log.time < when]]))
        rows = [matrix @ projection for matrix in walk_matrices(log, when)]
        for row in rows:
            row[np.setdiff1d(np.arange(NODES), seen)] = 0.0
        rows = [np.vstack([row, np.zeros(WIDTH)]) for row in rows]
        for query in np.flatnonzero(time == when):
            ends = [int(node) if 0 <= node < NODES else NODES for node in (left[query], right[query])]
            np.testing.assert_allclose(found[query], products(rows, *ends), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 7])
def test_any_cut_of_the_stream_gives_the_same_products(size: int) -> None:
    log = random_log()
    left, right, time = queries(log)
    whole = WalkProjections(STEPS, WIDTH, RATE, seed=3).replay(log, left, right, time)
    pieces = WalkProjections(STEPS, WIDTH, RATE, seed=3)
    found = np.empty_like(whole)
    done = -np.inf
    for piece in log.chunks(size):
        until = piece.time[-1]
        here = (time > done) & (time <= until)
        found[here] = pieces.replay(piece, left[here], right[here], time[here])
        done = until
    found[time > done] = pieces.replay(log.take(slice(0, 0)), left[time > done], right[time > done], time[time > done])
    np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-6)


def test_a_projection_keeps_products_on_average_and_is_a_function_of_seed_and_node() -> None:
    log = random_log(size=200)
    nothing = np.empty(0, dtype=np.int64)
    wide = []
    for seed in (0, 0, 1):
        walks = WalkProjections(1, 4_000, RATE, seed)
        walks.replay(log, nothing, nothing, np.empty(0))
        wide.append(walks._table.rows[:NODES, 0])
    np.testing.assert_array_equal(wide[0], wide[1])
    assert not np.allclose(wide[0], wide[2])
    np.testing.assert_allclose(wide[0] @ wide[0].T, np.eye(NODES), atol=0.1)
