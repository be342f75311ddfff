"""Negatives: events that did not happen, to compare with those that did.

A negative keeps the source and the time of a positive and replaces its destination.

    random       uniform over the training nodes (over the training destinations where the training graph is bipartite),
                 never the true destination
    historical   a destination that this source met in training, but not at this time
    inductive    a destination that this source meets in the evaluation events, never in training, and not at this time

The last two follow Poursafaei et al., "Towards Better Evaluation for Dynamic Link Prediction" (NeurIPS 2022), with one
difference, taken from the Temporal Graph Benchmark: the paper draws whole edges, we keep the source, so that every
negative can be ranked against its positive. A source with too few such destinations contributes all of them once, and
random ones fill the row; `Negatives.filled` says where.

Invariant: the same seed and events give the same negatives, whatever was drawn before, and no two purposes of a seed
share random numbers: otherwise a method could be tested on the very negatives that it was trained on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tapgnn.compiled.jit import compile_loop
from tapgnn.data.statistics import is_bipartite
from tapgnn.errors import ConfigError, EventError
from tapgnn.events import Events, Floats, Ints

NegativeType = Literal["random", "historical", "inductive"]
NEGATIVE_TYPES: tuple[NegativeType, ...] = ("random", "historical", "inductive")
Purpose = Literal["training", "calibration", "validation", "threshold", "test", "ranking"]
PURPOSES: tuple[Purpose, ...] = ("training", "calibration", "validation", "threshold", "test", "ranking")


def rng_for(seed: int, purpose: Purpose) -> np.random.Generator:
    """The random generator of a seed for one purpose."""
    return np.random.default_rng([seed, 1 + PURPOSES.index(purpose)])


@dataclass(frozen=True)
class Negatives:
    """dst [E, n], the false destinations; filled [E, n], whether a random one filled a gap."""

    dst: Ints
    filled: NDArray[np.bool_]


class NegativeSampler:
    """Draws random negatives without rejection, with one table lookup per draw.

    >>> log = Events.from_arrays(["ann", "bob"], ["tea", "nut"], [1.0, 2.0])
    >>> NegativeSampler(log).draw(log.src, log.dst, np.random.default_rng(0))
    array([[3],
           [1]])
    """

    def __init__(self, train: Events, pool: Ints | None = None) -> None:
        """`pool` [P], distinct rows, replaces the default: training nodes, or destinations of a bipartite graph."""
        self.pool = candidates(train) if pool is None else np.unique(pool)
        if len(self.pool) < 2:
            raise EventError(f"negatives need at least two candidate destinations, not {len(self.pool)}")
        self._place = np.full(self.pool[-1] + 1, -1, dtype=np.int64)
        self._place[self.pool] = np.arange(len(self.pool))

    def draw(self, src: Ints, dst: Ints, rng: np.random.Generator, count: int = 1) -> Ints:
        """[E, count] destinations, uniform over the pool without the true one; `src` is not used."""
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
    kind: NegativeType = "random",
    count: int = 1,
    seed: int = 0,
    evaluation: Events | None = None,
    purpose: Purpose = "test",
) -> Negatives:
    """`count` negatives per positive, drawn once for each seed and purpose.

    `evaluation` holds all validation and test events, the source of inductive negatives; by default the positives.
    """
    if kind not in NEGATIVE_TYPES:
        raise ConfigError(f"the negatives must be one of {', '.join(NEGATIVE_TYPES)}, not {kind!r}")
    rng = rng_for(seed, purpose)
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
    """The sampler of training negatives: the pool of the evaluation, or all nodes if that pool has only one."""
    if not len(train):
        raise EventError("there are no training events; a model cannot be trained on an empty log")
    nodes = np.unique(np.concatenate([train.src, train.dst]))
    if len(nodes) < 2:
        raise EventError(
            f"all {len(train):,} training events are self-loops of one node; training needs a second node as a negative"
        )
    pool = candidates(train)
    return NegativeSampler(train, pool if len(pool) > 1 else nodes)


def candidates(train: Events) -> Ints:
    """The possible destinations of a random negative, ascending: training nodes, or destinations if bipartite."""
    return np.unique(train.dst if is_bipartite(train) else np.concatenate([train.src, train.dst]))


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


@compile_loop
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
