"""The ingest queue: one writer thread behind a bounded queue.

    submit -> [bounded queue] -> observe: journal, commit, apply -> answer

Batches that wait together are committed together, each as a record of its own. A batch is answered only when it is
durable and applied. A full queue refuses at once and says when to retry; sources, which can wait, wait. A stop drains
the queue for a few seconds, refuses what is left, and closes the engine, which writes its last checkpoint.

Where the journal is out of reach or full, the outcome of a commit is unknown, or the engine failed, nothing is
accepted: `unavailable_reason` says why, and every new reason is logged. The writer then recovers the engine, again and
again with growing pauses until that succeeds, and goes on. While nothing is written, it asks the journal for a sign of
life every second.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import cast

from tapgnn.errors import JournalError, OutcomeUnknownError, OverloadError, TapgnnError, UnavailableError
from tapgnn.online.engine.engine import Engine
from tapgnn.online.engine.ingest import OUTCOME_UNKNOWN, Outcome, Request
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.threads import set_threads

_log = logging.getLogger("tapgnn.online.server")

# Events committed together: few enough that no batch waits long for others.
GROUP_EVENTS = 4_096
# Seconds between signs of life; the first and the longest pause between attempts; how long a stop drains the queue.
HEARTBEAT, FIRST_PAUSE, LONGEST_PAUSE, DRAIN_SECONDS = 1.0, 0.1, 10.0, 5.0


STOPPING = "the server is stopping"


def event_count(request: Request) -> int:
    """The number of events of a request, which comes as a batch here."""
    return len(cast(EventBatch, request.events))


def growing_pauses() -> Iterator[float]:
    """Seconds to wait after each failure in a row.

    >>> pauses = growing_pauses()
    >>> [next(pauses) for _ in range(9)]
    [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    """
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


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
        # When what waits is no longer taken in; None before the stop.
        self._end: float | None = None
        self._failure: str | None = None
        # By the name of a source, why it has to send its batch again.
        self.retried: dict[str, str] = {}
        # What was logged last, and whether the state was replayed since.
        self._told: str | None = None
        self._logged_error: str | None = None
        self._replayed = False
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
            self._tell(engine)

    @property
    def unavailable_reason(self) -> str | None:
        """Why no batch is accepted, None while they are."""
        stopping = None if self._end is None else STOPPING
        return stopping or self._absence_reason() or self._failure or _trouble(self.opened.result())

    @property
    def retry_reason(self) -> str | None:
        """Why the batch of a source is being sent again and again, None where none is."""
        return next(iter(list(self.retried.values())), None)

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

    def submit_and_wait(self, request: Request, source: str, stop: threading.Event) -> None:
        """Queue a batch of a source when there is room, and wait until it is applied; does nothing after the stop."""
        with self._change:
            while self._is_full(request) and not stop.is_set():
                self._change.wait(0.1)
            if stop.is_set():
                return
            self._enqueue(request)
            # The writer calls this: a failure is known before the engine has recovered from it.
            request.answer.add_done_callback(partial(self._note, source))
        request.answer.result()

    def _note(self, source: str, answer: Future[Outcome]) -> None:
        """Remember why a batch of a source has to be sent again."""
        error = answer.exception()
        if isinstance(error, JournalError):
            cause = error.__cause__
            reason = error if cause is None else f"the writer failed ({type(cause).__name__})"
            self.retried[source] = f"{source}: the next batch is tried again until it can be taken in: {reason}"
        else:
            self.retried.pop(source, None)

    def wait_until_available(self, stop: threading.Event) -> None:
        """Wait until batches are accepted, or until told to stop."""
        while self.unavailable_reason is not None and not stop.wait(0.1):
            pass

    def stop(self) -> None:
        """Accept no more; what waits is taken in for `DRAIN_SECONDS`, and the rest is refused."""
        with self._change:
            self._end = self._end or time.monotonic() + DRAIN_SECONDS
            self._change.notify_all()

    def close(self) -> None:
        """Stop, and close the engine; an error where it cannot write its last checkpoint."""
        self.stop()
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
            self._change.wait_for(lambda: self._queue or self._end is not None, seconds)
            return bool(self._queue) or self._end is None

    def _absence_reason(self) -> str | None:
        """Why there is no engine, None where there is one."""
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
        late = self._end is not None and time.monotonic() >= self._end
        if trouble is not None or late:
            self._refuse(trouble or STOPPING)
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
                    unknown = OutcomeUnknownError(OUTCOME_UNKNOWN.format(kind))
                    unknown.__cause__ = error
                    request.answer.set_exception(unknown)
            if not isinstance(error, TapgnnError):
                if repr(error) != self._logged_error:
                    _log.error("the writer failed", exc_info=error)
                    self._logged_error = repr(error)
                return _trouble(engine) or f"the writer failed ({kind}) and recovers; nothing in the journal is lost"
        if group:
            spent = max(time.perf_counter() - start, 1e-6)
            self._events_per_second += 0.05 * (sum(map(event_count, group)) / spent - self._events_per_second)
        return _trouble(engine)

    def _recover(self, engine: Engine) -> None:
        """Try to recover the engine until that succeeds or the server stops; what waits is refused meanwhile."""
        for pause in growing_pauses():
            self._tell(engine)
            self._refuse(cast(str, self._failure))
            try:
                replayed = engine.recover()
                self._recovered(replayed)
                self._failure, self._replayed = None, self._replayed or replayed
                return
            except Exception as error:
                self._failure = " ".join(error.told("http").split()) if isinstance(error, TapgnnError) else repr(error)
            with self._change:
                if self._change.wait_for(lambda: self._end is not None, pause):
                    return

    def _tell(self, engine: Engine) -> None:
        """Log why events are not taken in, once for each reason, and that they are again."""
        reason = self.retry_reason or self._failure
        if reason == self._told:
            return
        self._told = reason
        if reason is not None:
            _log.error("not ready", extra={"fields": {"reason": reason}})
            return
        fields = {"position": engine.status()["position"], "replayed": self._replayed}
        self._logged_error, self._replayed = None, False
        _log.info("ready again", extra={"fields": fields})

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
        return error.told("http")
    return None
