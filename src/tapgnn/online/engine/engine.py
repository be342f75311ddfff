"""The live engine: the core's `advance` on a live state, fed from a journal that loses nothing.

    with Engine.open("model", "state.db") as engine:
        receipt = engine.observe({"src": ["a"], "dst": ["b"], "time": [1.0]}, producer="till-3", sequence=17)
        engine.score(["a"], ["c"])                 scores, right after the newest event

`observe` deduplicates, appends to the journal and commits, applies, and only then returns. The state is a fold of the
journal. Any thread may call any method: writers wait for one another, and readers wait neither for commits nor for
checkpoints, only for a batch to be applied.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tapgnn.data.schema import Schema
from tapgnn.errors import ConfigError, JournalError
from tapgnn.estimator import TAPGNN
from tapgnn.events import Events, Floats
from tapgnn.model import Trace
from tapgnn.online.engine.admission import MAX_HELD, Admission
from tapgnn.online.engine.ingest import Outcome, Receipt, Request, Writer, apply_record
from tapgnn.online.engine.live_state import LiveState
from tapgnn.online.engine.policy import Late, Policy
from tapgnn.online.engine.queries import Queries
from tapgnn.online.engine.starting_point import StartingPoint
from tapgnn.online.journal.backup import back_up
from tapgnn.online.journal.event_batch import EventBatch, batch_in
from tapgnn.online.journal.event_rows import Arriving, RowReader
from tapgnn.online.journal.journal import Journal
from tapgnn.online.journal.journal_place import open_journal
from tapgnn.online.journal.record import Kind, Offset, Record
from tapgnn.online.journal.state_checkpoint import Checkpoints
from tapgnn.online.journal.undo_and_migrate import is_mentioned, rewrite, without_event, without_node
from tapgnn.threads import set_threads
from tapgnn.vocabulary import Id


class Engine(Queries):
    """See the module; made by `Engine.open`. What it answers is in `Queries`."""

    def __init__(self, writer: Writer) -> None:
        self._journal, self._live, self._writer = writer.journal, writer.live, writer
        self._writing = threading.RLock()

    @classmethod
    def open(
        cls,
        model: str | Path | TAPGNN | StartingPoint,
        journal: str | Path | Journal,
        *,
        late: Late | None = None,
        lateness: float | None = None,
        hold_back: bool | None = None,
        ttl: float | None = None,
        horizon: float | None = None,
        max_held: int = MAX_HELD,
        checkpoint_every: int | None = None,
        threads: int = 1,
        start: Literal["saved", "empty"] = "saved",
        verify: bool = False,
    ) -> Engine:
        """Open a journal and replay it to its end; a journal that does not exist is created.

        late, lateness, hold_back and ttl decide the state and are kept in the journal; None leaves them as they are
        there (for a new one 'reject', 0, True and no limit), another value holds from here on. horizon refuses events
        that are further than this after the newest; None allows a hundred times the length of the training log, and a
        century where times are dates. max_held refuses batches after which more events would wait for later ones.
        checkpoint_every counts records; None weighs the cost of a checkpoint against what it saves. start, for a new
        journal: the state saved with the model, or an empty one. verify reads the whole journal once.
        """
        for name, what, number in (("checkpoint_every", "records", checkpoint_every), ("max_held", "events", max_held)):
            if number is not None and number < 1:
                raise ConfigError(f"{name} is a number of {what}, at least 1, not {number}")
        set_threads(threads)
        changes = {"late": late, "lateness": lateness, "hold_back": hold_back, "ttl": ttl}
        own = open_journal(journal)
        try:
            checkpoints = _restored(own, StartingPoint.of(model, own.metadata().get("start", start)), changes, verify)
            config, schema = checkpoints.live.model.config, checkpoints.live.start.table.schema
            writer = Writer(checkpoints, checkpoint_every, Admission.of(config, schema, horizon, max_held))
            before = writer.live.buffer.policy
            wanted = before.changed(**changes)
            if wanted != before:
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
                if not (self._writer.broken or self._journal.outcome_unknown or self._journal.connection_lost):
                    self._writer.checkpoints.write()
            finally:
                self._journal.close()

    def recover(self) -> bool:
        """Go on after a failure: connect to the journal again, and bring the state to where the journal ends.

        That tells what became of a commit whose outcome was unknown. Gives whether the state had to be replayed from
        the latest checkpoint. An error says what still fails; nothing is lost then, and it can be called again.
        """
        with self._alone():
            journal, writer = self._journal, self._writer
            if journal.outcome_unknown or journal.connection_lost:
                writer.broken = not journal.reopen() or writer.broken
            journal.check_writable()
            replayed = writer.broken or not writer.checkpoints.are_latest()
            if replayed:
                self._switch_to(_restored(journal, self._live.start, {}, verify=False))
                writer.broken = False
            else:
                for record in journal.records(self._live.position + 1):
                    writer.apply(record, self._live.read(record))
            writer.refusal = None
            return replayed

    def ping(self) -> None:
        """Ask the journal for a sign of life; an error, and `check_usable`, tell that there is none."""
        self._check_open()
        self._journal.ping()

    def observe(
        self, events: Arriving, producer: str | None = None, sequence: int | None = None, offset: Offset | None = None
    ) -> Receipt:
        """Take in one event or a batch: it is journalled and applied when this returns.

        events: rows in the words of the table the model was fitted on: a frame, dicts, one dict, a mapping of columns
        (src, dst, time and label stand for the columns with these roles); tuples (src, dst, time[, features[, label]]);
        or `Events`. A column that is left out, or None, is missing. A batch that is not valid is refused whole, with an
        EventError (LateEventError for one that is too late) that names the event; nothing has changed then. The same
        (producer, sequence) is taken once. offset is a (topic, partition, offset) kept in the same transaction.
        """
        return self._take(events, producer, sequence, offset).receipt

    def score_then_observe(
        self, events: Arriving, producer: str | None = None, sequence: int | None = None, offset: Offset | None = None
    ) -> tuple[Floats, Receipt]:
        """`observe`, and the score [E] of each event, in the order given, from what came before its instant.

        The scores of a duplicate are those that were first given, or an AnswerGoneError where they are no longer kept.
        An event that is merged late is scored from the present.
        """
        outcome = self._take(events, producer, sequence, offset, score=True, told=True)
        return outcome.given("scores"), outcome.receipt

    def classify_then_observe(
        self, events: Arriving, producer: str | None = None, sequence: int | None = None, offset: Offset | None = None
    ) -> tuple[Floats, Receipt]:
        """As `score_then_observe`, with the classifier's probability [E] of the positive label."""
        outcome = self._take(events, producer, sequence, offset, classify=True, told=True)
        return outcome.given("risks"), outcome.receipt

    def observe_many(self, requests: Sequence[Request]) -> None:
        """Take in several batches, in order, with one commit; each is a record of its own, and refused by itself.

        `request.answer` is a future: its result is an `Outcome`, or it raises the error that refused the batch.
        """
        with self._alone():
            self._writer.take(requests)

    def flush(self) -> Receipt:
        """Close every held instant: absorb all that is held; what comes later at these times is late."""
        with self._alone():
            return self._writer.write(Kind.FLUSH)

    def listen(self, listener: Callable[[Events, Trace], None]) -> None:
        """Call `listener` with every `advance`, in the writer's thread and with the lock held: it must be quick."""
        self._writer.listeners.append(listener)

    def checkpoint(self) -> None:
        """Make a checkpoint now."""
        with self._alone():
            self._writer.checkpoints.write()

    def backup(self, path: str | Path | None = None) -> dict[str, Any]:
        """Copy the journal to a file that does not exist, while batches are taken in; the copy is a journal.

        Gives the place (beside the journal where none is named), the last position and the bytes of the copy. A journal
        in PostgreSQL is copied by pg_dump instead.
        """
        self._check_open()
        return back_up(self._journal, self._journal.copy_place if path is None else path)

    def retract(self, position: int, index: int) -> int:
        """Undo one event exactly: `index` counts the events of the batch at `position` as they were sent.

        The journal is replayed without it into a second state, which then takes over; no trace of it is left. Queries
        are answered meanwhile. Gives the number of events undone, 1.
        """
        with self._alone():
            self._rewrite([without_event(self._journal, self._live.start, position, index)])
            return 1

    def erase(self, node: Id) -> int:
        """Undo every event of a node exactly, leaving no trace of it in the journal; gives their number."""
        with self._alone():
            inside = self.node_ids.node(node, lambda name: is_mentioned(self._journal, self._live.start, name))
            changed, events = without_node(self._journal, self._live.start, inside)
            if changed:
                self._rewrite(changed)
            return events

    def trim(self, position: int) -> int:
        """Drop the records up to a position, or as far as none is still held; gives the last position dropped.

        The state stays. What is dropped can no longer be retracted, erased, or replayed into another model.
        """
        with self._alone():
            self._writer.checkpoints.write()
            last = min(position, self._journal.metadata().get("checkpoint", {"oldest": 1})["oldest"] - 1)
            if last >= self._journal.first:
                self._journal.trim(last)
            return self._journal.first - 1

    def records(self, first: int = 1, last: int | None = None) -> Iterator[tuple[Record, EventBatch | None]]:
        """The records of the journal and the events in them (None for a record of another kind)."""
        self._check_open()
        for record in self._journal.records(max(first, self._journal.first), last):
            yield record, batch_in(record)

    def replay(self) -> Iterator[tuple[Events, Trace]]:
        """Replay the journal once more, beside the live state: the events of each `advance`, and its trace.

        Query a trace before taking the next one. Rows are those of `events.vocabulary`, not those of the live model.
        Held events come last.
        """
        self._check_open()
        live = _beginning(self._journal, self._live.start)
        for record in self._journal.all_records():
            yield from live.steps(record, live.read(record))
        held = live.present()
        if isinstance(held, Trace):
            yield live.pending, held

    @property
    def schema(self) -> Schema:
        """What the columns of an event mean to the model."""
        return self._live.start.table.schema

    @property
    def rows(self) -> RowReader:
        """What makes batches of rows in the words of the table."""
        return self._writer.rows

    @property
    def has_classifier(self) -> bool:
        """Whether the model can classify events."""
        return self._live.start.classifier is not None

    def offsets(self) -> dict[tuple[str, int], int]:
        """The newest offset of each (topic, partition) given to `observe`."""
        self._check_open()
        return self._journal.offsets()

    def status(self) -> dict[str, Any]:
        """Where the engine stands, as plain values.

        events are those absorbed, with the saved state's; accepted those in the journal; late those merged; position,
        applied and checkpoint positions, checkpoint_age records; duplicates and refused batches since it was opened.
        """
        self._check_open()
        live, writer = self._live, self._writer
        with live.lock:
            return {
                "clock": live.clock,
                "newest": live.buffer.newest,
                "events": live.state.events,
                "accepted": live.accepted,
                "held": len(live.buffer),
                "nodes": live.vocabulary.node_count,
                "position": self._journal.head,
                "applied": live.position,
                "checkpoint": writer.checkpoints.position,
                "checkpoint_age": live.position - writer.checkpoints.position,
                "checkpoint_error": writer.checkpoint_error,
                "duplicates": writer.duplicates,
                "refused": writer.refused,
                "late": live.buffer.late,
                "model": live.start.digest,
                "policy": live.buffer.policy.to_dict(),
            }

    def check_usable(self) -> None:
        """Raise the reason why no batch can be taken in until `recover` has succeeded, if there is one."""
        self._check_open()
        self._writer.check_usable()
        if self._writer.refusal is not None:
            raise JournalError(self._writer.refusal)

    def state_digest(self) -> str:
        """The sha256 of all that was applied: ids, state rows, clock, counters, policy, held events."""
        self._check_open()
        with self._live.lock:
            return self._live.digest()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The turn of one of those who write."""
        with self._writing:
            self._check_open()
            yield

    def _take(
        self, events: Arriving, producer: str | None, sequence: int | None, offset: Offset | None, **asked: Any
    ) -> Outcome:
        request = Request(events, producer, sequence, () if offset is None else (offset,), **asked)
        self.observe_many([request])
        return request.answer.result()

    def _rewrite(self, changed: list[Record]) -> None:
        """Let the live state of a changed journal take over, and wipe what was before."""
        self._switch_to(rewrite(self._journal, self._live.start, changed))
        self._journal.finish_wiping()

    def _switch_to(self, checkpoints: Checkpoints) -> None:
        """Let another live state, with its checkpoints, take over."""
        self._writer.checkpoints = checkpoints
        self._live = self._writer.live = checkpoints.live


def _restored(journal: Journal, start: StartingPoint, changes: dict[str, Any], verify: bool) -> Checkpoints:
    """The live state at the end of a journal, from its checkpoint; a journal without a model is given this one."""
    if "model" not in journal.metadata():
        policy = Policy().changed(**changes)
        journal.set_metadata({**start.identity(), "known": 0, "policy": policy.to_dict()})
    metadata = journal.metadata()
    for name, what in (("model", "model"), ("base", "state saved with the model")):
        ours = start.identity()[name]
        if metadata[name] != ours:
            raise JournalError(
                f"{journal.name} belongs to another {what} ({metadata[name][:12]}..., not {ours[:12]}...); open it "
                "with that one, or run 'tapgnn migrate' to replay it into this one (nothing was changed)"
            )
    if verify:
        journal.verify()
    checkpoints = Checkpoints(journal, _beginning(journal, start))
    checkpoints.restore()
    live = checkpoints.live
    journal.answers.clear()
    for record in journal.records(live.position + 1):
        apply_record(journal, live, record, live.read(record))
    return checkpoints


def _beginning(journal: Journal, start: StartingPoint) -> LiveState:
    """The live state of a journal before its first record."""
    metadata = journal.metadata()
    return LiveState(start, Policy.from_dict(metadata["policy"]), metadata["known"])
