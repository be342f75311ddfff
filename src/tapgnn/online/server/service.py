"""The service: one engine with its intake, its readers, its sources and what is kept to watch it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from tapgnn.errors import OverloadError, TapgnnError
from tapgnn.online.engine.engine import Engine
from tapgnn.online.engine.warm_up import warm_up
from tapgnn.online.server.ingest_queue import Intake, Job, Taken
from tapgnn.online.server.middleware import Limits
from tapgnn.online.server.node_insights import Observatory
from tapgnn.online.server.prometheus_metrics import Metrics
from tapgnn.online.server.recent_activity import Feed
from tapgnn.online.server.tokens import Tokens
from tapgnn.online.sources import Place, Source

_log = logging.getLogger("tapgnn.online.server")

Answer = TypeVar("Answer")
UNDO_SECONDS = 5


@dataclass(frozen=True)
class Settings:
    """How a server behaves; see `tapgnn serve --help`.

    events            most events of one request
    queue, waiting    most batches and most events that wait
    questions         most questions that wait
    window            latest events that are kept to explain scores
    watch             so many events a second are scored before they are applied, for the page
    """

    tokens: Tokens | None = None
    limits: Limits = field(default_factory=Limits)
    events: int = 10_000
    queue: int = 256
    waiting: int = 200_000
    questions: int = 256
    window: int = 10_000
    watch: float = 1_000.0


class Service:
    """Everything behind the routes."""

    def __init__(self, open_engine: Callable[[], Engine], settings: Settings, sources: Sequence[Source] = ()) -> None:
        self.settings = settings
        self.feed = Feed()
        self._open_engine = open_engine
        self.intake = Intake(self._open, settings.queue, settings.waiting, self._observed)
        self.metrics = Metrics(self.intake, sources, lambda: self.trouble is None)
        self.failure: TapgnnError | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self.started = time.time()
        self._observatory: Observatory | None = None
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="tapgnn-reader")
        self._rewriter = ThreadPoolExecutor(1, thread_name_prefix="tapgnn-rewriter")
        self._undoing = False
        self._asked = 0
        self._allowance, self._watched = 0.0, 0.0
        self._sources = sources
        self._stop = threading.Event()
        self._followers = ThreadPoolExecutor(max(1, len(sources)), thread_name_prefix="tapgnn-source")

    def start(self) -> None:
        """Open the engine in the background; `trouble` is None when its journal is replayed."""
        self.intake.start().add_done_callback(self._opened)

    def _open(self) -> Engine:
        """The engine, with everything around it that needs it."""
        engine = self._open_engine()
        try:
            with engine.live() as live:
                warm_up(live.model)
            self._observatory = Observatory(engine, self.settings.window)
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
        told = error if isinstance(error, TapgnnError) else TapgnnError(f"the server broke: {error!r}")
        _log.error("failed", extra={"fields": {"reason": str(told)}}, exc_info=None if told is error else error)
        self.failure = told
        self.on_failure()
        return True

    def _follow(self, source: Source, engine: Engine) -> None:
        """Let a source deliver; one that fails stops the server, because its events would be missing."""

        def deliver(columns: Mapping[str, Any], place: Place | None) -> None:
            size = len(columns["time"])
            self.intake.submit_patiently(Job(columns, size, place=place, scored=self.watches(size)), self._stop)

        source.run(deliver, engine.offsets(), self._stop)
        _log.info("source ended", extra={"fields": {"source": source.name}})

    def close(self) -> None:
        """Stop the sources, finish what is queued, checkpoint."""
        self._stop.set()
        self._followers.shutdown(wait=True)
        self._rewriter.shutdown(wait=True)
        self.intake.close()
        self._readers.shutdown(wait=True)
        _log.info("closed")

    @property
    def trouble(self) -> str | None:
        """Why no events are taken, None while the server is ready."""
        return self.intake.trouble if self.failure is None else str(self.failure)

    @property
    def observatory(self) -> Observatory:
        """What needs the window of recent events."""
        if self._observatory is None:
            # Says why it is not there yet.
            _ = self.intake.engine
            raise TapgnnError("the window of recent events is not there yet; ask again")
        return self._observatory

    def watches(self, size: int) -> bool:
        """Whether a batch is scored for the page: so many events a second, and none while other batches wait."""
        now = time.monotonic()
        self._allowance = min(self._allowance + (now - self._watched) * self.settings.watch, self.settings.watch)
        self._watched = now
        if self._allowance <= 0 or self.intake.queued_batches > 1:
            return False
        self._allowance -= size
        return True

    async def write(self, job: Job) -> Taken:
        """Queue a batch and wait until it is durable and applied."""
        return await asyncio.wrap_future(self.intake.submit(job))

    async def undo(self, work: Callable[[Engine], int]) -> int:
        """Take events back, one request at a time; gives how many. What is kept to watch the stream is forgotten."""
        if self._undoing:
            raise OverloadError(f"other events are being taken back; try again in {UNDO_SECONDS} s", UNDO_SECONDS)
        engine = self.intake.engine
        self._undoing = True
        working = self._rewriter.submit(self._undo, work, engine)
        working.add_done_callback(lambda _: setattr(self, "_undoing", False))
        return await asyncio.wrap_future(working)

    def _undo(self, work: Callable[[Engine], int], engine: Engine) -> int:
        with engine.live() as live:
            before = live.fold
        try:
            return work(engine)
        finally:
            with engine.live() as live:
                switched = live.fold is not before
            if switched:
                self.feed.clear()
                self.observatory.forget()

    async def read(self, question: Callable[..., Answer], *arguments: Any) -> Answer:
        """Ask in a thread of the readers; too many questions at once are refused."""
        if self._asked >= self.settings.questions:
            raise OverloadError(f"{self._asked} questions are waiting; try again in 1 s", 1)
        self._asked += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, question, *arguments)
        finally:
            self._asked -= 1

    def status(self) -> dict[str, Any]:
        """What the engine says of itself, with what is not a finite number left out."""
        status = self.intake.engine.status()
        return {
            key: None if isinstance(value, float) and not np.isfinite(value) else value for key, value in status.items()
        }

    def _observed(self, job: Job, taken: Taken) -> None:
        self.metrics.observed(job, taken)
        self.feed.observed(job, taken)
