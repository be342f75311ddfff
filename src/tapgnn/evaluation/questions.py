"""Examination: a trained model and the trivial methods asked the same questions along a stream.

    paper    one random negative per positive; AUC, AP and accuracy at 0.5
    strict   random, historical and inductive negatives, unseen nodes apart (transductive, inductive), and MRR and
             hits@10 over a fixed number of negatives

Whatever is scored sees the events strictly before the query: those of training and validation, and the earlier ones of
the test. A seed decides the negatives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tapgnn.baselines import EdgeBank, Method, Popularity, Recency
from tapgnn.data.negatives import KINDS, Purpose, sample_negatives
from tapgnn.data.splits import Split
from tapgnn.evaluation.metrics import accuracy, auc, average_precision, hits, mrr
from tapgnn.events import Events, Floats, Ints
from tapgnn.model import Model, State
from tapgnn.training.stream_scoring import represent_along, score_along

Protocol = Literal["paper", "strict"]
PROTOCOLS: tuple[Protocol, ...] = ("paper", "strict")
RANKED_AGAINST = 20
NAME = "tapgnn"


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
            purpose: Purpose = "ranking" if kind == "ranked" else "test"
            drawn = sample_negatives(test, split.train, chosen, count, seed, later, purpose).dst  # type: ignore[arg-type]
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


@dataclass(frozen=True)
class Examination:
    """What an exam found: method -> figure -> value, the model first, and what a report draws of it.

    labels, scores, times [Q] are the positives and their first negatives, with the model's probabilities;
    baseline_scores has those of each trivial method for the same queries.
    """

    marks: dict[str, dict[str, float]]
    labels: Ints
    scores: Floats
    times: Floats
    baseline_scores: dict[str, Floats]


def heuristics(split: Split) -> list[Method]:
    """The trivial methods; windowed EdgeBank looks back as far as the test is long."""
    window = float(split.test.time[-1] - split.test.time[0]) or 1.0
    return [Recency("any"), Recency("destination"), Popularity(), EdgeBank(), EdgeBank(window)]


def examine(
    model: Model, state: State, split: Split, protocol: Protocol = "strict", seed: int = 0, most: int | None = None
) -> Examination:
    """Examine a trained model and the trivial methods on the test events, or on `most` of them spread evenly.

    The state has absorbed the training and validation events and is left as it is.
    """
    test = split.test
    chosen = spread(len(test), len(test) if most is None else most)
    asked = replace(split, test=test.take(chosen), test_inductive=split.test_inductive[chosen])
    exam = Exam(asked, protocol, seed)
    logits, _ = score_along(model, state.copy(), test, exam.src, exam.dst, exam.time)
    marks, trivial = {NAME: exam.mark(logits, probabilities=True)}, {}
    for method in heuristics(split):
        method.fit(split.train, split.valid)
        method.observe(split.valid)
        scores = method.replay(test, exam.src, exam.dst, exam.time)
        marks[method.name] = exam.mark(scores, probabilities=False)
        trivial[method.name] = scores[exam.first]
    return Examination(marks, exam.labels, sigmoid(logits[exam.first]), exam.time[exam.first], trivial)


def sample_embeddings(
    model: Model, state: State, events: Events, most: int = 2_000
) -> tuple[NDArray[np.float32], Floats]:
    """z [n, d] of the sources of at most so many events, spread evenly, each just before its time [n]."""
    rows = spread(len(events), most)
    found, _ = represent_along(model, state.copy(), events, events.src[rows], events.time[rows])
    return found, events.time[rows]


def spread(size: int, most: int) -> Ints:
    """At most so many rows, evenly over all.

    >>> spread(9, 3)
    array([0, 4, 8])
    """
    return np.unique(np.linspace(0, size - 1, min(size, most)).astype(np.int64))


def sigmoid(logits: Floats) -> Floats:
    """Probabilities of logits, without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * np.asarray(logits, dtype=np.float64))))
