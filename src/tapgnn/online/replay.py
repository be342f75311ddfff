"""Replay: a log streamed through an engine or a server, as fast as it goes or at its own pace, and how well it did.

Every event is scored against one that did not happen: the same source and time, another destination drawn uniformly
from those of the log (from all its nodes, where it is not bipartite). AUC along time compares the two.

    through an engine   both are scored from what came strictly before the event's instant
    through a server    both are scored in one request before their batch, which is then sent

Events that the model already knows, up to its clock, are left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from tapgnn.data.negatives import NegativeSampler, rng_for
from tapgnn.errors import ConfigError, EventError
from tapgnn.evaluation.metrics import auc, auc_along_time
from tapgnn.events import Events
from tapgnn.model import Trace
from tapgnn.online.client import Client
from tapgnn.online.engine.engine import Engine
from tapgnn.online.engine.warm_up import warm_up
from tapgnn.vocabulary import Id

# Of the events scored last, for the figure that is shown on the way.
RECENT = 2_000
TICK_SECONDS = 0.05


@dataclass
class Tally:
    """What has been measured so far: scores of what happened and of what did not, and seconds by what took them."""

    happened: list[NDArray[np.float64]] = field(default_factory=list)
    invented: list[NDArray[np.float64]] = field(default_factory=list)
    when: list[NDArray[np.float64]] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, happened: NDArray[np.float64], invented: NDArray[np.float64], when: NDArray[np.float64]) -> None:
        """Take note of scores."""
        self.happened.append(happened)
        self.invented.append(invented)
        self.when.append(when)

    def took(self, what: str, seconds: float) -> None:
        """Take note of a duration."""
        self.seconds.setdefault(what, []).append(seconds)

    def recent_auc(self) -> float | None:
        """AUC of the events scored last; None before there are any."""
        left = _last(self.happened, RECENT)
        return _auc(left, _last(self.invented, RECENT)) if len(left) else None

    def curve(self, bins: int = 10) -> list[dict[str, float]]:
        """AUC within consecutive stretches of time."""
        if not self.happened:
            return []
        scores = np.concatenate([*self.happened, *self.invented])
        labels = np.repeat([1, 0], len(scores) // 2)
        found = auc_along_time(labels, scores, np.tile(np.concatenate(self.when), 2), bins)
        rows = zip(found.start, found.stop, found.auc, found.count // 2, strict=True)
        return [
            {"start": float(start), "stop": float(stop), "auc": float(area), "events": int(count)}
            for start, stop, area, count in rows
        ]

    def whole_auc(self) -> float | None:
        """AUC of all events."""
        return _auc(np.concatenate(self.happened), np.concatenate(self.invented)) if self.happened else None

    def percentiles(self) -> dict[str, dict[str, float]]:
        """p50, p95, p99 in milliseconds, by what took the time."""
        marks = (50, 95, 99)
        return {
            what: {
                f"p{mark}_ms": float(value)
                for mark, value in zip(marks, np.percentile(spent, marks) * 1e3, strict=True)
            }
            for what, spent in self.seconds.items()
        }


class Target(Protocol):
    """Where events go."""

    def clock(self) -> float:
        """The time up to which events are known already."""

    def take(self, batch: Events, invented: list[Id], tally: Tally) -> None:
        """Score a batch and the destinations that were not met, and take the batch in."""

    def finish(self, tally: Tally) -> None:
        """Score what is still held back."""


class EngineTarget:
    """An engine in this process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._invented: list[Id] = []
        self._tally = Tally()
        self._spent = 0.0
        with engine.live() as live:
            self._model = live.model
            warm_up(live.model)
        engine.listen(self._absorbed)

    def clock(self) -> float:
        """That of the state; what is held is known too."""
        return float(self._engine.status()["newest"])

    def take(self, batch: Events, invented: list[Id], tally: Tally) -> None:
        """Events are scored when they are absorbed, from the trace of that very moment."""
        self._invented += invented
        self._tally, self._spent = tally, 0.0
        start = time.perf_counter()
        self._engine.observe(batch)
        tally.took("observe", time.perf_counter() - start - self._spent)

    def finish(self, tally: Tally) -> None:
        """Close the last instant."""
        self._tally = tally
        if self._engine.status()["held"]:
            self._engine.flush()

    def _absorbed(self, events: Events, trace: Trace) -> None:
        start = time.perf_counter()
        invented, self._invented = self._invented[: len(events)], self._invented[len(events) :]
        if len(invented) == len(events):
            model = self._model
            others = model.vocabulary.rows(invented)
            logits = [model.score(trace, events.src, dst, events.time) for dst in (events.dst, others)]
            happened, missed = (torch.sigmoid(part.double()).numpy(force=True) for part in logits)
            self._tally.add(happened, missed, events.time)
        spent = time.perf_counter() - start
        self._spent += spent
        self._tally.took("score", spent)


