"""Replay: a log streamed through an engine or a server, at full speed or at its own pace, with AUC and latencies.

Every event is scored against a negative: the same source and time, another destination drawn uniformly from those of
the log (from all its nodes, where it is not bipartite). AUC over time compares the two.

    through an engine   both are scored from what came strictly before the event's instant
    through a server    both are scored in one request before their batch, which is then sent

Events up to the clock of the model are left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch

from tapgnn.data.fitted_schema import columns_of
from tapgnn.data.negatives import NegativeSampler, rng_for
from tapgnn.data.schema import ROLES, Schema
from tapgnn.errors import ConfigError, EventError
from tapgnn.evaluation.metrics import auc, auc_along_time
from tapgnn.events import Events, Floats
from tapgnn.model import Trace
from tapgnn.online.client import Client
from tapgnn.online.engine.engine import Engine
from tapgnn.online.engine.warm_up import warm_up
from tapgnn.online.journal.cell_conversion import kept_cells
from tapgnn.vocabulary import Id

# The number of latest events in the AUC that is shown during the replay.
RECENT = 2_000
TICK_SECONDS = 0.05


@dataclass
class Tally:
    """What has been measured so far: scores of events and of their negatives, and seconds by operation."""

    positive: list[float] = field(default_factory=list)
    negative: list[float] = field(default_factory=list)
    when: list[float] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, positive: Floats, negative: Floats, when: Floats) -> None:
        """Add scores."""
        self.positive += positive.tolist()
        self.negative += negative.tolist()
        self.when += when.tolist()

    def took(self, what: str, seconds: float) -> None:
        """Add a duration."""
        self.seconds.setdefault(what, []).append(seconds)

    def recent_auc(self) -> float | None:
        """AUC of the latest events; None before there are any."""
        return self._auc(slice(-RECENT, None))

    def whole_auc(self) -> float | None:
        """AUC of all events; None before there are any."""
        return self._auc(slice(None))

    def _auc(self, rows: slice) -> float | None:
        scores = self.positive[rows] + self.negative[rows]
        return auc(np.repeat([1, 0], len(scores) // 2), np.array(scores)) if scores else None

    def curve(self, bins: int = 10) -> list[dict[str, float]]:
        """AUC within consecutive intervals of time."""
        if not self.when:
            return []
        labels, scores = np.repeat([1, 0], len(self.when)), np.array(self.positive + self.negative)
        found = auc_along_time(labels, scores, np.tile(self.when, 2), bins)
        columns = (found.start, found.stop, found.auc, found.count // 2)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [dict(zip(("start", "stop", "auc", "events"), row, strict=True)) for row in rows]

    def percentiles(self) -> dict[str, dict[str, float]]:
        """p50, p95, p99 in milliseconds, by operation."""
        names, percents = ("p50_ms", "p95_ms", "p99_ms"), (50, 95, 99)
        found = {what: (np.percentile(spent, percents) * 1e3).tolist() for what, spent in self.seconds.items()}
        return {what: dict(zip(names, values, strict=True)) for what, values in found.items()}


class Target(Protocol):
    """Where events are sent."""

    def clock(self) -> float:
        """The time up to which events are known already."""

    def take(self, batch: Events, negatives: list[Id], tally: Tally) -> None:
        """Score a batch and its negative destinations, and observe the batch."""

    def finish(self, tally: Tally) -> None:
        """Score the events that are still held."""


class EngineTarget:
    """An engine in this process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._negatives: list[Id] = []
        self._tally = Tally()
        self._spent = 0.0
        with engine.live() as live:
            self._model = live.model
            warm_up(live.model, live.live_state.start.classifier)
        engine.listen(self._absorbed)

    def clock(self) -> float:
        """The time of the newest event, held ones included."""
        return float(self._engine.status()["newest"])

    def take(self, batch: Events, negatives: list[Id], tally: Tally) -> None:
        """Observe; events are scored when they are absorbed, from the trace of that moment."""
        self._negatives += negatives
        self._tally, self._spent = tally, 0.0
        start = time.perf_counter()
        self._engine.observe(batch)
        tally.took("observe", time.perf_counter() - start - self._spent)

    def finish(self, tally: Tally) -> None:
        """Close the last instant, so that its events are scored."""
        self._tally = tally
        if self._engine.status()["held"]:
            self._engine.flush()

    def _absorbed(self, events: Events, trace: Trace) -> None:
        start = time.perf_counter()
        negatives, self._negatives = self._negatives[: len(events)], self._negatives[len(events) :]
        if len(negatives) == len(events):
            model = self._model
            others = model.vocabulary.rows(negatives)
            logits = [model.score(trace, events.src, dst, events.time) for dst in (events.dst, others)]
            positive, negative = (torch.sigmoid(part.double()).numpy(force=True) for part in logits)
            self._tally.add(positive, negative, events.time)
        spent = time.perf_counter() - start
        self._spent += spent
        self._tally.took("score", spent)


