"""Baselines: one file per published method, all behind the one interface `Method`.

`METHODS[name](seed=..., ...)` builds a method. Its module, and the packages that it needs, are imported only then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pkgutil import resolve_name
from typing import Any

from tapgnn.baselines.local_global import LocalGlobal
from tapgnn.baselines.method import Method, replay
from tapgnn.baselines.trivial import EdgeBank, PairCount, PairRecency, PairThenNode, Popularity, Recency

__all__ = [
    "METHODS",
    "TRIVIAL",
    "WINDOWED",
    "EdgeBank",
    "LocalGlobal",
    "Method",
    "PairCount",
    "PairRecency",
    "PairThenNode",
    "Popularity",
    "Recency",
    "family_of",
    "make_baseline",
    "replay",
]


def _deterministic(make: Callable[..., Method], seed: int = 0, **settings: Any) -> Method:
    """A method without randomness: it accepts a seed, as the others do, and ignores it."""
    return make(**settings)


def _imported(place: str, **settings: Any) -> Method:
    """A method whose module is imported when it is first built."""
    method: Method = resolve_name(f"tapgnn.baselines.{place}")(**settings)
    return method


METHODS: dict[str, partial[Method]] = {
    "recency": partial(_deterministic, Recency, role="any"),
    "recency-destination": partial(_deterministic, Recency, role="destination"),
    "popularity": partial(_deterministic, Popularity),
    "edgebank": partial(_deterministic, EdgeBank),
    "pair-recency": partial(_deterministic, PairRecency),
    "pair-recency-both": partial(_deterministic, PairRecency, both_ways=True),
    "pair-count": partial(_deterministic, PairCount),
    "pair-then-node": partial(_deterministic, PairThenNode),
    "local-global": partial(_deterministic, LocalGlobal),
    "node2vec": partial(_imported, "static.node2vec:Node2Vec"),
    "graphsage": partial(_imported, "static.graphsage:GraphSAGE"),
    "graphsage-star": partial(_imported, "sampled.graphsage_star:GraphSAGEStar"),
    "ctdne": partial(_imported, "static.ctdne:CTDNE"),
    "htne": partial(_imported, "static.htne:HTNE"),
    "tnode": partial(_imported, "static.tnode:TNODE"),
    "tgat": partial(_imported, "sampled.tgat:TGAT"),
    "tdgnn": partial(_imported, "sampled.tdgnn:TDGNN"),
    "graphmixer": partial(_imported, "sampled.graphmixer:GraphMixer"),
    "dygformer": partial(_imported, "sampled.dygformer:DyGFormer"),
    "tpnet": partial(_imported, "sampled.tpnet:TPNet"),
    "jodie": partial(_imported, "memory.jodie:JODIE"),
    "tgn": partial(_imported, "memory.tgn:TGN"),
    "dyrep": partial(_imported, "memory.dyrep:DyRep"),
}


# EdgeBank with a window, which is as long as the test period.
WINDOWED = "edgebank-window"
TRIVIAL = (
    "recency",
    "recency-destination",
    "popularity",
    "edgebank",
    WINDOWED,
    "pair-recency",
    "pair-recency-both",
    "pair-count",
    "pair-then-node",
    "local-global",
)


def make_baseline(name: str, seed: int, window: float = 1.0) -> Method:
    """A new method by its name; `window` is that of windowed EdgeBank."""
    return EdgeBank(window) if name == WINDOWED else METHODS[name](seed=seed)


def family_of(name: str) -> str | None:
    """What a method is one of: trivial, static, sampled or memory; None for a method that is none of these.

    >>> family_of("recency"), family_of("tgn"), family_of("mine")
    ('trivial', 'memory', None)
    """
    if name in TRIVIAL:
        return "trivial"
    return str(METHODS[name].args[0]).partition(".")[0] if name in METHODS else None
