"""The journal changed after the fact: an event retracted, a node erased, another model. Exactly, and without a trace.

Each replays the whole journal as it will be into a second state. Then one transaction replaces what changed in the
journal and the checkpoint, and the files are wiped of what was there before. Until that transaction nothing changes; a
death before it leaves the old, a death after it leaves the new (and the next opening finishes the wiping).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tapgnn.errors import IrrevocableError, JournalError, QueryError, StateError
from tapgnn.estimator import TAPGNN
from tapgnn.online.engine.live_state import Fold
from tapgnn.online.engine.policy import Policy
from tapgnn.online.engine.starting_point import Origin
from tapgnn.online.journal.event_batch import Batch
from tapgnn.online.journal.journal import Journal, open_journal
from tapgnn.online.journal.record import Kind, Record
from tapgnn.online.journal.state_checkpoint import Checkpoints
from tapgnn.vocabulary import Id

Edit = Callable[[Record], Record]


@dataclass(frozen=True)
class Rewriting:
    """A second fold, the records that changed on the way to it, and the facts that go with it."""

    journal: Journal
    fold: Fold
    changed: list[Record]
    facts: dict[str, Any]

    def finish(self) -> Checkpoints:
        """Write it down; gives the checkpoints of the new fold. What was before is then to be wiped."""
        checkpoints = Checkpoints(self.journal, self.fold)
        facts, rows, gone = checkpoints.draft()
        self.journal.rewrite(self.changed, {**self.facts, "checkpoint": facts}, checkpoints.nodes(rows))
        checkpoints.written(rows, gone)
        return checkpoints


def without_event(journal: Journal, origin: Origin, position: int, index: int) -> Rewriting:
    """The journal without one event of a batch, counted as it was sent."""
    found = next(journal.records(position, position), None) if journal.first <= position <= journal.head else None
    batch = Batch.read(found.payload) if found is not None and found.kind == Kind.EVENTS else None
    if batch is None or index not in batch.sent_index():
        raise QueryError(
            f"there is no event {index} in a batch at position {position}; it was retracted already, or never was there"
        )
    if position <= journal.facts()["known"] and (batch.time[batch.sent_index() == index] <= origin.clock).any():
        raise IrrevocableError(
            f"event {index} at position {position} is in the state that was saved with the model, which this journal "
            "cannot undo; train without it and run 'tapgnn migrate'"
        )
    rest = batch.keep(batch.sent_index() != index)

    def edit(record: Record) -> Record:
        return replace(record, payload=rest.payload()) if record.position == position else record

    return refold(journal, origin, edit)


def without_node(journal: Journal, origin: Origin, node: Id) -> tuple[Rewriting | None, int]:
    """The journal without the events of a node, and their number; None where it has none."""
    if origin.has_history(node):
        raise IrrevocableError(
            f"node {node!r} has a history in the state that was saved with the model, which this journal cannot undo; "
            "train without it and run 'tapgnn migrate', or start an engine from an empty state and observe the log"
        )
    events = 0

    def edit(record: Record) -> Record:
        nonlocal events
        batch = Batch.read(record.payload) if record.kind == Kind.EVENTS else None
        if batch is None or node not in batch.ids:
            return record
        number = list(batch.ids).index(node)
        keep = (batch.src != number) & (batch.dst != number)
        events += int((~keep).sum())
        return replace(record, payload=batch.keep(keep).payload())

    found = refold(journal, origin, edit)
    return (found, events) if events else (None, 0)


def refold(journal: Journal, origin: Origin, edit: Edit, known: int | None = None) -> Rewriting:
    """Replay every record, as edited, into a second state."""
    if journal.first > 1:
        raise IrrevocableError(
            f"{journal.name} was trimmed and begins at position {journal.first}; what depends on earlier events cannot "
            "be replayed"
        )
    facts = journal.facts()
    known = int(facts.get("known", 0)) if known is None else known
    fold = Fold(origin, Policy.from_dict(facts["policy"]), known)
    changed = []
    for record in journal.records(1):
        edited = edit(record)
        if edited is not record:
            changed.append(edited)
        fold.apply(edited)
    return Rewriting(journal, fold, changed, {**origin.identity(), "known": known})


def migrate(journal: str | Path | Journal, model: str | Path | TAPGNN, start: str = "saved") -> dict[str, Any]:
    """Replay a journal into another model and switch; gives what was done.

    start: 'saved' begins with the state saved with the model; 'empty' with none; 'after' with the saved state, which is
    taken to know the journal's events up to its clock already (the model was trained on them).
    """
    if not isinstance(journal, Journal) and "://" not in str(journal) and not Path(journal).is_file():
        raise JournalError(f"there is no journal at {journal}; name the file that the engine writes")
    own = journal if isinstance(journal, Journal) else open_journal(str(journal))
    try:
        return _migrate(own, Origin.of(model, start))
    finally:
        if own is not journal:
            own.close()


def _migrate(journal: Journal, origin: Origin) -> dict[str, Any]:
    before = journal.facts().get("model")
    if before is None:
        raise JournalError(f"{journal.name} is empty; open an engine with the model instead")
    left_out = 0

    def check(record: Record) -> Record:
        nonlocal left_out
        batch = Batch.read(record.payload) if record.kind == Kind.EVENTS else None
        early = 0 if batch is None else int(np.count_nonzero(batch.time <= origin.clock))
        if early and origin.start == "saved":
            raise StateError(
                f"the state saved with the model holds events up to {origin.clock}, and the batch at position "
                f"{record.position} has {early} that are not younger; choose 'after' if the model was trained on them, "
                "or 'empty' to replay the whole journal from nothing"
            )
        left_out += early if origin.start == "after" else 0
        return record

    fold = refold(journal, origin, check, journal.head if origin.start == "after" else 0).finish().fold
    journal.finish_wiping()
    return {
        "journal": journal.name,
        "records": journal.head,
        "events": fold.accepted,
        "left_out": left_out,
        "nodes": fold.roster.population,
        "from": before,
        "to": origin.digest,
    }
