"""Questions: the test events of one seed among their negatives, and how one method is fitted, asked and measured.

    measure(method, questions)   fit(train, valid)     timed: `train_seconds`, and `train_cpu_seconds`, which other
                                                       processes do not lengthen
                                 where events are hidden from the training: forget, and observe the whole history
                                 observe the validation events, or be asked about them where they set the threshold
                                 replay(test, ...)     timed: `query_ms`, per question, observing the stream included

Every method goes through `measure`, TAP-GNN (`TrainedModel`) included. Invariant: a question at t sees the events
strictly before t, and the seed alone decides the negatives.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tapgnn.baselines import TRIVIAL, Method, make_baseline
from tapgnn.baselines.lag import replay_with_lag
from tapgnn.baselines.method import Details, StreamClock
from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.data.negatives import sample_negatives
from tapgnn.data.splits import Split, touches_unseen
from tapgnn.errors import ConfigError, QueryError
from tapgnn.evaluation.metrics import accuracy, auc, average_precision, best_threshold, hits, mrr, ranks
from tapgnn.evaluation.protocols import PROTOCOLS, Protocol, ProtocolName
from tapgnn.events import UNLABELLED, Events, Floats, Ints
from tapgnn.model import Model, State
from tapgnn.training.stream_scoring import rank_along, rank_candidates, represent_along, score_along

NAME = "tapgnn"


@dataclass(frozen=True)
class Results:
    """What one method gave for one seed; labels, scores, times [2 E]: the test events and their first negatives."""

    metrics: dict[str, float]
    costs: dict[str, float]
    labels: Ints
    scores: Floats
    times: Floats
    details: Details = field(default_factory=dict)
    alternatives: dict[str, dict[str, float]] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """All but the scores, as it stands in a file."""
        more = {"details": self.details, "alternatives": self.alternatives}
        return {**self.metrics, **self.costs, **{name: value for name, value in more.items() if value}}


class Assessment(ABC):
    """How the methods of one seed are tested: parts of a split, rules, and how stale the history of a query may be.

    `drawn_by_seed`: whether the questions depend on the seed; else a deterministic rule has the same metrics for all.
    """

    drawn_by_seed: ClassVar[bool] = False

    def __init__(self, split: Split, protocol: Protocol, seed: int, lag: int = 0, test: bool = True) -> None:
        if lag < 0:
            raise ConfigError(f"the lag must be a number of events, 0 or more, not {lag}")
        self.split, self.protocol, self.seed, self.lag = split, protocol, seed, lag
        self.parts = ("valid", "test") if test else ("valid",)

    @property
    def window(self) -> float:
        """How far back windowed EdgeBank looks: as far as the test is long."""
        return float(self.split.test.time[-1] - self.split.test.time[0]) or 1.0

    @abstractmethod
    def ask(self, method: Method) -> Results:
        """The results of a method that has observed the training events; it then has observed all parts."""


class Questions(Assessment):
    """The questions of one seed, all in one list.

    src, dst, time [Q]: the test events (at most `most` of them, spread evenly), then for each type of negatives its
    [E, n] block, row by row. labels [2 E] are those of the rows `first`: the test events and their first negatives.
    """

    drawn_by_seed = True

    def __init__(
        self,
        split: Split,
        protocol: Protocol,
        seed: int,
        lag: int = 0,
        test: bool = True,
        most: int | None = None,
    ) -> None:
        super().__init__(split, protocol, seed, lag)
        if not test:
            raise ConfigError(
                "only the protocols tgb and dyglib have results on the validation events; leave out --no-test"
            )
        chosen = spread(len(split.test), len(split.test) if most is None else most)
        events, self.unseen = split.test.take(chosen), split.test_inductive[chosen]
        draw = partial(sample_negatives, events, split.train, seed=seed)
        later = split.valid.append(events) if "inductive" in protocol.negatives else None
        blocks = [draw(kind, evaluation=later).dst for kind in protocol.negatives]
        if protocol.ranked:
            blocks.append(draw("random", protocol.ranked, purpose="ranking").dst)
        counts = [1, *(block.shape[1] for block in blocks)]
        self.size = len(events)
        self.src, self.time = (np.concatenate([np.repeat(x, n) for n in counts]) for x in (events.src, events.time))
        self.dst = np.concatenate([events.dst, *(block.ravel() for block in blocks)])
        self.first, self.labels = slice(0, 2 * self.size), np.repeat([1, 0], self.size)
        self.threshold_dst: Ints | None = None
        if len(split.valid):
            self.threshold_dst = sample_negatives(split.valid, split.train, seed=seed, purpose="threshold").dst[:, 0]

    def ask(self, method: Method) -> Results:
        """The results of a method that has observed the training events; it then has observed all."""
        threshold = self._observe_validation(method)
        start = time.perf_counter()
        scores = replay_with_lag(method, self.split.test, self.src, self.dst, self.time, self.lag)
        cost = {"query_ms": 1e3 * (time.perf_counter() - start) / len(scores)}
        metrics = self.metrics(checked(method, scores), threshold)
        return Results(metrics, cost, self.labels, scores[self.first], self.time[self.first])

    def _observe_validation(self, method: Method) -> float | None:
        """Move on to the test; the threshold for accuracy, where there is one."""
        valid, given = self.split.valid, self.protocol.threshold == "probability" and method.threshold is not None
        if given or self.threshold_dst is None:
            method.observe(valid)
            return method.threshold
        src, dst, when = np.tile(valid.src, 2), np.concatenate([valid.dst, self.threshold_dst]), np.tile(valid.time, 2)
        scores = checked(method, replay_with_lag(method, valid, src, dst, when, self.lag))
        return best_threshold(np.repeat([1, 0], len(valid)), scores)

    def metrics(self, scores: Floats, threshold: float | None = None) -> dict[str, float]:
        """Every metric of the protocol from scores [Q]; accuracy where there is a threshold."""
        blocks = scores.reshape(-1, self.size)
        positive = blocks[0]
        found: dict[str, float] = {}
        for kind, negative in zip(self.protocol.negatives, blocks[1:], strict=False):
            both = np.concatenate([positive, negative])
            prefix = {"random": "", "historical": "historical_", "inductive": "inductive_negatives_"}[kind]
            found[f"{prefix}auc"] = auc(self.labels, both)
            found[f"{prefix}ap"] = average_precision(self.labels, both)
        if self.protocol.ranked:
            negatives = scores[-self.size * self.protocol.ranked :].reshape(self.size, -1)
            places = ranks(positive, negatives)
            found |= {"mrr": mrr(places), "hits10": hits(places)}
        for name, rows in (("transductive_auc", ~self.unseen), ("inductive_auc", self.unseen)):
            if self.protocol.unseen and rows.any():
                found[name] = auc(np.repeat([1, 0], rows.sum()), blocks[:2, rows].ravel())
        if threshold is not None:
            found["accuracy"] = accuracy(self.labels, scores[self.first], threshold)
        return found


def measure(method: Method, questions: Assessment) -> Results:
    """Fit, ask and measure one method."""
    method.lag = questions.lag
    start, busy = time.perf_counter(), time.process_time()
    method.fit(questions.split.train, questions.split.valid)
    costs = {"train_seconds": time.perf_counter() - start, "train_cpu_seconds": time.process_time() - busy}
    others = method.alternatives()
    if questions.split.history is not questions.split.train:
        for each in (method, *others.values()):
            each.forget()
            each.observe(questions.split.history)
    found = questions.ask(method)
    alternatives = {name: questions.ask(other).plain() for name, other in others.items()}
    return replace(found, costs={**found.costs, **costs}, details=method.details(), alternatives=alternatives)


def checked(method: Method, scores: Floats) -> Floats:
    """The scores of a method; NaN is an error."""
    if np.isnan(scores).any():
        raise QueryError(f"{method.name} returned {int(np.isnan(scores).sum())} NaN scores; its training failed")
    return scores


class TrainedModel(Method):
    """A model that is trained, with a state that has observed the training events; the state is consumed.

    `table` encodes the columns of events; without one, they are given as the model takes them.
    """

    name = NAME
    sees_history = True
    threshold = 0.0
    model: Model
    state: State
    table: FittedSchema | None = None

    def __init__(self, model: Model, state: State) -> None:
        self.model, self.state = model, state

    def encoded(self, events: Events) -> Events:
        """The events as the model takes them."""
        return events if self.table is None else self.table.encode(events)

    def fit(self, train: Events, valid: Events) -> None:
        """Nothing is left to learn."""
        self._clock = StreamClock()
        self._clock.advance(train)

    def forget(self) -> None:
        """Start from the empty state."""
        self.state, self._clock = self.model.empty_state(), StreamClock()

    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] logits from the live state."""
        self._clock.check(time)
        with torch.no_grad():
            logits = self.model.score(self.state, self._rows(src), self._rows(dst), time, self.question)
        return np.asarray(logits.double().numpy(force=True))

    def observe(self, events: Events) -> None:
        """Advance the live state."""
        self._clock.advance(events)
        with torch.no_grad():
            for piece in self.encoded(events).chunks(4_096):
                _, self.state = self.model.advance(piece, self.state)

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] as the reference, in one pass of `advance`."""
        encoded = self.encoded(events)
        ends = self._rows(src), self._rows(dst)
        scores, self.state = score_along(self.model, self.state, encoded, *ends, time, question=self.question)
        self._clock.advance(events)
        return scores

    def score_candidates(self, src: Ints, candidates: Ints, time: Floats) -> Floats:
        """[Q, n] the same logits, every source being described once."""
        self._clock.check(time)
        found = rank_candidates(self.model, self.state, self._rows(src), self._rows(candidates), time)
        return np.asarray(found.double().numpy(force=True))

    def replay_candidates(self, events: Events, src: Ints, candidates: Ints, time: Floats) -> Floats:
        """[Q, n] the same along the stream."""
        encoded, rows = self.encoded(events), self._rows(candidates)
        scores, self.state = rank_along(self.model, self.state, encoded, self._rows(src), rows, time)
        self._clock.advance(events)
        return scores

    def _rows(self, rows: Ints) -> Ints:
        """-1 where the vocabulary has no such row."""
        return np.where(rows < len(self.model.vocabulary), rows, -1)


def measure_trained(
    model: Model, state: State, seen: Events, later: Events, protocol: ProtocolName, seed: int, most: int | None = None
) -> dict[str, Results]:
    """A trained model and the trivial methods on later events, or on `most` of them; the model first.

    The state has observed the events `seen`, and is left as it is. Events are given as the model takes them.
    """
    split = Split(seen, later.slice(0, 0), later, np.zeros(0, dtype=bool), touches_unseen(later, seen), seen)
    questions = Questions(split, PROTOCOLS[protocol], seed, most=most)
    trivial = {name: make_baseline(name, seed, questions.window) for name in TRIVIAL}
    methods = {NAME: TrainedModel(model, state.copy()), **trivial}
    return {name: measure(method, questions) for name, method in methods.items()}


class EmbeddingSample(NamedTuple):
    """z [n, d] of both ends of some events, each just before its time [n].

    names are their ids; labels [n] those of the events, all -1 (not known) where the log has none; roles [n] are 0 for
    sources and 1 for destinations.
    """

    z: NDArray[np.float32]
    times: Floats
    names: list[str]
    labels: Ints
    roles: Ints


def sample_embeddings(model: Model, state: State, events: Events, most: int = 2_000) -> EmbeddingSample:
    """A sample of at most so many events, spread evenly: their sources, and then their destinations."""
    rows, ids = spread(len(events), most), events.vocabulary.ids
    nodes, times = np.concatenate([events.src[rows], events.dst[rows]]), np.tile(events.time[rows], 2)
    found, _ = represent_along(model, state.copy(), events, nodes, times)
    labels = np.full(len(rows), UNLABELLED) if events.labels is None else events.labels[rows]
    roles = np.repeat([0, 1], len(rows))
    return EmbeddingSample(found, times, [str(ids[row]) for row in nodes], np.tile(labels, 2), roles)


def spread(size: int, most: int) -> Ints:
    """At most so many rows, evenly over all.

    >>> spread(9, 3)
    array([0, 4, 8])
    """
    return np.unique(np.linspace(0, size - 1, min(size, most)).astype(np.int64))
