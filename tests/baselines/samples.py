"""Small logs, and settings that make every method small: what the tests of the methods share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from tapgnn.baselines import METHODS, Method
from tapgnn.evaluation.harness import TAPGNNMethod
from tapgnn.events import Events, Floats, Ints

# Every method that there is, TAP-GNN included.
EVERY = (*METHODS, "tapgnn")
# Settings that make a method fast; the others of the table are fast as they are.
SMALL: dict[str, dict[str, Any]] = {
    "node2vec": {"width": 8, "walks": 2, "length": 8, "window": 3, "grid": (1.0, 0.5)},
    "graphsage": {"width": 8, "walks": 3, "length": 3, "epochs": 1, "samples": (4, 3), "negatives": 3},
    "graphsage-star": {"width": 8, "epochs": 2, "batch": 20, "neighbours": 3},
    "graphmixer": {"width": 8, "epochs": 2, "batch": 20, "neighbours": 3, "recent": 4},
    "dygformer": {"width": 16, "epochs": 2, "batch": 20, "neighbours": 6, "patch": 3},
    "tpnet": {"width": 8, "epochs": 2, "batch": 20, "neighbours": 3},
    "ctdne": {"width": 8, "walks": 2, "length": 8, "shortest": 3, "window": 3},
    "htne": {"width": 8, "histories": (2, 3), "epochs": 1, "negatives": 2},
    "tnode": {"width": 8, "divisions": (2, 4), "length": 8, "window": 3, "lstm_width": 4, "steps": 3},
    "tapgnn": {"width": 8, "epochs": 1, "options": {"sketch_width": 8}},
}


def make(name: str, seed: int = 0, **settings: Any) -> Method:
    """A small method, of the table or TAP-GNN."""
    build = TAPGNNMethod if name == "tapgnn" else METHODS[name]
    return build(seed=seed, **{**SMALL.get(name, {}), **settings})


def busy_log(size: int = 90, nodes: int = 9, seed: int = 0) -> Events:
    """Ties, repeats, self-loops, destinations of unequal weight, and nodes that arrive over time."""
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(max(size // 2, 1), size=size)).astype(float)
    known = 3 + (np.arange(size) * (nodes - 3)) // size
    src = (rng.random(size) * known).astype(np.int64)
    dst = (rng.random(size) ** 2 * known).astype(np.int64)
    return Events.from_arrays(src, dst, time)


def popular_log(size: int = 400, seed: int = 0) -> Events:
    """Twenty-four nodes that all write to the same four; these write too."""
    rng = np.random.default_rng(seed)
    return Events.from_arrays(rng.integers(24, size=size), rng.integers(4, size=size), np.arange(size) * 1.0)


def popularity_auc(method: Method) -> float:
    """How well a method trained on the first half of `popular_log` ranks true destinations over the others."""
    log = popular_log()
    train, valid, stream = parts(log)
    method.fit(train, valid)
    method.observe(valid)
    others = log.vocabulary.known_rows(np.arange(4, 24))
    wrong = np.random.default_rng(1).choice(others, len(stream))
    src, dst, time = np.tile(stream.src, 2), np.concatenate([stream.dst, wrong]), np.tile(stream.time, 2)
    return float(roc_auc_score(np.repeat([1, 0], len(stream)), method.replay(stream, src, dst, time)))


def parts(log: Events) -> tuple[Events, Events, Events]:
    """Training, validation and what comes after, cut between instants at about a half and two thirds."""
    first, second = np.searchsorted(log.time, [log.time[len(log) // 2], log.time[2 * len(log) // 3]])
    return log.slice(0, int(first)), log.slice(int(first), int(second)), log.slice(int(second), len(log))


def queries(stream: Events, nodes: int, seed: int = 0) -> tuple[Ints, Ints, Floats]:
    """The events of a stream and as many random pairs at the same times, unseen nodes among them."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(-1, nodes + 3, size=(2, len(stream)))
    return np.concatenate([stream.src, src]), np.concatenate([stream.dst, dst]), np.tile(stream.time, 2)
