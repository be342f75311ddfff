"""The intake: the one thread that writes, behind a queue with an end.

    submit -> [bounded queue] -> observe: journal, commit, apply -> answer

What waits together is committed together, each batch as a record of its own. A batch is answered only when it is
durable and applied. A full queue refuses at once, with the seconds after which another try makes sense; sources, which
can wait, wait. Closing lets the queue run dry and then closes the engine, which writes its last checkpoint. Where the
engine broke, a commit is in doubt, or the writer ended in an error, nothing is taken any more until the server is
started again: `trouble` says why, and the log has said it once.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tapgnn.errors import (
    JournalError,
    OutcomeUnknownError,
    OverloadError,
    QueryError,
    TapgnnError,
    UnavailableError,
)
from tapgnn.events import Floats
from tapgnn.online.engine.engine import Engine, Outcome, Receipt, Request
from tapgnn.online.engine.ingest import UNKNOWN
from tapgnn.online.engine.ingest_scoring import Aspect
from tapgnn.online.sources import Place
from tapgnn.threads import set_threads

_log = logging.getLogger("tapgnn.online.server")

# Events committed together: few enough that nobody waits long for those of others.
TOGETHER = 4_096


@dataclass
class Taken:
    """What became of a batch; chances [E] where the events were scored, risks [E] where there is a classifier."""

    receipt: Receipt
    chances: Floats | None = None
    risks: Floats | None = None


@dataclass
class Job:
    """A batch of `size` events on its way; `scored` asks for scores from before the model learns of them."""

    columns: Mapping[str, Any]
    size: int
    producer: str | None = None
    sequence: int | None = None
    place: Place | None = None
    scored: bool = False
    arrived: float = field(default_factory=time.perf_counter)
    answer: Future[Taken] = field(default_factory=Future)

    def settle(self, outcome: Outcome) -> Taken | None:
        """Answer; gives what was taken, None where it was refused."""
        error = outcome.error
        if isinstance(error, JournalError) and not isinstance(error, OutcomeUnknownError):
            # The journal is certain that it has nothing of this batch, a full disk for example.
            error = UnavailableError(str(error))
        if error is not None or outcome.receipt is None:
            self.answer.set_exception(error or TapgnnError("the batch ended without a receipt"))
            return None
        answers = {} if outcome.receipt.duplicate else outcome.answers
        taken = Taken(outcome.receipt, answers.get("score"), answers.get("risk"))
        self.answer.set_result(taken)
        return taken


class Intake:
    """Opens an engine in a thread of its own and feeds it; `listener` is told of every batch that was taken in."""

    def __init__(
        self,
        open_engine: Callable[[], Engine],
        most_batches: int = 256,
        most_events: int = 200_000,
        listener: Callable[[Job, Taken], None] | None = None,
    ) -> None:
        self._open_engine, self._listener = open_engine, listener
        self._most_batches, self._most_events = most_batches, most_events
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tapgnn-intake")
        self._change = threading.Condition()
        self._queue: deque[Job] = deque()
        self._closing = self._told = False
        self._failure: BaseException | None = None
        self._pace = 10_000.0
        self.queued_events = 0
        self.aspects: tuple[Aspect, ...] = ("score",)
        self.opened: Future[Engine] = Future()

    def start(self) -> Future[Engine]:
        """Open the engine, which replays its journal, and then take what comes."""
        self.opened = self._thread.submit(self._open)
        return self.opened

    def _open(self) -> Engine:
        engine = self._open_engine()
        # Whatever else launches threads of OpenMP in this one undoes the engine's choice of a single one.
        set_threads(1)
        if _can_classify(engine):
            self.aspects = ("score", "risk")
        return engine

    @property
    def trouble(self) -> str | None:
        """Why no batch is taken, None while they are."""
        return self._absent() or self._broken(self.opened.result())

    @property
    def engine(self) -> Engine:
        """The engine, once it is open."""
        reason = self._absent()
        if reason is not None:
            raise UnavailableError(reason)
        return self.opened.result()

    @property
    def queued_batches(self) -> int:
        """Batches that wait."""
        return len(self._queue)

    def lag(self) -> float:
        """Seconds that the oldest of them has waited."""
        with self._change:
            return time.perf_counter() - self._queue[0].arrived if self._queue else 0.0

    def submit(self, job: Job) -> Future[Taken]:
        """Queue a batch; a full queue is an `OverloadError`."""
        with self._change:
            if self._is_full(job):
                wait = max(1, math.ceil(self.queued_events / self._pace))
                waiting = f"{len(self._queue)} batches with {self.queued_events:,} events are waiting"
                raise OverloadError(f"{waiting}; try again in {wait} s", wait)
            self._enqueue(job)
        return job.answer

    def submit_patiently(self, job: Job, stop: threading.Event) -> Taken | None:
        """Queue a batch when there is room and wait until it is safe; None when told to stop before it was queued."""
        with self._change:
            while self._is_full(job) and not stop.is_set():
                self._change.wait(0.1)
            if stop.is_set():
                return None
            self._enqueue(job)
        return job.answer.result()

    def close(self) -> None:
        """Take no more, finish what is queued, and close the engine, which writes its last checkpoint."""
        with self._change:
            self._closing = True
        self._thread.shutdown(wait=True)
        if self.opened.done() and self.opened.exception() is None:
            self.opened.result().close()

    def _is_full(self, job: Job) -> bool:
        # One batch always fits, however large, when nothing else waits.
        crowded = self.queued_events + job.size > self._most_events and bool(self._queue)
        return len(self._queue) >= self._most_batches or crowded

    def _enqueue(self, job: Job) -> None:
        engine, reason = self.engine, self.trouble
        if reason is not None:
            raise UnavailableError(reason)
        self._queue.append(job)
        self.queued_events += job.size
        self._thread.submit(self._work, engine)

    def _absent(self) -> str | None:
        """Why there is no engine, None where there is one."""
        if self._closing:
            return "the server is stopping"
        if not self.opened.done():
            return "the journal is being replayed"
        error = self.opened.exception()
        return None if error is None else f"the engine could not be opened: {error}"

    def _broken(self, engine: Engine) -> str | None:
        """What went wrong for good, None where nothing did; it is logged when it is first seen."""
        failure = self._failure
        try:
            engine.check_sound()
            if failure is None:
                return None
            kind = type(failure).__name__
            reason = f"the writer ended in an error ({kind}); start the server again, the journal has everything"
        except TapgnnError as error:
            reason = str(error)
        with self._change:
            told, self._told = self._told, True
        if not told:
            _log.error("not ready", extra={"fields": {"reason": reason}}, exc_info=failure)
        return reason

    def _take(self) -> list[Job]:
        """The batches to commit together, in the order in which they came."""
        with self._change:
            jobs: list[Job] = []
            size = 0
            while self._queue and (not jobs or size + self._queue[0].size <= TOGETHER):
                jobs.append(self._queue.popleft())
                size += jobs[-1].size
            self.queued_events -= size
            self._change.notify_all()
        # A batch that nobody waits for any more, and that was not promised to anybody, is left out.
        return [job for job in jobs if job.answer.set_running_or_notify_cancel()]

    def _request(self, job: Job) -> Request:
        ask = self.aspects if job.scored else ()
        return Request(job.columns, job.producer, job.sequence, job.place, ask, partial(self._settle, job))

    def _settle(self, job: Job, outcome: Outcome) -> None:
        taken = job.settle(outcome)
        if taken is not None and self._listener is not None:
            self._listener(job, taken)

    def _work(self, engine: Engine) -> None:
        """Take in what waits; a round may find that the one before took its batch along."""
        jobs = self._take()
        if not jobs:
            return
        reason = self._broken(engine)
        if reason is not None:
            for job in jobs:
                job.answer.set_exception(UnavailableError(reason))
            return
        start = time.perf_counter()
        try:
            engine.observe_many([self._request(job) for job in jobs])
        except BaseException as error:
            self._failure = error
            # Nobody waits forever for a batch on whose way something broke.
            for job in jobs:
                if not job.answer.done():
                    job.answer.set_exception(OutcomeUnknownError(UNKNOWN.format(type(error).__name__)))
        self._broken(engine)
        spent = max(time.perf_counter() - start, 1e-6)
        self._pace += 0.05 * (sum(job.size for job in jobs) / spent - self._pace)


def _can_classify(engine: Engine) -> bool:
    """Whether the model tells the rare label."""
    with engine.live() as live:
        width = live.model.config.edge_features
        event: dict[str, Any] = {"src": ["?"], "dst": ["?"], "time": [live.now]}
        if width:
            event["features"] = np.zeros((1, width))
        try:
            engine.classify(event)
        except QueryError:
            return False
    return True
