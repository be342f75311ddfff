"""The ingest queue: one writer thread behind a bounded queue.

    submit -> [bounded queue] -> observe: journal, commit, apply -> answer

Batches that wait together are committed together, each as a record of its own. A batch is answered only when it is
durable and applied. A full queue refuses at once and says when to retry; sources, which can wait, wait. Closing drains
the queue and then closes the engine, which writes its last checkpoint. Where the engine failed, the outcome of a commit
is unknown, or the writer thread ended in an error, nothing is accepted until the server is restarted:
`unavailable_reason` says why, and it is logged once.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import cast

from tapgnn.errors import OutcomeUnknownError, OverloadError, TapgnnError, UnavailableError
from tapgnn.online.engine.engine import Engine
from tapgnn.online.engine.ingest import OUTCOME_UNKNOWN, Outcome, Request
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.threads import set_threads

_log = logging.getLogger("tapgnn.online.server")

# Events committed together: few enough that no batch waits long for others.
GROUP_EVENTS = 4_096


def event_count(request: Request) -> int:
    """The number of events of a request, which comes as a batch here."""
    return len(cast(EventBatch, request.events))


class IngestQueue:
    """Opens an engine in a thread of its own and feeds it."""

    def __init__(self, open_engine: Callable[[], Engine], most_batches: int = 256, most_events: int = 200_000) -> None:
        self._open_engine = open_engine
        self._most_batches, self._most_events = most_batches, most_events
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tapgnn-ingest")
        self._change = threading.Condition()
        self._queue: deque[Request] = deque()
        self._closing = self._logged = False
        self._failure: BaseException | None = None
        self._events_per_second = 10_000.0
        self.queued_events = 0
        self.opened: Future[Engine] = Future()

    def start(self) -> Future[Engine]:
        """Open the engine, which replays its journal, and then accept batches."""
        self.opened = self._thread.submit(self._open)
        return self.opened

    def _open(self) -> Engine:
        engine = self._open_engine()
        # Whatever else launches threads of OpenMP in this one undoes the engine's choice of a single one.
        set_threads(1)
        return engine

    @property
    def unavailable_reason(self) -> str | None:
        """Why no batch is accepted, None while they are."""
        return self._absence_reason() or self._failure_reason(self.opened.result())

    @property
    def engine(self) -> Engine:
        """The engine, once it is open."""
        reason = self._absence_reason()
        if reason is not None:
            raise UnavailableError(reason)
        return self.opened.result()

    @property
    def queued_batches(self) -> int:
        """The number of batches in the queue."""
        return len(self._queue)

    def lag(self) -> float:
        """Seconds that the oldest of them has waited."""
        with self._change:
            return time.perf_counter() - self._queue[0].arrived if self._queue else 0.0

    def submit(self, request: Request) -> Future[Outcome]:
        """Queue a batch; a full queue is an `OverloadError`."""
        with self._change:
            if self._is_full(request):
                wait = max(1, math.ceil(self.queued_events / self._events_per_second))
                queued = f"{len(self._queue)} batches with {self.queued_events:,} events are queued"
                raise OverloadError(f"{queued}; retry in {wait} s", wait)
            self._enqueue(request)
        return request.answer

    def submit_and_wait(self, request: Request, stop: threading.Event) -> None:
        """Queue a batch when there is room and wait until it is applied, or until told to stop before it is queued."""
        with self._change:
            while self._is_full(request) and not stop.is_set():
                self._change.wait(0.1)
            if stop.is_set():
                return
            self._enqueue(request)
        request.answer.result()

    def close(self) -> None:
        """Accept no more, drain the queue, and close the engine, which writes its last checkpoint."""
        with self._change:
            self._closing = True
        self._thread.shutdown(wait=True)
        if self.opened.done() and self.opened.exception() is None:
            self.opened.result().close()

    def _is_full(self, request: Request) -> bool:
        # One batch always fits, however large, when the queue is empty.
        crowded = self.queued_events + event_count(request) > self._most_events and bool(self._queue)
        return len(self._queue) >= self._most_batches or crowded

    def _enqueue(self, request: Request) -> None:
        engine, reason = self.engine, self.unavailable_reason
        if reason is not None:
            raise UnavailableError(reason)
        self._queue.append(request)
        self.queued_events += event_count(request)
        self._thread.submit(self._work, engine)

    def _absence_reason(self) -> str | None:
        """Why there is no engine, None where there is one."""
        if self._closing:
            return "the server is stopping"
        if not self.opened.done():
            return "the journal is being replayed"
        error = self.opened.exception()
        return None if error is None else f"the journal could not be opened: {error}"

    def _failure_reason(self, engine: Engine) -> str | None:
        """What failed for good, None where nothing did; it is logged when it is first seen."""
        failure = self._failure
        try:
            engine.check_usable()
            if failure is None:
                return None
            kind = type(failure).__name__
            reason = f"the writer ended in an error ({kind}); restart the server, nothing in the journal is lost"
        except TapgnnError as error:
            reason = str(error)
        with self._change:
            logged, self._logged = self._logged, True
        if not logged:
            _log.error("not ready", extra={"fields": {"reason": reason}}, exc_info=failure)
        return reason

    def _next_group(self) -> list[Request]:
        """The batches to commit together, in the order in which they came."""
        with self._change:
            group: list[Request] = []
            size = 0
            while self._queue and (not group or size + event_count(self._queue[0]) <= GROUP_EVENTS):
                group.append(self._queue.popleft())
                size += event_count(group[-1])
            self.queued_events -= size
            self._change.notify_all()
        return group

    def _work(self, engine: Engine) -> None:
        """Take in what waits; the round before may have taken this round's batch along."""
        group = self._next_group()
        if not group:
            return
        reason = self._failure_reason(engine)
        if reason is not None:
            for request in group:
                if request.answer.set_running_or_notify_cancel():
                    request.answer.set_exception(UnavailableError(reason))
            return
        start = time.perf_counter()
        try:
            engine.observe_many(group)
        except BaseException as error:
            self._failure = error
            # No client waits forever for a batch during which something failed.
            for request in group:
                if not request.answer.done():
                    request.answer.set_exception(OutcomeUnknownError(OUTCOME_UNKNOWN.format(type(error).__name__)))
        self._failure_reason(engine)
        spent = max(time.perf_counter() - start, 1e-6)
        self._events_per_second += 0.05 * (sum(map(event_count, group)) / spent - self._events_per_second)
