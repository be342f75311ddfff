"""The ingest queue: one writer thread behind a bounded queue.

    submit -> [bounded queue] -> observe: journal, commit, apply -> answer

Batches that wait together are committed together, each as a record of its own. A batch is answered only when it is
durable and applied. A full queue refuses at once and says when to retry; sources, which can wait, wait. Closing drains
the queue and then closes the engine, which writes its last checkpoint.

Where the journal is out of reach or full, the outcome of a commit is unknown, or the engine failed, nothing is
accepted: `unavailable_reason` says why, and it is logged. The writer then recovers the engine, again and again with
growing pauses until that succeeds, and goes on. While nothing is written, it asks the journal for a sign of life every
second.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import cast

from tapgnn.errors import OutcomeUnknownError, OverloadError, TapgnnError, UnavailableError
from tapgnn.online.engine.engine import Engine
from tapgnn.online.engine.ingest import OUTCOME_UNKNOWN, Outcome, Request
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.threads import set_threads

_log = logging.getLogger("tapgnn.online.server")

# Events committed together: few enough that no batch waits long for others.
GROUP_EVENTS = 4_096
# Seconds between signs of life; the first and the longest pause between attempts to recover.
HEARTBEAT, FIRST_PAUSE, LONGEST_PAUSE = 1.0, 0.1, 10.0


def event_count(request: Request) -> int:
    """The number of events of a request, which comes as a batch here."""
    return len(cast(EventBatch, request.events))


class IngestQueue:
    """Opens an engine in a thread of its own and feeds it."""

    def __init__(
        self,
        open_engine: Callable[[], Engine],
        most_batches: int = 256,
        most_events: int = 200_000,
        recovered: Callable[[bool], None] = lambda replayed: None,
    ) -> None:
        """`recovered` is called when the engine has recovered, with whether its state was replayed."""
        self._open_engine, self._recovered = open_engine, recovered
        self._most_batches, self._most_events = most_batches, most_events
        self._thread = threading.Thread(target=self._run, name="tapgnn-ingest", daemon=True)
        self._change = threading.Condition()
        self._queue: deque[Request] = deque()
        self._closing = False
        self._failure: str | None = None
        self._events_per_second = 10_000.0
        self.queued_events = 0
        self.opened: Future[Engine] = Future()

    def start(self) -> Future[Engine]:
        """Open the engine, which replays its journal, and then accept batches."""
        self._thread.start()
        return self.opened

    def _run(self) -> None:
        """What the writer's thread does: open the engine, take in what waits, and recover from what fails."""
        try:
            engine = self._open_engine()
            # Whatever else launches threads of OpenMP in this one undoes the engine's choice of a single one.
            set_threads(1)
        except BaseException as error:
            self.opened.set_exception(error)
            return
        self.opened.set_result(engine)
        while self._wait(HEARTBEAT):
            self._failure = self._take_in(engine)
            if self._failure is not None:
                self._recover(engine)

    @property
    def unavailable_reason(self) -> str | None:
        """Why no batch is accepted, None while they are."""
        return self._absence_reason() or self._failure or _trouble(self.opened.result())

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

    def wait_until_available(self, stop: threading.Event) -> None:
        """Wait until batches are accepted, or until told to stop."""
        while self.unavailable_reason is not None and not stop.wait(0.1):
            pass

    def close(self) -> None:
        """Accept no more, drain the queue, and close the engine; an error where it cannot write its last checkpoint."""
        with self._change:
            self._closing = True
            self._change.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
        if self.opened.done() and self.opened.exception() is None:
            engine = self.opened.result()
            trouble = _trouble(engine)
            engine.close()
            if trouble is not None:
                raise UnavailableError(trouble)

    def _is_full(self, request: Request) -> bool:
        # One batch always fits, however large, when the queue is empty.
        crowded = self.queued_events + event_count(request) > self._most_events and bool(self._queue)
        return len(self._queue) >= self._most_batches or crowded

    def _enqueue(self, request: Request) -> None:
        reason = self.unavailable_reason
        if reason is not None:
            raise UnavailableError(reason)
        self._queue.append(request)
        self.queued_events += event_count(request)
        self._change.notify_all()

    def _wait(self, seconds: float) -> bool:
        """Wait for a batch; False when there is none, and none will come."""
        with self._change:
            self._change.wait_for(lambda: self._queue or self._closing, seconds)
            return bool(self._queue) or not self._closing

    def _absence_reason(self) -> str | None:
        """Why there is no engine, None where there is one."""
        if self._closing:
            return "the server is stopping"
        if not self.opened.done():
            return "the journal is being replayed"
        error = self.opened.exception()
        return None if error is None else f"the journal could not be opened: {error}"

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

    def _take_in(self, engine: Engine) -> str | None:
        """Take in what waits, or ask for a sign of life; gives what keeps the engine from taking in more."""
        trouble = _trouble(engine)
        if trouble is not None:
            self._refuse(trouble)
            return trouble
        group = self._next_group()
        start = time.perf_counter()
        try:
            engine.observe_many(group) if group else engine.ping()
        except BaseException as error:
            kind = type(error).__name__
            # No client waits forever for a batch during which something failed.
            for request in group:
                if not request.answer.done():
                    request.answer.set_exception(OutcomeUnknownError(OUTCOME_UNKNOWN.format(kind)))
            if not isinstance(error, TapgnnError):
                _log.error("the writer failed", exc_info=error)
                return _trouble(engine) or f"the writer failed ({kind}) and recovers; nothing in the journal is lost"
        if group:
            spent = max(time.perf_counter() - start, 1e-6)
            self._events_per_second += 0.05 * (sum(map(event_count, group)) / spent - self._events_per_second)
        return _trouble(engine)

    def _recover(self, engine: Engine) -> None:
        """Try to recover the engine until that succeeds or the server stops; what waits is refused meanwhile."""
        pause, told = FIRST_PAUSE, None
        while self._failure is not None:
            if self._failure != told:
                _log.error("not ready", extra={"fields": {"reason": self._failure}})
                told = self._failure
            self._refuse(self._failure)
            try:
                replayed = engine.recover()
                self._recovered(replayed)
                self._failure = None
            except Exception as error:
                self._failure = " ".join(str(error).split()) if isinstance(error, TapgnnError) else repr(error)
                with self._change:
                    if self._change.wait_for(lambda: self._closing, pause):
                        return
                pause = min(2 * pause, LONGEST_PAUSE)
        _log.info("ready again", extra={"fields": {"position": engine.status()["position"], "replayed": replayed}})

    def _refuse(self, reason: str) -> None:
        """Answer everything in the queue: nothing of it was taken in."""
        while group := self._next_group():
            for request in group:
                if request.answer.set_running_or_notify_cancel():
                    request.answer.set_exception(UnavailableError(reason))


def _trouble(engine: Engine) -> str | None:
    """What keeps an engine from taking batches in, None where nothing does."""
    try:
        engine.check_usable()
    except TapgnnError as error:
        return str(error)
    return None
