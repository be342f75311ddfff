"""The service behind the routes: one engine with its ingest queue, reader threads, sources, and recent activity."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np

from tapgnn.errors import JournalError, OutcomeUnknownError, OverloadError, TapgnnError
from tapgnn.online.engine.engine import Engine
from tapgnn.online.engine.ingest import Outcome, Request
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.online.journal.record import Reached
from tapgnn.online.server.ingest_queue import IngestQueue, growing_pauses
from tapgnn.online.server.limits import Limits
from tapgnn.online.server.node_insights import NodeInsights
from tapgnn.online.server.prometheus_metrics import ServerMetrics
from tapgnn.online.server.recent_activity import SHOWN, RecentActivity
from tapgnn.online.server.tokens import TokenChecker
from tapgnn.online.server.tracing import Tracing
from tapgnn.online.sources import EventSource

_log = logging.getLogger("tapgnn.online.server")

Answer = TypeVar("Answer")
UNDO_SECONDS = 5


@dataclass(frozen=True)
class ServerSettings:
    """How a server behaves; see `tapgnn serve --help`.

    events                 most events of one request
    queue, queued_events   most batches and most events in the queue
    queries                most queries that wait
    window                 latest events that are kept to explain scores
    scored_per_second      events scored before they are applied, for the page
    tracing                makes the spans of requests and batches, None for no traces
    """

    tokens: TokenChecker | None = None
    limits: Limits = field(default_factory=Limits)
    events: int = 10_000
    queue: int = 256
    queued_events: int = 200_000
    queries: int = 256
    window: int = 10_000
    scored_per_second: float = 1_000.0
    tracing: Tracing | None = None


class Service:
    """Everything behind the routes."""

    def __init__(
        self, open_engine: Callable[[], Engine], settings: ServerSettings, sources: Sequence[EventSource] = ()
    ) -> None:
        self.settings = settings
        self.activity = RecentActivity()
        self._open_engine = open_engine
        self.queue = IngestQueue(self._open, settings.queue, settings.queued_events, self._recovered)
        self.metrics = ServerMetrics(self.queue, sources, lambda: self.unavailable_reason is None)
        self.failure: TapgnnError | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self.before_ready: Callable[[Engine], None] = lambda engine: None
        self.started = time.time()
        self._insights: NodeInsights | None = None
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="tapgnn-reader")
        self._parser = ThreadPoolExecutor(1, thread_name_prefix="tapgnn-parser")
        self._rewriter = ThreadPoolExecutor(1, thread_name_prefix="tapgnn-rewriter")
        self._undoing = False
        self._queries = 0
        self._budget, self._budget_time = 0.0, 0.0
        self._sources = sources
        self._stop = threading.Event()
        self._followers = ThreadPoolExecutor(max(1, len(sources)), thread_name_prefix="tapgnn-source")

    def start(self) -> None:
        """Open the engine in the background; `unavailable_reason` is None when its journal is replayed."""
        self.queue.start().add_done_callback(self._opened)

    def _open(self) -> Engine:
        """The engine, with everything around it that needs it."""
        engine = self._open_engine()
        try:
            self.before_ready(engine)
            self._insights = NodeInsights(engine, self.settings.window)
            self.activity.own_ids, self.activity.id_column = engine.node_ids.own, engine.schema.id
        except BaseException:
            engine.close()
            raise
        return engine

    def _opened(self, opened: Future[Engine]) -> None:
        if self._failed(opened):
            return
        _log.info("ready", extra={"fields": {"position": opened.result().status()["position"]}})
        for source in self._sources:
            self._followers.submit(self._follow, source, opened.result()).add_done_callback(self._failed)

    def _failed(self, work: Future[Any]) -> bool:
        """Stop the server where work in the background ended in an error; gives whether it did."""
        error = work.exception()
        if error is None:
            return False
        failure = error if isinstance(error, TapgnnError) else TapgnnError(f"internal error: {error!r}")
        _log.error("failed", extra={"fields": {"reason": str(failure)}}, exc_info=None if failure is error else error)
        self.failure = failure
        self.on_failure()
        return True

    def _recovered(self, replayed: bool) -> None:
        """Drop what belongs to a state that another one has replaced."""
        if replayed:
            self.activity.clear()
            self.insights.clear()

    def _follow(self, source: EventSource, engine: Engine) -> None:
        """Read a source; one that fails stops the server, because its events would be missing."""
        # What comes without an offset is told from what came before by a number.
        name, numbers = f"{source.name} {uuid4().hex}", itertools.count()

        def deliver(batch: EventBatch, reached: Reached) -> None:
            producer, sequence = (None, None) if reached else (name, next(numbers))
            pauses, unknown = growing_pauses(), False
            while not self._stop.is_set():
                try:
                    if unknown and reached and set(reached) <= {(*key, at) for key, at in engine.offsets().items()}:
                        self.queue.retried.pop(source.name, None)
                        return
                    request = self.request(batch, producer, sequence, reached)
                    self.queue.submit_and_wait(request, source.name, self._stop)
                    return
                except JournalError as error:
                    unknown = unknown or isinstance(error, OutcomeUnknownError)
                    self._stop.wait(next(pauses))
                    self.queue.wait_until_available(self._stop)

        source.run(deliver, engine.offsets(), self._stop, engine.rows)
        _log.info("source ended", extra={"fields": {"source": source.name}})

    def stop(self) -> None:
        """Take in nothing more from sources, and for a few seconds what waits in the queue."""
        self._stop.set()
        self.queue.stop()

    def close(self) -> None:
        """Stop, wait until that is done, and write a last checkpoint; where that fails, `failure` says why."""
        self.stop()
        self._followers.shutdown(wait=True)
        self._rewriter.shutdown(wait=True)
        try:
            self.queue.close()
        except TapgnnError as error:
            self.failure = self.failure or TapgnnError(f"stopped without a last checkpoint: {error}")
            _log.error("closed without a checkpoint", extra={"fields": {"reason": str(error)}})
        self._readers.shutdown(wait=True)
        self._parser.shutdown(wait=True)
        _log.info("closed")

    @property
    def unavailable_reason(self) -> str | None:
        """Why events are not accepted, or not those of a source; None while the server is ready."""
        return self.queue.retry_reason or self.queue.unavailable_reason if self.failure is None else str(self.failure)

    @property
    def insights(self) -> NodeInsights:
        """The queries that need the window of recent events."""
        if self._insights is None:
            # Says why it is not there yet.
            _ = self.queue.engine
            raise TapgnnError("the window of recent events is not there yet; retry")
        return self._insights

    async def observe(self, batch: EventBatch, producer: str | None, sequence: int | None, score: bool) -> Outcome:
        """Queue a batch and wait until it is durable and applied."""
        return await asyncio.wrap_future(self.queue.submit(self.request(batch, producer, sequence, told=score)))

    def request(
        self,
        batch: EventBatch,
        producer: str | None = None,
        sequence: int | None = None,
        reached: Reached = (),
        told: bool = False,
    ) -> Request:
        """A batch whose outcome is recorded, scored where its sender is told or the page has a budget for it."""
        score = told or self._takes_from_budget(len(batch))
        classify = score and self.queue.engine.has_classifier
        request = Request(batch, producer, sequence, reached, score, classify, keep=SHOWN, told=told)
        # A future keeps its callbacks: with the request in them, only the collector of cycles would free the batch.
        request.answer.add_done_callback(partial(self._record, batch, request.arrived))
        if self.settings.tracing is not None:
            self.settings.tracing.follow(request, len(batch))
        return request

    def _takes_from_budget(self, size: int) -> bool:
        """Whether a batch is scored for the page: so many events a second, and none while other batches wait."""
        now, most = time.monotonic(), self.settings.scored_per_second
        self._budget = min(self._budget + (now - self._budget_time) * most, most)
        self._budget_time = now
        if self._budget <= 0 or self.queue.queued_batches > 1:
            return False
        self._budget -= size
        return True

    def _record(self, batch: EventBatch, arrived: float, answer: Future[Outcome]) -> None:
        if not answer.cancelled() and answer.exception() is None:
            self.metrics.add_batch(arrived, answer.result())
            self.activity.add_batch(batch, arrived, answer.result())

    async def parse(self, work: Callable[[], Answer]) -> Answer:
        """Parse a large body in a thread, one at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._parser, work)

    async def undo(self, work: Callable[[], Answer]) -> Answer:
        """Undo events, one request at a time. Recent activity is cleared."""
        if self._undoing:
            raise OverloadError(f"other events are being undone; retry in {UNDO_SECONDS} s", UNDO_SECONDS)
        engine = self.queue.engine
        self._undoing = True
        working = self._rewriter.submit(self._undo, work, engine)
        working.add_done_callback(lambda _: setattr(self, "_undoing", False))
        return await asyncio.wrap_future(working)

    def _undo(self, work: Callable[[], Answer], engine: Engine) -> Answer:
        with engine.live() as live:
            before = live.live_state
        try:
            return work()
        finally:
            with engine.live() as live:
                switched = live.live_state is not before
            if switched:
                self.activity.clear()
                self.insights.clear()

    async def read(self, query: Callable[[], Answer]) -> Answer:
        """Run a query in a reader thread; too many at once are refused."""
        if self._queries >= self.settings.queries:
            raise OverloadError(f"{self._queries} queries are waiting; retry in 1 s", 1)
        self._queries += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, query)
        finally:
            self._queries -= 1

    def status(self) -> dict[str, Any]:
        """The status of the engine, with None for what is not a finite number."""
        status = self.queue.engine.status()
        return {
            key: None if isinstance(value, float) and not np.isfinite(value) else value for key, value in status.items()
        }
