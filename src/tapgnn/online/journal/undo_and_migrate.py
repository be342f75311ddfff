"""Changes to a journal: an event is retracted, a node erased, the model replaced. Exactly, and without a trace.

Each replays the whole journal as it will be into a second state. Then one transaction replaces what changed in the
journal and the checkpoint, and the files are wiped of what was there before. A process killed before that transaction
leaves the old journal, one killed after it leaves the new one (and the next start finishes the wiping).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tapgnn.errors import IrrevocableError, JournalError, QueryError, StateError
from tapgnn.estimator import TAPGNN
from tapgnn.online.engine.live_state import LiveState
from tapgnn.online.engine.policy import Policy
from tapgnn.online.engine.starting_point import StartingPoint
from tapgnn.online.journal.event_batch import batch_in
from tapgnn.online.journal.journal import Journal, open_journal
from tapgnn.online.journal.record import Node, Record
from tapgnn.online.journal.state_checkpoint import Checkpoints
from tapgnn.vocabulary import Id

Edit = Callable[[Record], Record]


@dataclass(frozen=True)
class Rewrite:
    """A second live state, the records that changed on the way to it, and the metadata that goes with it."""

    journal: Journal
    live: LiveState
    changed: list[Record]
    metadata: dict[str, Any]

    def finish(self) -> Checkpoints:
        """Write it to the journal; gives the checkpoints of the new state. What was before is then to be wiped."""
        checkpoints = Checkpoints(self.journal, self.live)
        checkpoints.write(self._rewrite)
        return checkpoints

    def _rewrite(self, checkpoint: dict[str, Any], nodes: Iterable[Node], _: Iterable[int]) -> None:
        self.journal.rewrite(self.changed, {**self.metadata, "checkpoint": checkpoint}, nodes)


def without_event(journal: Journal, start: StartingPoint, position: int, index: int) -> Rewrite:
    """The journal without one event of a batch, counted as it was sent."""
    found = next(journal.records(position, position), None) if journal.first <= position <= journal.head else None
    batch = None if found is None else batch_in(found)
    if batch is None or index not in batch.sent_index():
        raise QueryError(
            f"there is no event {index} in a batch at position {position}; it was already retracted, or never existed"
        )
    if position <= journal.metadata()["known"] and (batch.time[batch.sent_index() == index] <= start.clock).any():
        raise IrrevocableError(
            f"event {index} at position {position} is in the state that was saved with the model, which this journal "
            "cannot undo; train without it and run 'tapgnn migrate'"
        )
    rest = batch.keep(batch.sent_index() != index)

    def edit(record: Record) -> Record:
        return replace(record, payload=rest.payload()) if record.position == position else record

    return replayed(journal, start, edit)


def without_node(journal: Journal, start: StartingPoint, node: Id) -> tuple[Rewrite | None, int]:
    """The journal without the events of a node, and their number; None where it has none."""
    if start.has_history(node):
        raise IrrevocableError(
            f"node {node!r} has a history in the state that was saved with the model, which this journal cannot undo; "
            "train without it and run 'tapgnn migrate', or start from an empty state and observe the log"
        )
    events = 0

    def edit(record: Record) -> Record:
        nonlocal events
        batch = batch_in(record)
        if batch is None or node not in batch.ids:
            return record
        number = list(batch.ids).index(node)
        keep = (batch.src != number) & (batch.dst != number)
        events += int((~keep).sum())
        return replace(record, payload=batch.keep(keep).payload())

    found = replayed(journal, start, edit)
    return (found, events) if events else (None, 0)


def replayed(journal: Journal, start: StartingPoint, edit: Edit, known: int | None = None) -> Rewrite:
    """Replay every record, as edited, into a second state."""
    if journal.first > 1:
        raise IrrevocableError(
            f"{journal.name} was trimmed and begins at position {journal.first}; what depends on earlier events cannot "
            "be replayed"
        )
    metadata = journal.metadata()
    known = int(metadata.get("known", 0)) if known is None else known
    live = LiveState(start, Policy.from_dict(metadata["policy"]), known)
    changed = []
    for record in journal.records(1):
        edited = edit(record)
        if edited is not record:
            changed.append(edited)
        live.apply(edited)
    return Rewrite(journal, live, changed, {**start.identity(), "known": known})


def migrate(journal: str | Path | Journal, model: str | Path | TAPGNN, start: str = "saved") -> dict[str, Any]:
    """Replay a journal into another model and switch; gives what was done.

    start: 'saved' begins with the state saved with the model; 'empty' with none; 'after' with the saved state, which is
    taken to know the journal's events up to its clock already (the model was trained on them).
    """
    if not isinstance(journal, Journal) and "://" not in str(journal) and not Path(journal).is_file():
        raise JournalError(f"there is no journal at {journal}; name an existing journal")
    own = journal if isinstance(journal, Journal) else open_journal(str(journal))
    try:
        return _migrate(own, StartingPoint.of(model, start))
    finally:
        if own is not journal:
            own.close()


def _migrate(journal: Journal, start: StartingPoint) -> dict[str, Any]:
    before = journal.metadata().get("model")
    if before is None:
        raise JournalError(f"{journal.name} is empty; there is nothing to migrate, serve the model with it")
    left_out = 0

    def check(record: Record) -> Record:
        nonlocal left_out
        batch = batch_in(record)
        early = 0 if batch is None else int(np.count_nonzero(batch.time <= start.clock))
        if early and start.start == "saved":
            raise StateError(
                f"the state saved with the model holds events up to {start.clock}, and the batch at position "
                f"{record.position} has {early} that are not newer; choose 'after' if the model was trained on "
                "them, or 'empty' to replay the whole journal into an empty state"
            )
        left_out += early if start.start == "after" else 0
        return record

    live = replayed(journal, start, check, journal.head if start.start == "after" else 0).finish().live
    journal.finish_wiping()
    return {
        "journal": journal.name,
        "records": journal.head,
        "events": live.accepted,
        "left_out": left_out,
        "nodes": live.vocabulary.node_count,
        "from": before,
        "to": start.digest,
    }
