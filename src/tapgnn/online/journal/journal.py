"""The journal: the truth of which every state is a fold. Records in order; facts; and, as a cache, a checkpoint.

    log          one record per accepted batch
    producers    who sent them, so that no (producer, sequence) is taken twice
    offsets      how far each source was read, written in the transaction of the record
    nodes        rows of the state as of the checkpoint: only those that changed are written
    facts        format, model, policy, and the checkpoint's position, clock and counts

Every change is one transaction. The SQL here is what SQLite and PostgreSQL share; a database adds how to connect, to
hold the single writer's lock, to run a statement, and to wipe what was deleted.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tapgnn.errors import JournalError
from tapgnn.online.journal.record import Entry, Kind, Node, Record, fact_checksum, read_node, read_record

FORMAT = 1
PAGE = 256

_SCHEMA = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum {integer} NOT NULL)",
    "CREATE TABLE producers (number {integer} PRIMARY KEY, name TEXT UNIQUE NOT NULL, dropped {integer} NOT NULL)",
    "CREATE TABLE log (position {integer} PRIMARY KEY, kind {integer} NOT NULL, producer {integer}, "
    "sequence {integer}, payload {blob} NOT NULL, checksum {blob} NOT NULL)",
    "CREATE UNIQUE INDEX log_sequence ON log (producer, sequence) WHERE sequence IS NOT NULL",
    "CREATE TABLE offsets (topic TEXT NOT NULL, part {integer} NOT NULL, reached {integer} NOT NULL, "
    "PRIMARY KEY (topic, part))",
    "CREATE TABLE nodes (place {integer} PRIMARY KEY, id TEXT, data {blob} NOT NULL, checksum {integer} NOT NULL)",
)
_SET_FACT = (
    "INSERT INTO facts VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value, "
    "checksum = excluded.checksum"
)
_SET_NODE = (
    "INSERT INTO nodes VALUES (?, ?, ?, ?) ON CONFLICT (place) DO UPDATE SET id = excluded.id, data = excluded.data, "
    "checksum = excluded.checksum"
)
_SET_OFFSET = "INSERT INTO offsets VALUES (?, ?, ?) ON CONFLICT (topic, part) DO UPDATE SET reached = excluded.reached"
_RECORDS = (
    "SELECT l.position, l.kind, p.name, l.sequence, l.payload, l.checksum "
    "FROM log l LEFT JOIN producers p ON p.number = l.producer "
)


class Journal(ABC):
    """See the module. One writer; any thread may call."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.head = 0
        # Set when a commit failed in a way that leaves open whether it happened.
        self.doubtful = False
        self._lock = threading.RLock()
        self._producers: dict[str, int] = {}
        self._newest: dict[str, int] = {}

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """All statements of the block are committed together, or none is."""

    @abstractmethod
    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement, with ? for values; gives its rows."""

    @abstractmethod
    def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each row of values."""

    @abstractmethod
    def wipe(self) -> None:
        """Make sure that nothing deleted can be read from the files any more."""

    @abstractmethod
    def close(self) -> None:
        """Release the journal."""

    def create(self, integer: str, blob: str) -> None:
        """Make the tables of an empty journal."""
        with self._lock, self.transaction():
            for statement in _SCHEMA:
                self.run(statement.format(integer=integer, blob=blob))
            self._set_facts({"format": FORMAT})

    def load(self) -> None:
        """Check the format of an existing journal and read what is kept in memory."""
        version = self.facts().get("format")
        if not isinstance(version, int):
            raise JournalError(f"{self.name} is not a journal of tapgnn; name another, or a file that does not exist")
        if version > FORMAT:
            raise JournalError(
                f"{self.name} has format {version}, this version reads up to {FORMAT}; upgrade tapgnn (nothing was "
                "changed)"
            )
        self.head = int(self.run("SELECT COALESCE(MAX(position), 0) FROM log")[0][0])
        self.head = max(self.head, self.first - 1)
        found = self.run(
            "SELECT name, number, dropped, (SELECT MAX(sequence) FROM log WHERE producer = number) FROM producers"
        )
        self._producers = {name: number for name, number, _, _ in found}
        self._newest = {name: max(dropped, -1 if last is None else last) for name, _, dropped, last in found}
        checkpoint = self.facts().get("checkpoint", {"position": 0})
        if checkpoint["position"] > self.head:
            raise JournalError(
                f"{self.name} ends at position {self.head}, but its checkpoint was made at {checkpoint['position']}: "
                "its end is missing; restore it from a copy (nothing was changed)"
            )

    @property
    def first(self) -> int:
        """The first position that is still there."""
        return int(self.facts().get("trimmed", 0)) + 1

    def facts(self) -> dict[str, Any]:
        """The named facts."""
        with self._lock:
            found = {}
            for name, text, checksum in self.run("SELECT name, value, checksum FROM facts"):
                if fact_checksum(f"{name}", f"{text}") != checksum:
                    raise JournalError(
                        f"{self.name}: fact {name!r} is damaged; restore the journal from a copy (nothing was changed)"
                    )
                found[name] = json.loads(text)
            return found

    def set_facts(self, facts: dict[str, Any]) -> None:
        """Write named facts."""
        with self._lock, self.transaction():
            self._set_facts(facts)

    def find(self, producer: str, sequence: int) -> Record | None:
        """The record that this producer sent under this number; of one that was trimmed away, an empty one."""
        with self._lock:
            if sequence > self._newest.get(producer, -1):
                return None
            clause = "WHERE l.producer = ? AND l.sequence = ?"
            found = self.run(_RECORDS + clause, (self._producers[producer], sequence))
            if found:
                return self._checked(found[0])
            dropped = self.run("SELECT dropped FROM producers WHERE name = ?", (producer,))[0][0]
            return Record(0, Kind.EVENTS, producer, sequence, b"") if sequence <= dropped else None

    @property
    def lost(self) -> bool:
        """Whether the database is out of reach until the journal is opened again."""
        return False

    def check_certain(self) -> None:
        """Refuse to go on after a commit of which it is not known whether it happened."""
        if self.doubtful:
            raise JournalError(
                f"{self.name}: it is not known whether the last commit, after position {self.head}, happened; open the "
                "engine again, the journal knows"
            )

    def append(self, entries: Sequence[Entry]) -> list[Record]:
        """Write entries at the end, in one transaction; when it returns they are safe."""
        with self._lock:
            self.check_certain()
            records = [
                Record(self.head + 1 + number, entry.kind, entry.producer, entry.sequence, entry.payload)
                for number, entry in enumerate(entries)
            ]
            names = sorted({entry.producer for entry in entries if entry.producer is not None} - self._producers.keys())
            numbers = {name: len(self._producers) + 1 + place for place, name in enumerate(names)}
            known = {**self._producers, **numbers} if numbers else self._producers
            with self.transaction():
                for name, number in numbers.items():
                    self.run("INSERT INTO producers VALUES (?, ?, ?)", (number, name, -1))
                for record in records:
                    sender = None if record.producer is None else known[record.producer]
                    row = (
                        record.position,
                        int(record.kind),
                        sender,
                        record.sequence,
                        record.payload,
                        record.checksum(),
                    )
                    self.run("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", row)
                for offset in {entry.offset[:2]: entry.offset for entry in entries if entry.offset}.values():
                    self.run(_SET_OFFSET, offset)
            self._producers = known
            self.head += len(records)
            for record in records:
                if record.producer is not None and record.sequence is not None:
                    self._newest[record.producer] = max(self._newest.get(record.producer, -1), record.sequence)
            return records

    def records(self, first: int, last: int | None = None) -> Iterator[Record]:
        """Records `first` to `last`, read page by page; one that is missing or damaged is an error that names it."""
        stop = self.head if last is None else last
        wanted = first
        while wanted <= stop:
            clause = f"WHERE l.position BETWEEN ? AND ? ORDER BY l.position LIMIT {PAGE}"
            with self._lock:
                page = self.run(_RECORDS + clause, (wanted, stop))
            for row in page or [(stop + 1,)]:
                if row[0] != wanted:
                    raise JournalError(
                        f"{self.name}: position {wanted} is missing; restore the journal from a copy (nothing was "
                        "changed)"
                    )
                yield self._checked(row)
                wanted += 1

    def nodes(self) -> Iterator[list[Node]]:
        """The rows of the checkpoint, in pages; a damaged one is an error that names it."""
        after = -1
        while True:
            with self._lock:
                query = f"SELECT place, id, data, checksum FROM nodes WHERE place > ? ORDER BY place LIMIT {4 * PAGE}"
                page = [self._checked_node(row) for row in self.run(query, (after,))]
            if not page:
                return
            after = page[-1].row
            yield page

    def save(self, checkpoint: dict[str, Any], nodes: Iterable[Node], gone: Iterable[int]) -> None:
        """Write a checkpoint: the rows that changed, those that are gone, and the position, in one transaction."""
        with self._lock, self.transaction():
            self.write_nodes(nodes, gone)
            self._set_facts({"checkpoint": checkpoint})

    def write_nodes(self, nodes: Iterable[Node], gone: Iterable[int]) -> None:
        """Write rows of nodes within a transaction."""
        self.run_many("DELETE FROM nodes WHERE place = ?", ((row,) for row in gone))
        self.run_many(_SET_NODE, ((node.row, node.text(), node.data, node.checksum()) for node in nodes))

    def rewrite(self, changed: Iterable[Record], facts: dict[str, Any], nodes: Iterable[Node]) -> None:
        """Replace records, facts and all rows of the checkpoint in one transaction; `finish_wiping` is then due."""
        with self._lock, self.transaction():
            for record in changed:
                values = (record.payload, record.checksum(), record.position)
                self.run("UPDATE log SET payload = ?, checksum = ? WHERE position = ?", values)
            self.run("DELETE FROM nodes")
            self.write_nodes(nodes, ())
            self._set_facts({**facts, "wipe": True})

    def finish_wiping(self) -> None:
        """Wipe what was deleted, unless that is done already."""
        with self._lock:
            if self.facts().get("wipe"):
                self.wipe()
                self.set_facts({"wipe": False})

    def trim(self, position: int) -> None:
        """Drop the records up to a position; what producers sent in them stays known as sent."""
        with self._lock:
            with self.transaction():
                latest = "(SELECT MAX(sequence) FROM log WHERE producer = number AND position <= ?)"
                self.run(
                    f"UPDATE producers SET dropped = {latest} WHERE COALESCE({latest}, -1) > dropped",
                    (position, position),
                )
                self.run("DELETE FROM log WHERE position <= ?", (position,))
                self._set_facts({"trimmed": position, "wipe": True})
            self.finish_wiping()

    def offsets(self) -> dict[tuple[str, int], int]:
        """How far each (topic, partition) was read."""
        with self._lock:
            return {(topic, part): reached for topic, part, reached in self.run("SELECT * FROM offsets")}

    def verify(self) -> None:
        """Read everything once; whatever is damaged is an error."""
        for _ in self.records(self.first):
            pass
        for _ in self.nodes():
            pass

    def _set_facts(self, facts: dict[str, Any]) -> None:
        for name, value in facts.items():
            text = json.dumps(value)
            self.run(_SET_FACT, (name, text, fact_checksum(name, text)))

    def _checked(self, row: tuple[Any, ...]) -> Record:
        record = read_record(row)
        if record is None:
            raise JournalError(
                f"{self.name}: the record at position {row[0]} is damaged; restore the journal from a copy (nothing "
                "was changed)"
            )
        return record

    def _checked_node(self, row: tuple[Any, ...]) -> Node:
        node = read_node(row)
        if node is None:
            raise JournalError(
                f"{self.name}: row {row[0]} of its checkpoint is damaged; restore the journal from a copy, or rebuild "
                "the checkpoint from its records with 'tapgnn migrate' (nothing was changed)"
            )
        return node


def open_journal(place: str) -> Journal:
    """The journal at a path (SQLite) or a postgresql:// address, which is begun where there is none."""
    if place.startswith(("postgresql://", "postgres://")):
        from tapgnn.online.journal.postgres import PostgresJournal

        return PostgresJournal(place)
    from tapgnn.online.journal.sqlite import SqliteJournal

    return SqliteJournal(place)
