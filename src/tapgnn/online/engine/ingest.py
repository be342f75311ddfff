"""The writer: takes batches in. Deduplicate, check, append and commit, apply, and only then acknowledge.

Several requests may share one commit: each is its own record, and is refused or acknowledged by itself. Nothing is
applied that was not journalled, and nothing is journalled that could not be applied.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch

from tapgnn.errors import (
    AnswerGoneError,
    ConfigError,
    EventError,
    JournalError,
    OutcomeUnknownError,
    StateError,
    TapgnnError,
    UnavailableError,
    advise,
)
from tapgnn.events import Events, Floats
from tapgnn.model import Trace
from tapgnn.online.engine.admission import Admission
from tapgnn.online.engine.ingest_scoring import IngestScoring, classifier_of
from tapgnn.online.engine.live_state import LiveState
from tapgnn.online.engine.node_ids import NodeIds
from tapgnn.online.engine.reorder_buffer import ANY, ReorderBuffer
from tapgnn.online.explain.moment import Moment
from tapgnn.online.journal.event_batch import EventBatch
from tapgnn.online.journal.event_rows import Arriving, RowReader
from tapgnn.online.journal.journal import Journal
from tapgnn.online.journal.kept_answers import MOST_EVENTS, Answer
from tapgnn.online.journal.record import Kind, Reached, Record
from tapgnn.online.journal.state_checkpoint import Checkpoints

log = logging.getLogger(__name__)

Listener = Callable[[Events, Trace], None]
OUTCOME_UNKNOWN = (
    "it is unknown whether this batch is in the journal ({}); send it again only if it has a producer and a sequence"
)


@dataclass(frozen=True)
class Receipt:
    """What became of a batch once it is durable.

    position    of its record in the journal (for a duplicate, of the first one's)
    accepted    events taken in: all of the batch, or 0 for a duplicate
    duplicate   this (producer, sequence) was in the journal already; nothing was done
    late        of the accepted, those that were older than what was absorbed and were merged into the present instant
    held        events in the journal that wait for their instant to close (queries see them nevertheless)
    clock       time of the newest instant absorbed, -inf for none
    """

    position: int
    accepted: int
    duplicate: bool
    late: int
    held: int
    clock: float


class Stages(NamedTuple):
    """When a batch went through the writer, as `time.perf_counter` has it; those of one commit share the first two."""

    checked: float
    committed: float
    applying: float
    applied: float


@dataclass(frozen=True)
class Outcome:
    """A receipt, and the scores [E] that the request asked for, from before the model learnt of the events.

    Those of a duplicate are the ones that were first given; None where they are not kept. `moments` of the riskiest
    events, by their place in the batch, are for explanations. `stages` are those of a batch that is no duplicate.
    """

    receipt: Receipt
    scores: Floats | None = None
    risks: Floats | None = None
    moments: Mapping[int, Moment] = field(default_factory=dict)
    stages: Stages | None = None

    @property
    def probabilities(self) -> Floats | None:
        """Deprecated: the same as `scores`."""
        return self.scores

    def given(self, name: Literal["scores", "risks"]) -> Floats:
        """The scores or risks [E]; an error where those of a duplicate are not kept."""
        found: Floats | None = getattr(self, name)
        if found is None:
            raise AnswerGoneError(
                f"this batch was taken in before, at position {self.receipt.position}, and counts once; its scores are "
                f"not kept: they are where it was scored then, for the latest {MOST_EVENTS:,} scored events, and until "
                "an event of the batch is undone"
            )
        return found


@dataclass(frozen=True)
class Request:
    """A batch to take in.

    score, classify   also give the score, the risk, of each event
    told              the sender is told these: they are kept for a repetition of the same sequence
    keep              of scored events, keep the moments of at least so many
    reached           offsets of sources, kept in the same transaction
    answer            set as soon as the batch is applied or refused, before others of its commit are applied
    """

    events: Arriving
    producer: str | None = None
    sequence: int | None = None
    reached: Reached = ()
    score: bool = False
    classify: bool = False
    keep: int = 0
    told: bool = False
    arrived: float = field(default_factory=time.perf_counter, compare=False)
    answer: Future[Outcome] = field(default_factory=Future, compare=False)


class Writer:
    """The one writer of a journal and its live state; the caller makes sure that one thread at a time is in it.

    refusal   why the journal could not take the latest batch, None where it could
    broken    the state is half of what it was and half of what it was to be
    """

    def __init__(self, checkpoints: Checkpoints, every: int | None, admission: Admission = ANY) -> None:
        self.journal, self.live, self.checkpoints = checkpoints.journal, checkpoints.live, checkpoints
        self.every, self.admission = every, admission
        self.duplicates = self.refused = 0
        self.checkpoint_error: str | None = None
        self.refusal: str | None = None
        self.listeners: list[Listener] = []
        self.broken = False
        schema = self.live.start.table.schema
        self.rows, self.node_ids = RowReader(schema, self.live.model.config), NodeIds(schema)

    def take(self, requests: Sequence[Request]) -> None:
        """Take requests in, in order, in one commit (in several, where one repeats another's sequence)."""
        self.check_usable()
        wanted: Sequence[Request] = [request for request in requests if _is_wanted(request)]
        while wanted:
            wanted = self._take_group(wanted)
        self._checkpoint_if_due()

    def write(self, kind: Kind, payload: bytes = b"") -> Receipt:
        """Write a record that is not a batch, and apply it."""
        self.check_usable()
        (record,) = self.journal.append([Record(kind, payload)])
        self.apply(record, None)
        self._checkpoint_if_due()
        return self._receipt(record.position)

    def check_usable(self) -> None:
        """Refuse to go on where the state or the journal has failed, until that has recovered."""
        self.check_intact()
        self.journal.check_usable()

    def check_intact(self) -> None:
        """Refuse to use a state after a failure in the middle of a batch."""
        if self.broken:
            raise advise(
                StateError,
                "the engine failed while applying a batch, of which the journal has lost nothing",
                "call recover(), or open it again, to replay the journal",
                "start the command again, which replays the journal",
                "the server recovers by itself; send the request again later",
            )

    def apply(self, record: Record, batch: EventBatch | None, scoring: IngestScoring | None = None) -> None:
        """Apply a journalled record, and score its events on the way; what its sender is told is kept."""
        with self._all_or_broken(), self.live.lock:
            apply_record(self.journal, self.live, record, batch, scoring, self.listeners)

    def _take_group(self, requests: Sequence[Request]) -> Sequence[Request]:
        """Take requests in one commit; gives those that are left, from the first repetition within the commit on."""
        forecast, seen = self.live.buffer.forecast(), set[tuple[str | None, int | None]]()
        ready: list[tuple[Request, EventBatch, Record]] = []
        left: Sequence[Request] = ()
        for number, request in enumerate(requests):
            key = request.producer, request.sequence
            if request.producer is not None and key in seen:
                left = requests[number:]
                break
            try:
                found = self._prepare(request, forecast)
            except TapgnnError as error:
                self.refused += 1
                # Where the journal failed here, certainly nothing of the batch was taken in.
                request.answer.set_exception(UnavailableError(str(error)) if isinstance(error, JournalError) else error)
                continue
            if found is not None:
                ready.append((request, *found))
                seen.add(key)
        if ready:
            self._commit(ready)
        return left

    def _prepare(self, request: Request, forecast: ReorderBuffer) -> tuple[EventBatch, Record] | None:
        """Check a request against what will be; None for a duplicate, which is answered."""
        batch = self.rows.read(request.events)
        told = request.told and request.sequence is not None
        kind = Kind.of_events(told and request.score, told and request.classify)
        record = Record(kind, batch.payload(), request.producer, request.sequence, request.reached)
        earlier = self.journal.find(record.producer, record.sequence)
        if earlier is not None:
            _check_same(earlier, record, batch)
            self.duplicates += 1
            answer = self.journal.answers.find(earlier.position) if request.told else Answer()
            request.answer.set_result(Outcome(self._receipt(earlier.position, duplicate=True), *answer))
            return None
        if request.classify:
            classifier_of(self.live)
        forecast.add(batch, self.admission)
        return batch, record

    def _commit(self, ready: Sequence[tuple[Request, EventBatch, Record]]) -> None:
        """Append what is ready in one transaction and apply it; what the journal cannot take, it takes nothing of."""
        # Where this ends early, some of it may be journalled and not applied.
        checked = time.perf_counter()
        with self._all_or_broken():
            try:
                records = self.journal.append([record for *_, record in ready])
                self.refusal = None
            except JournalError as error:
                unknown, reason = self.journal.outcome_unknown, str(error)
                self.refusal = reason
                for request, *_ in ready:
                    request.answer.set_exception(
                        OutcomeUnknownError(OUTCOME_UNKNOWN.format(reason)) if unknown else UnavailableError(reason)
                    )
                return
            committed = time.perf_counter()
            for record, (request, batch, _) in zip(records, ready, strict=True):
                applying = time.perf_counter()
                wanted = request.score, request.classify, request.keep
                scoring = IngestScoring(self.live, batch, *wanted) if any(wanted[:2]) else None
                late = self.live.buffer.late
                self.apply(record, batch, scoring)
                receipt = self._receipt(record.position, len(batch), late=self.live.buffer.late - late)
                stages = Stages(checked, committed, applying, time.perf_counter())
                answer, moments = (Answer(), {}) if scoring is None else (scoring.answer, scoring.moments)
                request.answer.set_result(Outcome(receipt, *answer, moments, stages))

    def _receipt(self, position: int, accepted: int = 0, duplicate: bool = False, late: int = 0) -> Receipt:
        return Receipt(position, accepted, duplicate, late, len(self.live.buffer), self.live.clock)

    def _checkpoint_if_due(self) -> None:
        """Make a checkpoint when one is due; a failure endangers nothing, so it is only reported."""
        if not self.checkpoints.due(self.every):
            return
        try:
            self.checkpoints.write()
            self.checkpoint_error = None
        except JournalError as error:
            self.checkpoint_error = str(error)
            log.warning("no checkpoint: %s", error)

    @contextmanager
    def _all_or_broken(self) -> Iterator[None]:
        """What begins here must end; where it does not, the engine is broken until it is opened again."""
        try:
            yield
        except BaseException:
            self.broken = True
            raise


@torch.no_grad()
def apply_record(
    journal: Journal,
    live: LiveState,
    record: Record,
    batch: EventBatch | None,
    scoring: IngestScoring | None = None,
    listeners: Sequence[Listener] = (),
) -> None:
    """Apply the next record of a journal; an answer that its sender was told is kept."""
    scoring = IngestScoring.told(live, record, batch) if scoring is None else scoring
    steps = live.steps(record, batch)
    for events, trace in steps if scoring is None else scoring.along(steps):
        for listener in listeners:
            listener(events, trace)
    if scoring is not None and any(record.kind.told):
        journal.answers.add(record.position, scoring.answer)


def _is_wanted(request: Request) -> bool:
    """Whether somebody still waits for the answer; from here on it can no longer be cancelled."""
    answer = request.answer
    if answer.running() or (answer.done() and not answer.cancelled()):
        raise ConfigError("a request can be taken in only once; make a new one to send its events again")
    return answer.set_running_or_notify_cancel()


def _check_same(earlier: Record, record: Record, batch: EventBatch) -> None:
    """A sequence that comes again must bring what it brought, unless some of that was retracted or trimmed since."""
    same = earlier.payload == record.payload or earlier.position == 0 or batch.is_same(earlier.payload)
    if same or EventBatch.read(earlier.payload).index is not None:
        return
    raise EventError(
        f"sequence {record.sequence} of producer {record.producer!r} came before with other events, at position "
        f"{earlier.position}; a producer gives every batch its own number, and keeps counting when it restarts"
    )
