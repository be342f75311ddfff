"""The writer: takes batches in. Deduplicate, check, append and commit, apply, and only then acknowledge.

Several requests may share one commit: each is its own record, and is refused or acknowledged by itself. Nothing is
applied that was not journalled, and nothing is journalled that could not be applied.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch

from tapgnn.errors import EventError, JournalError, OutcomeUnknownError, StateError, TapgnnError
from tapgnn.events import Events
from tapgnn.model import Trace
from tapgnn.online.engine.clock_forecast import Outlook
from tapgnn.online.engine.ingest_scoring import Answers, Aspect, Inquiry, check_aspects
from tapgnn.online.journal.event_batch import Arriving, Batch
from tapgnn.online.journal.record import Entry, Kind, Offset, Record
from tapgnn.online.journal.state_checkpoint import Checkpoints

log = logging.getLogger(__name__)

UNKNOWN = (
    "it is not known whether this batch is in the journal; open the engine again, and send the batch again only if it "
    "has a producer and a sequence ({})"
)


@dataclass(frozen=True)
class Receipt:
    """What became of a batch once it is safe.

    position    of its record in the journal (of the first one's, for a duplicate)
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


@dataclass(frozen=True)
class Request:
    """A batch to take in.

    ask     what to say of each event before learning of it: 'score', 'risk'
    told    hears of the outcome as soon as the batch is applied or refused, before others of its commit are applied
    """

    events: Arriving
    producer: str | None = None
    sequence: int | None = None
    offset: Offset | None = None
    ask: Sequence[Aspect] = ()
    told: Callable[[Outcome], None] | None = None

    def tell(self, outcome: Outcome) -> None:
        """Say what became of it to the one who wants to know."""
        if self.told is not None:
            self.told(outcome)


@dataclass
class Outcome:
    """What became of a request: a receipt and the answers [E] by name, or the error that refused it."""

    receipt: Receipt | None = None
    answers: dict[Aspect, Answers] = field(default_factory=dict)
    error: TapgnnError | None = None


class Writer:
    """The one writer of a journal and its fold; the caller makes sure that one thread at a time is in it."""

    def __init__(self, checkpoints: Checkpoints, every: int | None, horizon: float) -> None:
        self.journal, self.fold, self.checkpoints = checkpoints.journal, checkpoints.fold, checkpoints
        self.every, self.horizon = every, horizon
        self.duplicates = self.refused = 0
        self.trouble: str | None = None
        self.listeners: list[Callable[[Events, Trace], None]] = []
        self.broken = False

    def take(self, requests: Sequence[Request]) -> list[Outcome]:
        """Take requests in, in order, in one commit (in several, where one repeats another's sequence)."""
        self.check_sound()
        outcomes: list[Outcome] = []
        while len(outcomes) < len(requests):
            outcomes += self._take_group(requests[len(outcomes) :])
        self.keep()
        return outcomes

    def write(self, kind: Kind, payload: bytes = b"") -> Receipt:
        """Write a record that is not a batch, and apply it."""
        self.check_sound()
        (record,) = self.journal.append([Entry(kind, payload)])
        self.apply(record, None)
        self.keep()
        return self.receipt(record.position)

    def receipt(self, position: int, accepted: int = 0, duplicate: bool = False, late: int = 0) -> Receipt:
        """A receipt as of now."""
        return Receipt(position, accepted, duplicate, late, len(self.fold.pending), self.fold.clock)

    def keep(self) -> None:
        """Make a checkpoint when one is due; that it fails endangers nothing, so it is only told."""
        if not self.checkpoints.due(self.every):
            return
        try:
            self.checkpoints.write()
            self.trouble = None
        except JournalError as error:
            self.trouble = str(error)
            log.warning("no checkpoint: %s", error)

    def check_sound(self) -> None:
        """Refuse to go on after something broke in the middle."""
        if self.broken:
            raise StateError("the engine broke while it applied a batch; open it again, the journal has everything")
        self.journal.check_certain()

    def _take_group(self, requests: Sequence[Request]) -> list[Outcome]:
        outlook, outcomes, seen = self.fold.outlook(), list[Outcome](), set[tuple[str, int]]()
        ready: list[tuple[Outcome, Request, Batch, Entry]] = []
        for request in requests:
            if request.producer is not None and (request.producer, request.sequence) in seen:
                break
            outcome = Outcome()
            outcomes.append(outcome)
            try:
                found = self._prepare(request, outlook, outcome)
            except TapgnnError as error:
                self.refused += 1
                outcome.error = error
                found = None
            if found is None:
                request.tell(outcome)
            else:
                ready.append((outcome, request, *found))
                if request.producer is not None and request.sequence is not None:
                    seen.add((request.producer, request.sequence))
        if ready:
            self._commit(ready)
        return outcomes

    def _commit(self, ready: Sequence[tuple[Outcome, Request, Batch, Entry]]) -> None:
        """Append what is ready in one transaction and apply it; what the journal cannot take, it takes nothing of."""
        # Where this ends early, some of it may be journalled and not applied.
        with self._whole():
            try:
                records = self.journal.append([entry for *_, entry in ready])
            except JournalError as error:
                for outcome, request, *_ in ready:
                    outcome.error = OutcomeUnknownError(UNKNOWN.format(error)) if self.journal.doubtful else error
                    request.tell(outcome)
                return
            for record, (outcome, request, batch, _) in zip(records, ready, strict=True):
                late = self.fold.outlook().late(batch)
                outcome.answers = self.apply(record, batch, request.ask)
                outcome.receipt = self.receipt(record.position, len(batch), late=late)
                request.tell(outcome)

    def _prepare(self, request: Request, outlook: Outlook, outcome: Outcome) -> tuple[Batch, Entry] | None:
        """Check a request against what will be; None for a duplicate."""
        batch = Batch.of(request.events, self.fold.model.config)
        entry = Entry(Kind.EVENTS, batch.payload(), request.producer, request.sequence, request.offset)
        check_aspects(self.fold, request.ask)
        if entry.producer is not None and entry.sequence is not None:
            earlier = self.journal.find(entry.producer, entry.sequence)
            if earlier is not None:
                _check_same(earlier, entry)
                self.duplicates += 1
                outcome.receipt = self.receipt(earlier.position, duplicate=True)
                outcome.answers = {name: np.full(len(batch), np.nan) for name in request.ask}
                return None
        outlook.check(batch, self.horizon)
        outlook.take(batch)
        return batch, entry

    def apply(self, record: Record, batch: Batch | None, ask: Sequence[Aspect] = ()) -> dict[Aspect, Answers]:
        """Fold a journalled record in; gives the answers about its events."""
        with self._whole(), self.fold.lock, torch.no_grad():
            inquiry = None if batch is None or not ask else Inquiry(self.fold, batch, ask)
            if inquiry is not None:
                inquiry.before()
            for events, trace in self.fold.steps(record, batch):
                if inquiry is not None:
                    inquiry.during(events, trace)
                for listener in self.listeners:
                    listener(events, trace)
            if inquiry is None:
                return {}
            inquiry.after()
            return inquiry.answers

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """What begins here must end; where it does not, the engine is broken until it is opened again."""
        try:
            yield
        except BaseException:
            self.broken = True
            raise


def _check_same(earlier: Record, entry: Entry) -> None:
    """A sequence that comes again must bring what it brought, unless some of that was retracted or trimmed since."""
    if earlier.position == 0 or earlier.payload == entry.payload or Batch.read(earlier.payload).index is not None:
        return
    raise EventError(
        f"sequence {entry.sequence} of producer {entry.producer!r} came before with other events, at position "
        f"{earlier.position}; a producer gives every batch a number of its own, and keeps counting when it restarts"
    )
