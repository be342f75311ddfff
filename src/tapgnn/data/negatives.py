"""Negatives: what did not happen, to compare with what did.

A negative keeps the source and the time of a positive and replaces its destination.

    random       uniform over the training nodes (over the training destinations where the training graph is bipartite),
                 never the true destination
    historical   a destination that this source met in training, but not at this time
    inductive    a destination that this source meets in the evaluation events, never in training, and not at this time

The last two follow Poursafaei et al., "Towards Better Evaluation for Dynamic Link Prediction" (NeurIPS 2022), with one
departure, the one of the Temporal Graph Benchmark: the paper draws whole edges, we keep the source, so that every
negative can be ranked against its positive. A source with too few such destinations gives all it has, each once, and
random ones fill the row; `Negatives.filled` says where.

Invariant: the same seed and events give the same negatives, whatever was drawn before, and no two purposes of one seed
share their chance: with that of training, a method would be tested on the very negatives that it was taught.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numba as nb
import numpy as np
from numpy.typing import NDArray

from tapgnn.data.statistics import is_bipartite
from tapgnn.errors import ConfigError, EventError
from tapgnn.events import Events, Floats, Ints

Kind = Literal["random", "historical", "inductive"]
KINDS: tuple[Kind, ...] = ("random", "historical", "inductive")
Purpose = Literal["training", "calibration", "validation", "threshold", "test", "ranking"]
PURPOSES: tuple[Purpose, ...] = ("training", "calibration", "validation", "threshold", "test", "ranking")


def chance(seed: int, purpose: Purpose) -> np.random.Generator:
    """What a seed means for one purpose."""
    return np.random.default_rng([seed, 1 + PURPOSES.index(purpose)])


@dataclass(frozen=True)
class Negatives:
    """dst [E, n], the destinations that stand in for the true one; filled [E, n], where a random one had to do."""

    dst: Ints
    filled: NDArray[np.bool_]


class NegativeSampler:
    """Draws random negatives fast: no rejection, one table look-up per draw.

    >>> log = Events.from_arrays(["ann", "bob"], ["tea", "nut"], [1.0, 2.0])
    >>> NegativeSampler(log).draw(log.src, log.dst, np.random.default_rng(0))
    array([[3],
           [1]])
    """

    def __init__(self, train: Events, pool: Ints | None = None) -> None:
        """`pool` [P], distinct rows, replaces the default: training nodes, or destinations of a bipartite graph."""
        self.pool = candidates(train) if pool is None else np.unique(pool)
        if len(self.pool) < 2:
            raise EventError(f"negatives need at least two candidate destinations, there are {len(self.pool)}")
        self._place = np.full(self.pool[-1] + 1, -1, dtype=np.int64)
        self._place[self.pool] = np.arange(len(self.pool))

    def draw(self, src: Ints, dst: Ints, rng: np.random.Generator, count: int = 1) -> Ints:
        """[E, count] destinations, uniform over the pool without the true one; `src` does not matter to these."""
        if count < 1:
            raise ConfigError(f"at least one negative per positive is needed, not {count}")
        place = np.where(dst < len(self._place), self._place[np.minimum(dst, len(self._place) - 1)], -1)[:, None]
        free = len(self.pool) - (place >= 0)
        chosen = (rng.random((len(dst), count)) * free).astype(np.int64)
        # Stepping over the place of the true destination leaves the others equally likely.
        chosen += (place >= 0) & (chosen >= place)
        return self.pool[chosen]


def sample_negatives(
    positives: Events,
    train: Events,
    kind: Kind = "random",
    count: int = 1,
    seed: int = 0,
    evaluation: Events | None = None,
    purpose: Purpose = "test",
) -> Negatives:
    """`count` negatives per positive, drawn once for the seed and the purpose.

    `evaluation` holds all validation and test events, where inductive negatives come from; the positives by default.
    """
    if kind not in KINDS:
        raise ConfigError(f"negatives are {', '.join(KINDS)}, not {kind!r}")
    rng = chance(seed, purpose)
    drawn = NegativeSampler(train).draw(positives.src, positives.dst, rng, count)
    if kind == "random":
        return Negatives(drawn, np.zeros(drawn.shape, dtype=bool))
    nodes = len(positives.vocabulary)
    pairs = _pairs(train, nodes)
    if kind == "inductive":
        pairs = np.setdiff1d(_pairs(positives if evaluation is None else evaluation, nodes), pairs, assume_unique=True)
    met = _draw_met(positives, pairs, nodes, rng.random(drawn.shape))
    return Negatives(np.where(met < 0, drawn, met), met < 0)


def training_sampler(train: Events) -> NegativeSampler:
    """Negatives of the training events: the pool of the evaluation, or all nodes where that has only one."""
    if not len(train):
        raise EventError("there are no training events; nothing can be learnt from an empty log")
    nodes = np.unique(np.concatenate([train.src, train.dst]))
    if len(nodes) < 2:
        raise EventError(
            f"all {len(train)} training events join one node with itself; learning needs a second node as a negative"
        )
    pool = candidates(train)
    return NegativeSampler(train, pool if len(pool) > 1 else nodes)


def candidates(train: Events) -> Ints:
    """The destinations that a random negative may name, ascending: training nodes, or destinations if bipartite."""
    chosen = np.zeros(len(train.vocabulary), dtype=bool)
    chosen[train.dst] = True
    if not is_bipartite(train):
        chosen[train.src] = True
    return np.flatnonzero(chosen)


def _pairs(events: Events, nodes: int) -> Ints:
    """The distinct directed pairs, as src * nodes + dst, ascending."""
    return np.unique(events.src * nodes + events.dst)


def _draw_met(positives: Events, pairs: Ints, nodes: int, uniform: Floats) -> Ints:
    """[E, n] for each positive, distinct destinations that `pairs` join to its source; -1 where they run out."""
    if not len(positives):
        return np.full(uniform.shape, -1, dtype=np.int64)
    border = np.searchsorted(pairs, np.arange(nodes + 1) * nodes)
    instant = np.cumsum(np.diff(positives.time, prepend=positives.time[:1]) > 0)
    order = np.lexsort((positives.src, instant))
    changes = (np.diff(positives.src[order]) != 0) | (np.diff(instant[order]) != 0)
    groups = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(order)]])
    return np.asarray(_draw_fresh(order, groups, positives.src, positives.dst, border, pairs % nodes, uniform))


@nb.njit(cache=True)
def _draw_fresh(
    order: Ints, groups: Ints, src: Ints, dst: Ints, border: Ints, partner: Ints, uniform: Floats
) -> NDArray[np.int64]:
    """Per group of one source and instant: its partners without those of the group, shuffled anew for each event."""
    chosen = np.full(uniform.shape, -1, dtype=np.int64)
    met_by = np.full(len(border), -1, dtype=np.int64)
    fresh = np.empty(len(partner), dtype=np.int64)
    for group in range(len(groups) - 1):
        for position in range(groups[group], groups[group + 1]):
            met_by[dst[order[position]]] = group
        source, found = src[order[groups[group]]], 0
        for row in range(border[source], border[source + 1]):
            if met_by[partner[row]] != group:
                fresh[found] = partner[row]
                found += 1
        for position in range(groups[group], groups[group + 1]):
            event = order[position]
            for k in range(min(found, uniform.shape[1])):
                other = k + int(uniform[event, k] * (found - k))
                fresh[k], fresh[other] = fresh[other], fresh[k]
                chosen[event, k] = fresh[k]
    return chosen