class ServerTarget:
    """A server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        about = client.model()
        self._fields = list(about["event"]["properties"])
        self._schema = Schema.from_dict(
            {role: about["roles"][role] for role in ROLES if about["roles"][role] is not None}
            | {"columns": about["columns"], "bipartite": about["bipartite"]}
        )

    def clock(self) -> float:
        """The time of the newest event that the server has."""
        newest = self._client.model()["status"]["newest"]
        return -np.inf if newest is None else float(newest)

    def take(self, batch: Events, negatives: list[Id], tally: Tally) -> None:
        """Score, then send."""
        ids, schema = self._schema.external(list(batch.vocabulary.ids)), self._schema
        src, dst = ([ids[row] for row in column.tolist()] for column in (batch.src, batch.dst))
        negatives = schema.external(negatives)
        start = time.perf_counter()
        pairs = [*zip(src, dst, strict=True), *zip(src, negatives, strict=True)]
        scores = np.array(self._client.score(pairs, np.tile(batch.time, 2).tolist()))
        scored = time.perf_counter()
        sent = {schema.src: src, schema.dst: dst, schema.time: batch.time.tolist()}
        for name, cells in columns_of(batch).items():
            if name in schema.columns:
                given = [None if cell != cell else cell for cell in cells.tolist()]
                flags = schema.columns[name] == "boolean"
                sent[name] = [None if cell is None else bool(cell) for cell in given] if flags else given
        others = [name for name in self._fields if name in batch.columns and name not in sent]
        sent |= {name: kept_cells(batch.columns[name]) for name in others}
        if batch.labels is not None:
            sent[schema.label or "label"] = [None if label < 0 else label for label in batch.labels.tolist()]
        self._client.observe([dict(zip(sent, row, strict=True)) for row in zip(*sent.values(), strict=True)])
        tally.took("score", scored - start)
        tally.took("observe", time.perf_counter() - scored)
        tally.add(scores[: len(batch)], scores[len(batch) :], batch.time)

    def finish(self, tally: Tally) -> None:
        """Nothing is held on this side."""


@dataclass(frozen=True)
class ReplayProgress:
    """Events done, of how many, in how many seconds, and the time of the newest."""

    done: int
    total: int
    seconds: float
    time: float


def replay(
    log: Events, target: Target, tally: Tally, size: int = 200, speed: float | None = None, seed: int = 0
) -> Iterator[ReplayProgress]:
    """Stream a log in batches of about `size` events; at `speed` times its own pace, or without one at full speed."""
    if size < 1 or (speed is not None and not speed > 0):
        raise ConfigError(f"a batch holds at least one event and the speed is above 0, not {size} and {speed}")
    rest = log.between(np.nextafter(target.clock(), np.inf), np.inf)
    if not len(rest):
        raise EventError(f"the model already holds all of these events, up to {target.clock()}; replay a later log")
    sampler, rng = NegativeSampler(log), rng_for(seed, "test")
    start, done = time.perf_counter(), 0
    for batch in _batches(rest, size, speed, start):
        drawn = sampler.draw(batch.src, batch.dst, rng)[:, 0]
        target.take(batch, [log.vocabulary.ids[row] for row in drawn.tolist()], tally)
        done += len(batch)
        yield ReplayProgress(done, len(rest), time.perf_counter() - start, float(batch.time[-1]))
    target.finish(tally)
    yield ReplayProgress(done, len(rest), time.perf_counter() - start, float(rest.time[-1]))


def _batches(log: Events, size: int, speed: float | None, start: float) -> Iterator[Events]:
    """Consecutive pieces, each at its time; what is due together comes together, about `size` events at most."""
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
