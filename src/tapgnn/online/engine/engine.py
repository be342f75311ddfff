"""The live engine: the core's `advance` on a live state, fed from a journal that loses nothing.

    with Engine.open("model", "state.db") as engine:
        receipt = engine.observe({"src": ["a"], "dst": ["b"], "time": [1.0]}, producer="till-3", sequence=17)
        engine.score(["a"], ["c"])                 probabilities, right after the newest event

`observe` deduplicates, appends to the journal and commits, applies, and only then returns. The state is a fold of the
journal. Any thread may call any method: writers wait for one another, and readers wait neither for commits nor for
checkpoints, only for a batch to be applied.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tapgnn.errors import ConfigError, JournalError, StateError
from tapgnn.estimator import TAPGNN
from tapgnn.events import Events
from tapgnn.model import Trace
from tapgnn.online.engine.ingest import Outcome, Receipt, Request, Writer
from tapgnn.online.engine.live_state import Fold
from tapgnn.online.engine.policy import Late, Policy
from tapgnn.online.engine.queries import Live, Questions, Scores
from tapgnn.online.engine.starting_point import Origin
from tapgnn.online.journal.event_batch import Arriving, Batch
from tapgnn.online.journal.journal import Journal, open_journal
from tapgnn.online.journal.record import Kind, Offset, Record
from tapgnn.online.journal.state_checkpoint import Checkpoints
from tapgnn.online.journal.undo_and_migrate import Rewriting, without_event, without_node
from tapgnn.threads import set_threads
from tapgnn.vocabulary import Id

__all__ = ["Engine", "Live", "Outcome", "Receipt", "Request"]


class Engine(Questions):
    """See the module; made by `Engine.open`. What can be asked of it is in `Questions`."""

    def __init__(self, writer: Writer) -> None:
        self._journal, self._fold, self._writer = writer.journal, writer.fold, writer
        self._writing = threading.RLock()

    @classmethod
    def open(
        cls,
        model: str | Path | TAPGNN,
        journal: str | Path | Journal,
        *,
        late: Late | None = None,
        lateness: float | None = None,
        hold_back: bool | None = None,
        ttl: float | None = None,
        horizon: float = np.inf,
        checkpoint_every: int | None = None,
        threads: int = 1,
        start: Literal["saved", "empty"] = "saved",
        verify: bool = False,
    ) -> Engine:
        """The engine of a journal, replayed to its end; a journal that does not exist is begun.

        late, lateness, hold_back and ttl decide the state and are kept in the journal; None leaves them as they are
        there (for a new one 'reject', 0, True and no limit), another value holds from here on. horizon refuses events
        that lie further than this after the newest. checkpoint_every counts records; None weighs their cost against
        what they save. start, for a new journal: begin with the state saved with the model, or with none. verify reads
        the whole journal once, also what a checkpoint makes needless.
        """
        if checkpoint_every is not None and checkpoint_every < 1:
            raise ConfigError(f"checkpoint_every is a number of records, at least 1, not {checkpoint_every}")
        set_threads(threads)
        wishes = {"late": late, "lateness": lateness, "hold_back": hold_back, "ttl": ttl}
        own = journal if isinstance(journal, Journal) else open_journal(str(journal))
        try:
            checkpoints = _restored(own, Origin.of(model, own.facts().get("start", start)), wishes, verify)
            writer = Writer(checkpoints, checkpoint_every, horizon)
            wanted = writer.fold.policy.changed(**wishes)
            if wanted != writer.fold.policy:
                writer.write(Kind.POLICY, json.dumps(wanted.to_dict()).encode())
            return cls(writer)
        except BaseException:
            own.close()
            raise

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Write a last checkpoint and release the journal."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            try:
                if not (self._writer.broken or self._journal.doubtful or self._journal.lost):
                    self._writer.checkpoints.write()
            finally:
                self._journal.close()

    def observe(
        self, events: Arriving, producer: str | None = None, sequence: int | None = None, offset: Offset | None = None
    ) -> Receipt:
        """Take in one event or a batch: journalled, applied, acknowledged by a Receipt.

        events: `Events`; a mapping of columns or of one row (src, dst, time, features, label); a row (src, dst, time
        [, features[, label]]); or a sequence of rows. A batch that is not valid is refused whole, with an EventError
        (LateEventError for one that is too late) that names the event; nothing has changed then. The same
        (producer, sequence) is taken once. offset is a (topic, partition, offset) kept in the same transaction.
        """
        return _receipt(self._take(Request(events, producer, sequence, offset)))

    def score_then_observe(
        self, events: Arriving, producer: str | None = None, sequence: int | None = None, offset: Offset | None = None
    ) -> tuple[Scores, Receipt]:
        """`observe`, and the probability [E] of each event, in the order given, from what came before its instant.

        The scores of a duplicate are NaN: the present has seen the events themselves. An event that is merged late is
        judged from the present.
        """
        outcome = self._take(Request(events, producer, sequence, offset, ("score",)))
        return outcome.answers["score"], _receipt(outcome)

    def classify_then_observe(
        self, events: Arriving, producer: str | None = None, sequence: int | None = None, offset: Offset | None = None
    ) -> tuple[Scores, Receipt]:
        """As `score_then_observe`, with the classifier's probability [E] of the rare label."""
        outcome = self._take(Request(events, producer, sequence, offset, ("risk",)))
        return outcome.answers["risk"], _receipt(outcome)

    def observe_many(self, requests: Sequence[Request]) -> list[Outcome]:
        """Take in several batches, in order, with one commit; each is a record of its own, and refused by itself.

        An outcome has a receipt, and answers [E] by what its request asked for ('score', 'risk'), or the error that
        refused it.
        """
        with self._writing:
            self._check_open()
            return self._writer.take(requests)

    def flush(self) -> Receipt:
        """Close every held instant: absorb all that is held; what comes later at these times is late."""
        with self._writing:
            self._check_open()
            return self._writer.write(Kind.FLUSH)

    def listen(self, listener: Callable[[Events, Trace], None]) -> None:
        """Have every `advance` of the live state shown, in the writer's thread and under the lock: be quick."""
        self._writer.listeners.append(listener)

    def checkpoint(self) -> None:
        """Make a checkpoint now."""
        with self._writing:
            self._check_open()
            self._writer.checkpoints.write()

    def retract(self, position: int, index: int) -> int:
        """Undo one event exactly: `index` counts the events of the batch at `position` as they were sent.

        The journal is replayed without it into a second state, which then takes over; no trace of it is left. Questions
        are answered meanwhile. Gives the number of events undone, 1.
        """
        with self._writing:
            self._check_open()
            self._switch(without_event(self._journal, self._fold.origin, position, index))
            return 1

    def erase(self, node: Id) -> int:
        """Undo every event of a node exactly, leaving no trace of it in the journal; gives their number."""
        with self._writing:
            self._check_open()
            found, events = without_node(self._journal, self._fold.origin, node)
            if found is not None:
                self._switch(found)
            return events

    def trim(self, position: int) -> int:
        """Drop the records up to a position, or as far as none is still held; gives the last position dropped.

        The state stays. What is dropped can no longer be retracted, erased, or replayed into another model.
        """
        with self._writing:
            self._check_open()
            self._writer.checkpoints.write()
            last = min(position, self._journal.facts().get("checkpoint", {"oldest": 1})["oldest"] - 1)
            if last >= self._journal.first:
                self._journal.trim(last)
            return self._journal.first - 1

    def records(self, first: int = 1, last: int | None = None) -> Iterator[tuple[Record, Batch | None]]:
        """The records of the journal and the events in them (None for a record of another kind)."""
        self._check_open()
        for record in self._journal.records(max(first, self._journal.first), last):
            yield record, Batch.read(record.payload) if record.kind == Kind.EVENTS else None

    def replay(self) -> Iterator[tuple[Events, Trace]]:
        """Fold the journal once more, beside the live state: the events of each `advance`, and its trace.

        Ask a trace before taking the next one. Rows are those of `events.vocabulary`, not those of the live model. What
        is held comes last.
        """
        self._check_open()
        if self._journal.first > 1:
            raise JournalError(f"{self._journal.name} was trimmed; it cannot be replayed from its start")
        fold = _beginning(self._journal, self._fold.origin)
        for record in self._journal.records(1):
            yield from fold.steps(record, fold.read(record))
        held = fold.present()
        if isinstance(held, Trace):
            yield fold.pending.events(fold.roster), held

    def offsets(self) -> dict[tuple[str, int], int]:
        """The newest offset of each (topic, partition) given to `observe`."""
        self._check_open()
        return self._journal.offsets()

    def status(self) -> dict[str, Any]:
        """Where the engine stands, as plain values.

        clock, newest, events (absorbed, those of the saved state included), accepted (in the journal), held, nodes;
        position, applied, checkpoint (positions), checkpoint_age (records since), checkpoint_error; duplicates and
        refused (batches, since it was opened), late (events merged); model (hash), policy.
        """
        self._check_open()
        fold, writer = self._fold, self._writer
        with fold.lock:
            return {
                "clock": fold.clock,
                "newest": fold.newest,
                "events": fold.state.events,
                "accepted": fold.accepted,
                "held": len(fold.pending),
                "nodes": fold.roster.population,
                "position": self._journal.head,
                "applied": fold.position,
                "checkpoint": writer.checkpoints.position,
                "checkpoint_age": fold.position - writer.checkpoints.position,
                "checkpoint_error": writer.trouble,
                "duplicates": writer.duplicates,
                "refused": writer.refused,
                "late": fold.late,
                "model": fold.origin.digest,
                "policy": fold.policy.to_dict(),
            }

    def check_sound(self) -> None:
        """Refuse to go on where nothing can be taken in until the engine is opened again."""
        self._check_open()
        self._writer.check_sound()
        if self._journal.lost:
            raise JournalError(f"{self._journal.name}: the connection was lost; open the engine again when it is back")

    def state_digest(self) -> str:
        """The sha256 of all that was folded: ids, arena rows, clock, counters, policy, held events."""
        self._check_open()
        with self._fold.lock:
            return self._fold.digest()

    def _take(self, request: Request) -> Outcome:
        (outcome,) = self.observe_many([request])
        if outcome.error is not None:
            raise outcome.error
        return outcome

    def _switch(self, found: Rewriting) -> None:
        """Let another fold of a changed journal take over, and wipe what was before."""
        self._writer.checkpoints = found.finish()
        self._fold = self._writer.fold = found.fold
        self._journal.finish_wiping()


