"""Changes to a journal: an event is retracted, a node erased, the model replaced. Exactly, and without a trace.

Each replays the whole journal as it will be into a second state. Then one transaction replaces what changed in the
journal and the checkpoint, and the files are wiped of what was there before. A process killed before that transaction
leaves the old journal, one killed after it leaves the new one (and the next start finishes the wiping).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tapgnn.errors import IrrevocableError, JournalError, QueryError, StateError
from tapgnn.estimator import TAPGNN
from tapgnn.online.engine.live_state import LiveState
from tapgnn.online.engine.policy import Policy
from tapgnn.online.engine.starting_point import StartingPoint
from tapgnn.online.journal.event_batch import EventBatch, batch_in
from tapgnn.online.journal.journal import Journal
from tapgnn.online.journal.journal_place import open_existing
from tapgnn.online.journal.record import CheckpointBlock, Record
from tapgnn.online.journal.state_checkpoint import Checkpoints
from tapgnn.vocabulary import Id


def without_event(journal: Journal, start: StartingPoint, position: int, index: int) -> Record:
    """The record at a position without one event of its batch, counted as it was sent."""
    found = next(journal.records(position, position), None) if journal.first <= position <= journal.head else None
    batch = None if found is None else batch_in(found)
    if found is None or batch is None or index not in batch.sent_index():
        raise QueryError(
            f"there is no event {index} in a batch at position {position}; it was already retracted, or never existed"
        )
    if position <= journal.metadata()["known"] and (batch.time[batch.sent_index() == index] <= start.clock).any():
        raise IrrevocableError(
            f"event {index} at position {position} is in the state that was saved with the model, which this journal "
            "cannot undo; train without it and run 'tapgnn migrate'"
        )
    return replace(found, payload=batch.keep(batch.sent_index() != index).payload())


def without_node(journal: Journal, start: StartingPoint, node: Id) -> tuple[list[Record], int]:
    """The records that hold events of a node, without these, and the number of events."""
    if start.has_history(node):
        raise IrrevocableError(
            f"node {node!r} has a history in the state that was saved with the model, which this journal cannot undo; "
            "train without it and run 'tapgnn migrate', or start from an empty state and observe the log"
        )
    changed, events = [], 0
    for record, batch in _batches(journal):
        if node in batch.ids:
            number = list(batch.ids).index(node)
            keep = (batch.src != number) & (batch.dst != number)
            events += int((~keep).sum())
            changed.append(replace(record, payload=batch.keep(keep).payload()))
    return changed, events


def is_mentioned(journal: Journal, start: StartingPoint, node: Id) -> bool:
    """Whether a node has events in the starting state or in a record."""
    return start.has_history(node) or any(node in batch.ids for _, batch in _batches(journal))


def _batches(journal: Journal) -> Iterator[tuple[Record, EventBatch]]:
    """The records that hold events, and these."""
    found = ((record, batch_in(record)) for record in journal.all_records())
    return ((record, batch) for record, batch in found if batch is not None)


def rewrite(
    journal: Journal, start: StartingPoint, changed: Iterable[Record] = (), known: int | None = None
) -> Checkpoints:
    """Replay a journal with changed records into a second state, and write both to it; `finish_wiping` is then due.

    Gives the checkpoints of the new state.
    """
    instead = {record.position: record for record in changed}
    metadata = journal.metadata()
    known = int(metadata["known"]) if known is None else known
    live = LiveState(start, Policy.from_dict(metadata["policy"]), known)
    for record in journal.all_records():
        live.apply(instead.get(record.position, record))

    def save(checkpoint: dict[str, Any], blocks: Iterable[CheckpointBlock], _: list[int]) -> None:
        about = {**start.identity(), "known": known, "checkpoint": checkpoint}
        journal.rewrite(instead.values(), about, blocks)

    checkpoints = Checkpoints(journal, live)
    checkpoints.write(save)
    return checkpoints


def migrate(journal: str | Path | Journal, model: str | Path | TAPGNN, start: str = "saved") -> dict[str, Any]:
    """Replay a journal into another model and switch; gives what was done.

    start: 'saved' begins with the state saved with the model; 'empty' with none; 'after' with the saved state, which is
    taken to know the journal's events up to its clock already (the model was trained on them).
    """
    with ExitStack() as stack:
        own = open_existing(journal)
        if own is not journal:
            stack.callback(own.close)
        before = own.metadata().get("model")
        if before is None:
            raise JournalError(f"{own.name} is empty; there is nothing to migrate, serve the model with it")
        origin = StartingPoint.of(model, start)
        left_out = _count_known(own, origin)
        live = rewrite(own, origin, known=own.head if start == "after" else 0).live
        own.finish_wiping()
        return {
            "journal": own.name,
            "records": own.head,
            "events": live.accepted,
            "left_out": left_out,
            "nodes": live.vocabulary.node_count,
            "from": before,
            "to": origin.digest,
            "ignored_columns": live.features.ignored,
            "unfit_cells": live.features.unfit,
        }


def _count_known(journal: Journal, start: StartingPoint) -> int:
    """The events that the starting state already holds; an error where it was not said that it may."""
    known = 0
    for record, batch in _batches(journal) if start.clock > -np.inf else ():
        early = int(np.count_nonzero(batch.time <= start.clock))
        if early and start.start == "saved":
            raise StateError(
                f"the state saved with the model holds events up to {start.clock}, and the batch at position "
                f"{record.position} has {early} that are not newer; choose 'after' if the model was trained on "
                "them, or 'empty' to replay the whole journal into an empty state"
            )
        known += early
    return known
