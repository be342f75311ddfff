"""Evaluation: a protocol, several seeds, and the trivial methods beside every result.

    paper    split at 70 % and 85 % of the distinct times, unseen nodes dropped, one random negative per positive; AUC,
             AP and accuracy at 0.5
    strict   split by events, nothing dropped; random, historical and inductive negatives, unseen nodes apart
             (transductive, inductive), and MRR and hits@10 over a fixed number of negatives

Whatever is scored sees the events strictly before the query: those of training and validation, and the earlier ones of
the test. A seed decides the weights, the order of chance in training, and the negatives.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from tapgnn.baselines import EdgeBank, Method, Popularity, Recency
from tapgnn.data.negatives import KINDS, sample_negatives
from tapgnn.data.splits import Split, split_paper, split_strict
from tapgnn.errors import ConfigError
from tapgnn.estimator import TAPGNN
from tapgnn.events import Events, Floats, Ints
from tapgnn.training.link_prediction import Progress
from tapgnn.training.metrics import accuracy, auc, average_precision, hits, mrr
from tapgnn.training.replay import represent_along, score_along

Protocol = Literal["paper", "strict"]
PROTOCOLS: tuple[Protocol, ...] = ("paper", "strict")
RANKED_AGAINST = 20

Score = Callable[[Ints, Ints, Floats], Floats]


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


def heuristics(split: Split) -> list[Method]:
    """The trivial methods; windowed EdgeBank looks back as far as the test is long."""
    window = float(split.test.time[-1] - split.test.time[0]) or 1.0
    return [Recency("any"), Recency("destination"), Popularity(), EdgeBank(), EdgeBank(window)]


def evaluate(
    events: Events,
    estimator: TAPGNN,
    protocol: Protocol = "strict",
    seeds: int = 5,
    listener: Callable[[int, Progress], None] | None = None,
) -> Evaluation:
    """Train and test once per seed; mean and deviation of every figure, for the model and for the trivial methods."""
    if protocol not in PROTOCOLS:
        raise ConfigError(f"protocol {protocol!r} is not one of {', '.join(PROTOCOLS)}")
    if seeds < 1:
        raise ConfigError(f"at least one seed is needed, not {seeds}")
    split = split_paper(events) if protocol == "paper" else split_strict(events)
    found = Evaluation({})
    runs: list[dict[str, float]] = []
    trivial: dict[str, list[dict[str, float]]] = {}
    for seed in range(estimator.seed, estimator.seed + seeds):
        model = clone(estimator).set_params(seed=seed)
        on_progress = None if listener is None else _with_seed(listener, seed)
        model.fit(split.train, split.valid, listener=on_progress)
        model.observe(split.valid)
        found.history += [{"seed": seed, **point} for point in model.history_.points]
        exam = Exam(split, protocol, seed)
        logits = _model_scores(model, split.test, exam)
        runs.append({"seed": seed, "valid_auc": model.history_.best_auc, **exam.mark(logits, probabilities=True)})
        for method in heuristics(split):
            scores = _method_scores(method, split, exam)
            trivial.setdefault(method.name, []).append(exam.mark(scores, probabilities=False))
            if len(runs) == 1:
                found.baseline_scores[method.name] = scores[exam.first]
        if len(runs) == 1:
            _keep_for_report(found, model, split, exam, logits)
    found.results = {
        "protocol": protocol,
        "seeds": [int(run["seed"]) for run in runs],
        **_summary(runs),
        "baselines": {name: _summary(marks) for name, marks in trivial.items()},
        "runs": runs,
        "test_events": len(split.test),
        "params": estimator.get_params(),
        "versions": versions(),
        "data_sha256": checksum(events),
    }
    return found


class Exam:
    """The queries of one seed, all in one list, and how they are marked.

    src, dst, time [Q]: the test events, then for each kind of negatives its [E, n] block, row by row.
    """

    def __init__(self, split: Split, protocol: Protocol, seed: int) -> None:
        test = split.test
        self.size = len(test)
        self.inductive = split.test_inductive
        self.blocks: dict[str, tuple[slice, int]] = {}
        src, dst, time = [test.src], [test.dst], [test.time]
        kinds = [("random", 1)] if protocol == "paper" else [*((kind, 1) for kind in KINDS), ("ranked", RANKED_AGAINST)]
        start = self.size
        later = split.valid.append(test) if protocol == "strict" else None
        for kind, count in kinds:
            chosen = "random" if kind == "ranked" else kind
            salt = seed if kind != "ranked" else seed + 1_000_003
            drawn = sample_negatives(test, split.train, chosen, count, salt, later).dst  # type: ignore[arg-type]
            src.append(np.repeat(test.src, count))
            dst.append(drawn.ravel())
            time.append(np.repeat(test.time, count))
            self.blocks[kind] = (slice(start, start + drawn.size), count)
            start += drawn.size
        self.src, self.dst, self.time = np.concatenate(src), np.concatenate(dst), np.concatenate(time)
        # The positives and their first negatives: what a report draws.
        self.first = np.concatenate([np.arange(self.size), np.arange(self.size, 2 * self.size)])
        self.labels = np.repeat([1, 0], self.size)

    def mark(self, scores: Floats, probabilities: bool) -> dict[str, float]:
        """Every figure of the protocol; accuracy only where a score can be read as a logit."""
        positive = scores[: self.size]
        marks: dict[str, float] = {}
        for kind, (block, count) in self.blocks.items():
            if kind == "ranked":
                against = scores[block].reshape(self.size, count)
                marks |= {"mrr": mrr(positive, against), "hits10": hits(positive, against, 10)}
                continue
            both = np.concatenate([positive, scores[block]])
            prefix = "" if kind == "random" else f"{kind}_negatives_" if kind == "inductive" else f"{kind}_"
            marks[f"{prefix}auc"] = auc(self.labels, both)
            marks[f"{prefix}ap"] = average_precision(self.labels, both)
            if kind == "random" and probabilities:
                marks["accuracy"] = accuracy(self.labels, sigmoid(both))
        for name, rows in (("transductive_auc", ~self.inductive), ("inductive_auc", self.inductive)):
            if "ranked" in self.blocks and rows.any():
                mask = np.tile(rows, 2)
                marks[name] = auc(self.labels[mask], scores[self.first][mask])
        return marks


def _model_scores(model: TAPGNN, test: Events, exam: Exam) -> Floats:
    scores, _ = score_along(model.model_, model.state_.copy(), test, exam.src, exam.dst, exam.time)
    return scores


def _method_scores(method: Method, split: Split, exam: Exam) -> Floats:
    method.fit(split.train, split.valid)
    method.observe(split.valid)
    return method.replay(split.test, exam.src, exam.dst, exam.time)


def _keep_for_report(found: Evaluation, model: TAPGNN, split: Split, exam: Exam, logits: Floats) -> None:
    test = split.test
    found.labels, found.scores, found.times = exam.labels, sigmoid(logits[exam.first]), exam.time[exam.first]
    sample = np.unique(np.linspace(0, len(test) - 1, min(len(test), 2_000)).astype(np.int64))
    found.embedding_times = test.time[sample]
    asked = test.src[sample]
    found.embeddings, _ = represent_along(model.model_, model.state_.copy(), test, asked, found.embedding_times)


def _with_seed(listener: Callable[[int, Progress], None], seed: int) -> Callable[[Progress], None]:
    return lambda progress: listener(seed, progress)


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


def sigmoid(logits: Floats) -> Floats:
    """Probabilities of logits, without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * np.asarray(logits, dtype=np.float64))))


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


def checksum(events: Events) -> str:
    """A hash of the log itself: ids, ends, times and features."""
    digest = hashlib.sha256(repr(list(events.vocabulary.ids)).encode())
    for column in (events.src, events.dst, events.time, events.features, events.labels):
        if column is not None:
            digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()