def _receipt(outcome: Outcome) -> Receipt:
    if outcome.receipt is None:
        raise StateError("a batch was taken in without a receipt; open the engine again")
    return outcome.receipt


def _restored(journal: Journal, origin: Origin, wishes: dict[str, Any], verify: bool) -> Checkpoints:
    """The fold of a journal up to its end, from its checkpoint; a journal without a model is given this one."""
    facts = journal.facts()
    if "model" not in facts:
        journal.set_facts({**origin.identity(), "known": 0, "policy": Policy().changed(**wishes).to_dict()})
        facts = journal.facts()
    for name, what in (("model", "model"), ("base", "state saved with the model")):
        ours = origin.identity()[name]
        if facts[name] != ours:
            raise JournalError(
                f"{journal.name} was folded with another {what} ({facts[name][:12]}..., not {ours[:12]}...); open it "
                "with that one, or run 'tapgnn migrate' to replay it into this one (nothing was changed)"
            )
    if verify:
        journal.verify()
    checkpoints = Checkpoints(journal, _beginning(journal, origin))
    checkpoints.restore()
    for record in journal.records(checkpoints.fold.position + 1):
        checkpoints.fold.apply(record)
    return checkpoints


def _beginning(journal: Journal, origin: Origin) -> Fold:
    """The fold of a journal before its first record."""
    facts = journal.facts()
    return Fold(origin, Policy.from_dict(facts["policy"]), facts["known"])
