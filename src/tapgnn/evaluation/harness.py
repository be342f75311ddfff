"""Evaluation: a protocol, several seeds, and the trivial methods beside every result.

    paper    split at 70 % and 85 % of the distinct times, unseen nodes dropped
    strict   split by events, nothing dropped

What is asked of the test events, and how it is marked, stands in `training.examination`. A seed decides the weights,
the order of chance in training, and the negatives.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray

from tapgnn.data.splits import Split, split_paper, split_strict
from tapgnn.errors import ConfigError
from tapgnn.estimator import TAPGNN
from tapgnn.evaluation.questions import (
    NAME,
    PROTOCOLS,
    Exam,
    Examination,
    Protocol,
    examine,
    heuristics,
    sample_embeddings,
    sigmoid,
)
from tapgnn.events import Events, Floats, Ints, events_fingerprint
from tapgnn.training.link_prediction import TrainingProgress

__all__ = [
    "NAME",
    "PROTOCOLS",
    "Evaluation",
    "Exam",
    "Examination",
    "Protocol",
    "evaluate",
    "events_fingerprint",
    "examine",
    "heuristics",
    "sample_embeddings",
    "sigmoid",
    "versions",
]

SeedListener = Callable[[int, TrainingProgress], None]


@dataclass
class Evaluation:
    """The results as plain values, and what a report draws from the first seed."""

    results: dict[str, Any]
    history: list[dict[str, Any]] = field(default_factory=list)
    labels: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    scores: Floats = field(default_factory=lambda: np.empty(0))
    times: Floats = field(default_factory=lambda: np.empty(0))
    baseline_scores: dict[str, Floats] = field(default_factory=dict)
    embeddings: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    embedding_times: Floats = field(default_factory=lambda: np.empty(0))

    def keep(self, seen: Examination, model: TAPGNN, test: Events) -> None:
        """Keep what a report draws of one examination of a model, and a sample of its embeddings."""
        self.labels, self.scores, self.times = seen.labels, seen.scores, seen.times
        self.baseline_scores = seen.baseline_scores
        self.embeddings, self.embedding_times = sample_embeddings(model.model_, model.state_, test)


def evaluate(
    events: Events,
    estimator: TAPGNN,
    protocol: Protocol = "strict",
    seeds: int = 5,
    listener: SeedListener | None = None,
) -> Evaluation:
    """Train and test once per seed; mean and deviation of every figure, for the model and for the trivial methods.

    Ctrl-C stops: the results are those of the seeds that were complete, and say so (`interrupted`); before the first
    is complete there is nothing to keep, and the KeyboardInterrupt goes on.
    """
    if protocol not in PROTOCOLS:
        raise ConfigError(f"protocol {protocol!r} is not one of {', '.join(PROTOCOLS)}")
    if seeds < 1:
        raise ConfigError(f"at least one seed is needed, not {seeds}")
    split = split_paper(events) if protocol == "paper" else split_strict(events)
    found = Evaluation({})
    runs: list[dict[str, dict[str, float]]] = []
    interrupted = False
    for seed in range(estimator.seed, estimator.seed + seeds):
        try:
            runs.append(_run(found, split, estimator, protocol, seed, listener))
        except KeyboardInterrupt:
            if not runs:
                raise
            interrupted = True
            break
    own = [{"seed": estimator.seed + place, **run[NAME]} for place, run in enumerate(runs)]
    found.results = {
        "protocol": protocol,
        "seeds": [int(run["seed"]) for run in own],
        "interrupted": interrupted,
        **_summary(own),
        "baselines": {name: _summary([run[name] for run in runs]) for name in runs[0] if name != NAME},
        "runs": own,
        "test_events": len(split.test),
        "params": estimator.get_params(),
        "versions": versions(),
        "data_sha256": events_fingerprint(events),
    }
    return found


def _run(
    found: Evaluation, split: Split, estimator: TAPGNN, protocol: Protocol, seed: int, listener: SeedListener | None
) -> dict[str, dict[str, float]]:
    """Train and test with one seed; an interrupted training counts for nothing."""
    model = TAPGNN(**{**estimator.get_params(), "seed": seed})
    model.fit(split.train, split.valid, listener=None if listener is None else lambda step: listener(seed, step))
    if model.history_.interrupted:
        raise KeyboardInterrupt
    model.observe(split.valid)
    seen = examine(model.model_, model.state_, split, protocol, seed)
    if not found.history:
        found.keep(seen, model, split.test)
    found.history += [{"seed": seed, **point} for point in model.history_.points]
    return {**seen.marks, NAME: {"valid_auc": model.history_.best_auc, **seen.marks[NAME]}}


def _summary(runs: list[dict[str, float]]) -> dict[str, float]:
    """Mean and standard deviation of every figure of the runs."""
    summary: dict[str, float] = {}
    for name in runs[0]:
        if name == "seed":
            continue
        values = np.array([run[name] for run in runs if name in run])
        summary[f"{name}_mean"] = float(values.mean())
        summary[f"{name}_std"] = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return summary


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    from tapgnn import __version__

    return {
        "tapgnn": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "python": platform.python_version(),
        "threads": str(torch.get_num_threads()),
    }