class ServerTarget:
    """A server somewhere; batches are numbered, so that nothing is taken in twice."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def clock(self) -> float:
        """The newest event that the server has."""
        newest = self._client.model()["status"]["newest"]
        return -np.inf if newest is None else float(newest)

    def take(self, batch: Events, invented: list[Id], tally: Tally) -> None:
        """Ask, then send."""
        ids = batch.vocabulary.ids
        src, dst = ([ids[row] for row in column.tolist()] for column in (batch.src, batch.dst))
        start = time.perf_counter()
        chances = np.array(
            self._client.score_at(
                [*zip(src, dst, strict=True), *zip(src, invented, strict=True)], np.tile(batch.time, 2)
            )
        )
        asked = time.perf_counter()
        features = [None] * len(batch) if batch.features is None else batch.features.tolist()
        labels = [None] * len(batch) if batch.labels is None else batch.labels.tolist()
        self._client.observe(zip(src, dst, batch.time.tolist(), features, labels, strict=True))
        tally.took("score", asked - start)
        tally.took("observe", time.perf_counter() - asked)
        tally.add(chances[: len(batch)], chances[len(batch) :], batch.time)

    def finish(self, tally: Tally) -> None:
        """Nothing is left to ask."""


@dataclass(frozen=True)
class Progress:
    """Where a replay stands: events done, of how many, in how many seconds, and the time of the newest."""

    done: int
    total: int
    seconds: float
    time: float


def replay(
    log: Events, target: Target, tally: Tally, size: int = 200, speed: float | None = None, seed: int = 0
) -> Iterator[Progress]:
    """Stream a log in batches of about `size` events; at `speed` times its own pace, or without one at full speed."""
    if size < 1 or (speed is not None and not speed > 0):
        raise ConfigError(f"a batch holds at least one event and the speed is above 0, not {size} and {speed}")
    rest = log.between(np.nextafter(target.clock(), np.inf), np.inf)
    if not len(rest):
        raise EventError(f"the model already knows all of these events, up to {target.clock()}; replay a later log")
    sampler, rng = NegativeSampler(log), rng_for(seed, "test")
    start, done = time.perf_counter(), 0
    for batch in _batches(rest, size, speed, start):
        drawn = sampler.draw(batch.src, batch.dst, rng)[:, 0]
        target.take(batch, [log.vocabulary.ids[row] for row in drawn.tolist()], tally)
        done += len(batch)
        yield Progress(done, len(rest), time.perf_counter() - start, float(batch.time[-1]))
    target.finish(tally)
    yield Progress(done, len(rest), time.perf_counter() - start, float(rest.time[-1]))


def _batches(log: Events, size: int, speed: float | None, start: float) -> Iterator[Events]:
    """Consecutive pieces, each at its time; what is due at once comes together, at most `size` and a last instant."""
    if speed is None:
        yield from log.chunks(size)
        return
    due, place = (log.time - log.time[0]) / speed, 0
    while place < len(log):
        wait = float(due[place]) - (time.perf_counter() - start)
        if wait > 0:
            time.sleep(min(max(wait, TICK_SECONDS), 1.0))
            continue
        ready = int(np.searchsorted(due, time.perf_counter() - start, side="right"))
        stop = min(ready, place + size)
        stop = int(np.searchsorted(log.time, log.time[stop - 1], side="right"))
        yield log.take(slice(place, stop))
        place = stop


def _last(parts: list[NDArray[np.float64]], count: int) -> NDArray[np.float64]:
    chosen: list[NDArray[np.float64]] = []
    found = 0
    for part in reversed(parts):
        chosen.append(part)
        found += len(part)
        if found >= count:
            break
    return np.concatenate(chosen[::-1])[-count:] if chosen else np.empty(0)


def _auc(happened: NDArray[np.float64], invented: NDArray[np.float64]) -> float:
    return auc(np.repeat([1, 0], len(happened)), np.concatenate([happened, invented]))
