"""Baselines: one file per method, all behind the one interface `Method`.

`METHODS[name](seed=..., ...)` builds a method. Its module, and the packages that it needs, are imported only then.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tapgnn.baselines.method import Method, replay
from tapgnn.baselines.trivial.edgebank import EdgeBank
from tapgnn.baselines.trivial.popularity import Popularity
from tapgnn.baselines.trivial.recency import Recency

__all__ = ["METHODS", "EdgeBank", "Method", "Popularity", "Recency", "replay"]


def _deterministic(make: Callable[..., Method], **fixed: Any) -> Callable[..., Method]:
    """A method without randomness: it accepts a seed, as the others do, and ignores it."""

    def build(seed: int = 0, **settings: Any) -> Method:
        return make(**fixed, **settings)

    return build


def _lazy(module: str, name: str) -> Callable[..., Method]:
    """A method whose module is imported when it is first built."""

    def build(**settings: Any) -> Method:
        method: Method = getattr(import_module(f"tapgnn.baselines.{module}"), name)(**settings)
        return method

    return build


METHODS: dict[str, Callable[..., Method]] = {
    "recency": _deterministic(Recency, role="any"),
    "recency-destination": _deterministic(Recency, role="destination"),
    "popularity": _deterministic(Popularity),
    "edgebank": _deterministic(EdgeBank),
    "node2vec": _lazy("static.node2vec", "Node2Vec"),
    "graphsage": _lazy("static.graphsage", "GraphSAGE"),
    "graphsage-star": _lazy("sampled.graphsage_star", "GraphSAGEStar"),
    "ctdne": _lazy("static.ctdne", "CTDNE"),
    "htne": _lazy("static.htne", "HTNE"),
    "tnode": _lazy("static.tnode", "TNODE"),
    "tgat": _lazy("sampled.tgat", "TGAT"),
    "tdgnn": _lazy("sampled.tdgnn", "TDGNN"),
    "jodie": _lazy("memory.jodie", "JODIE"),
    "tgn": _lazy("memory.tgn", "TGN"),
    "dyrep": _lazy("memory.dyrep", "DyRep"),
}
