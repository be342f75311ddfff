"""Baselines: one file a method, all behind the one protocol class `Method`.

`METHODS` is the table of them: `METHODS[name](seed=..., ...)` builds one. A method's module, and the packages that it
needs, are imported only then.
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


def _without_chance(make: Callable[..., Method], **fixed: Any) -> Callable[..., Method]:
    """A method that draws nothing: it takes a seed like the others, and has no use for it."""

    def build(seed: int = 0, **settings: Any) -> Method:
        return make(**fixed, **settings)

    return build


def _lazily(module: str, name: str, **fixed: Any) -> Callable[..., Method]:
    """A method whose module is imported when it is first built."""

    def build(**settings: Any) -> Method:
        method: Method = getattr(import_module(f"tapgnn.baselines.{module}"), name)(**fixed, **settings)
        return method

    return build


METHODS: dict[str, Callable[..., Method]] = {
    "recency": _without_chance(Recency, role="any"),
    "recency-destination": _without_chance(Recency, role="destination"),
    "popularity": _without_chance(Popularity),
    "edgebank": _without_chance(EdgeBank),
    "node2vec": _lazily("static.node2vec", "Node2Vec"),
    "graphsage": _lazily("static.graphsage", "GraphSAGE"),
    "graphsage-star": _lazily("sampled.graphsage_star", "GraphSAGEStar"),
    "ctdne": _lazily("static.ctdne", "CTDNE"),
    "htne": _lazily("static.htne", "HTNE"),
    "tnode": _lazily("static.tnode", "TNODE"),
    "tgat": _lazily("sampled.tgat", "TGAT"),
    "tdgnn": _lazily("sampled.tdgnn", "TDGNN"),
    "jodie": _lazily("memory.jodie", "JODIE"),
    "tgn": _lazily("memory.tgn", "TGN"),
    "dyrep": _lazily("memory.dyrep", "DyRep"),
}
