"""Method: the one interface that TAP-GNN and every baseline implement, so that no harness can favour one of them.

The law of `replay`: a query at t sees what was observed before the call and the events strictly before t, never those
at t. `replay` in this module is the reference; a method may override its own `replay` with a faster form that gives the
same scores and leaves the same state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields

import numpy as np

from tapgnn.errors import ConfigError, LateEventError, QueryError
from tapgnn.events import Events, Floats, Ints
from tapgnn.model.heads import Question

Details = dict[str, float | int | str]


class Method(ABC):
    """Scores how likely it is that src meets dst at a given time; src and dst [Q] are rows of the vocabulary."""

    name: str
    sees_history: bool
    # The score from which on the method itself calls an event likely (0 for a logit); None where it does not say.
    threshold: float | None = None
    # Which destination, given that the source acts, or whether an event happens at all; most give one score to both.
    question: Question = "destination"
    # How many events the history of a query may be stale in the test; a method that learns along a stream trains so.
    lag: int = 0

    @abstractmethod
    def fit(self, train: Events, valid: Events) -> None:
        """Train from scratch; `valid` may only select weights or settings: afterwards exactly `train` is observed."""

    @abstractmethod
    def forget(self) -> None:
        """Return to before the first event; what was learnt stays."""

    @abstractmethod
    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] higher means more likely, from all observed so far; every time must lie after the last such instant."""

    @abstractmethod
    def observe(self, events: Events) -> None:
        """Absorb events that are later than all observed ones; no score changes where `sees_history` is False."""

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] the score of each query, in any order of time, seeing the events strictly before it; observes all."""
        return replay(self, events, src, dst, time)

    def score_candidates(self, src: Ints, candidates: Ints, time: Floats) -> Floats:
        """[Q, n] the score of each source [Q] with each of its candidates [Q, n]."""
        return self.score(*_pairs(src, candidates, time)).reshape(candidates.shape)

    def replay_candidates(self, events: Events, src: Ints, candidates: Ints, time: Floats) -> Floats:
        """[Q, n] the same along a stream, as `replay`."""
        return self.replay(events, *_pairs(src, candidates, time)).reshape(candidates.shape)

    def details(self) -> Details:
        """What the last fit selected, for the record only; empty where there is nothing to select."""
        return {}

    def alternatives(self) -> Mapping[str, Method]:
        """By name, the same fit with its other scores, if it has several; using one leaves this method unchanged."""
        return {}


def replay(method: Method, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
    """The reference: for each query time, observe all events strictly before it, then score its queries."""
    order = np.argsort(time, kind="stable")
    instants, first = np.unique(time[order], return_index=True)
    borders = np.append(first, len(order))
    seen = 0
    scores = np.empty(len(time))
    for position, until in enumerate(np.searchsorted(events.time, instants, side="left")):
        if until > seen:
            method.observe(events.slice(seen, int(until)))
            seen = int(until)
        queries = order[borders[position] : borders[position + 1]]
        scores[queries] = method.score(src[queries], dst[queries], time[queries])
    if seen < len(events):
        method.observe(events.slice(seen, len(events)))
    return scores


def _pairs(src: Ints, candidates: Ints, time: Floats) -> tuple[Ints, Ints, Floats]:
    """Sources, destinations and times [Q n] of candidates [Q, n]."""
    count = candidates.shape[1]
    return np.repeat(src, count), candidates.ravel(), np.repeat(time, count)


class StreamClock:
    """The last observed instant, and the two checks that keep the future out of a score."""

    def __init__(self) -> None:
        self.time = -np.inf

    def advance(self, events: Events) -> None:
        """Move to the end of these events; they must not start before the clock."""
        if len(events) and events.time[0] < self.time:
            raise LateEventError(
                f"an event at {events.time[0]} came after one at {self.time} was observed; observe in order of time"
            )
        self.time = float(events.time.max(initial=self.time))

    def check(self, time: Floats) -> None:
        """Refuse queries that are not later than everything observed."""
        if len(time) and np.min(time) <= self.time:
            raise QueryError(
                f"a query at {np.min(time)} may see only earlier events, but events up to {self.time} were observed; "
                "score before observing, or use replay"
            )


def check_counts(method: Method) -> None:
    """Refuse a setting that is a number of something, of which there is none; a seed is not."""
    for field in fields(method):  # type: ignore[arg-type]
        if field.type == "int" and field.name != "seed" and getattr(method, field.name) < 1:
            raise ConfigError(f"{field.name} must be at least 1, not {getattr(method, field.name)}")
