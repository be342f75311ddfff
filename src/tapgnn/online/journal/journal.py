"""The journal: the truth from which every state is replayed. Records in order, metadata, and a checkpoint as a cache.

    log          one record per accepted batch
    producers    who sent them, so that no (producer, sequence) is taken twice
    offsets      how far each source was read, written in the transaction of the record
    nodes        rows of the state as of the checkpoint: only those that changed are written
    facts        the metadata: format, model, policy, and the checkpoint's position, clock and counts

Every change is one transaction. The SQL here is what SQLite and PostgreSQL share; a database adds how to connect, to
hold the single writer's lock, to run a statement, and to wipe what was deleted.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from tapgnn.errors import IrrevocableError, JournalError
from tapgnn.online.journal.record import Kind, Node, Record, metadata_checksum, read_node, read_record

FORMAT = 1
PAGE = 256
IN_USE = "{name} is in use by another writer; stop it first, a journal has one writer"
REBUILD = ", or rebuild the checkpoint from its records with 'tapgnn migrate'"

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
_SET_METADATA = (
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
    """See the module. One writer; any thread may call.

    head              position of the newest record
    outcome_unknown   a commit failed in a way that leaves open whether it happened
    """

    begin = "BEGIN"
    # After these errors of a commit nothing was written for certain; after any other error of the database who knows.
    certain_errors: tuple[type[Exception], ...]
    database_error: type[Exception]
    # What is said of an error of the database, with the cure: that of the first type that it is of.
    explanations: ClassVar[Mapping[type[Exception], str]]

    def __init__(self, name: str, connect: Callable[[], Any]) -> None:
        self.name = name
        self.head = 0
        self.outcome_unknown = False
        self._lock = threading.RLock()
        self._producers: dict[str, int] = {}
        self._newest: dict[str, int] = {}
        with self.explained():
            self.connection = connect()
        try:
            with self.explained():
                self.open()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def open(self) -> None:
        """Take the single writer's lock, check what is there, and create the tables where there are none."""

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns errors of the database into a `JournalError` with the cure."""
        try:
            yield
        except tuple(self.explanations) as error:
            text = next(text for kind, text in self.explanations.items() if isinstance(error, kind))
            reason = str(error).strip().partition("\n")[0]
            raise JournalError(text.format(name=self.name, head=self.head, reason=reason)) from None

    @abstractmethod
    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement, with ? for values; gives its rows."""

    @abstractmethod
    def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each row of values."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements of the block are committed together, or none is."""
        with self.explained():
            self.connection.execute(self.begin)
            try:
                yield
                self._commit()
            except BaseException:
                # A database that has rolled back by itself, or is out of reach, has nothing left to roll back.
                with suppress(self.database_error):
                    self.connection.execute("ROLLBACK")
                raise

    def _commit(self) -> None:
        try:
            self.connection.execute("COMMIT")
        except self.certain_errors:
            raise
        except self.database_error:
            self.outcome_unknown = True
            raise

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
            self._write_metadata({"format": FORMAT})

    def load(self) -> None:
        """Check the format of an existing journal and read what is kept in memory."""
        version = self.metadata().get("format")
        if not isinstance(version, int):
            raise JournalError(f"{self.name} is not a tapgnn journal; name another, or a file that does not exist")
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
        if not all(
            isinstance(value, int) for _, number, dropped, last in found for value in (number, dropped, last or 0)
        ):
            raise self.damage("its list of producers is damaged")
        self._producers = {name: number for name, number, _, _ in found}
        self._newest = {name: max(dropped, -1 if last is None else last) for name, _, dropped, last in found}
        checkpoint = self.metadata().get("checkpoint", {"position": 0})
        if checkpoint["position"] > self.head:
            raise JournalError(
                f"{self.name} ends at position {self.head}, but its checkpoint was made at {checkpoint['position']}: "
                "its end is missing; restore it from a copy (nothing was changed)"
            )

    @property
    def first(self) -> int:
        """The first position that is still there."""
        return int(self.metadata().get("trimmed", 0)) + 1

    def metadata(self) -> dict[str, Any]:
        """The named values beside the records."""
        with self._lock:
            found = {}
            for name, text, checksum in self.run("SELECT name, value, checksum FROM facts"):
                if metadata_checksum(f"{name}", f"{text}") != checksum:
                    raise self.damage(f"metadata {name!r} is damaged")
                found[name] = json.loads(text)
            return found

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Write entries of the metadata."""
        with self._lock, self.transaction():
            self._write_metadata(metadata)

    def find(self, producer: str | None, sequence: int | None) -> Record | None:
        """The record that this producer sent under this number; of one that was trimmed away, an empty one."""
        with self._lock:
            if producer is None or sequence is None or sequence > self._newest.get(producer, -1):
                return None
            clause = "WHERE l.producer = ? AND l.sequence = ?"
            found = self.run(_RECORDS + clause, (self._producers[producer], sequence))
            if found:
                return self._checked(found[0])
            dropped = self.run("SELECT dropped FROM producers WHERE name = ?", (producer,))[0][0]
            return Record(Kind.EVENTS, b"", producer, sequence) if sequence <= dropped else None

    @property
    def connection_lost(self) -> bool:
        """Whether the database is out of reach until the journal is opened again."""
        return False

    def check_usable(self) -> None:
        """Refuse to go on after a commit whose outcome is unknown."""
        if self.outcome_unknown:
            raise JournalError(
                f"{self.name}: it is unknown whether the last commit, after position {self.head}, happened; restart to "
                "recover from the journal"
            )

    def append(self, records: Sequence[Record]) -> list[Record]:
        """Write records at the end, in one transaction, and give them their positions; they are durable then."""
        with self._lock:
            self.check_usable()
            placed = [replace(record, position=self.head + 1 + place) for place, record in enumerate(records)]
            names = sorted(
                {record.producer for record in placed if record.producer is not None} - self._producers.keys()
            )
            numbers = {name: len(self._producers) + 1 + place for place, name in enumerate(names)}
            known = {**self._producers, **numbers} if numbers else self._producers
            with self.transaction():
                for name, number in numbers.items():
                    self.run("INSERT INTO producers VALUES (?, ?, ?)", (number, name, -1))
                for record in placed:
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
                for offset in {record.offset[:2]: record.offset for record in placed if record.offset}.values():
                    self.run(_SET_OFFSET, offset)
            self._producers = known
            self.head += len(placed)
            for record in placed:
                if record.producer is not None and record.sequence is not None:
                    self._newest[record.producer] = max(self._newest.get(record.producer, -1), record.sequence)
            return placed

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
                    raise self.damage(f"position {wanted} is missing")
                yield self._checked(row)
                wanted += 1

    def all_records(self) -> Iterator[Record]:
        """The records from the very first on; an error where some were trimmed away."""
        if self.first > 1:
            raise IrrevocableError(
                f"{self.name} was trimmed and begins at position {self.first}; what depends on earlier events cannot "
                "be replayed"
            )
        return self.records(1)

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
            self._write_metadata({"checkpoint": checkpoint})

    def write_nodes(self, nodes: Iterable[Node], gone: Iterable[int]) -> None:
        """Write rows of nodes within a transaction."""
        self.run_many("DELETE FROM nodes WHERE place = ?", ((row,) for row in gone))
        self.run_many(_SET_NODE, ((node.row, node.text(), node.data, node.checksum()) for node in nodes))

    def rewrite(self, changed: Iterable[Record], metadata: dict[str, Any], nodes: Iterable[Node]) -> None:
        """Replace records, metadata and all rows of the checkpoint in one transaction; `finish_wiping` is then due."""
        with self._lock, self.transaction():
            for record in changed:
                values = (record.payload, record.checksum(), record.position)
                self.run("UPDATE log SET payload = ?, checksum = ? WHERE position = ?", values)
            self.run("DELETE FROM nodes")
            self.write_nodes(nodes, ())
            self._write_metadata({**metadata, "wipe": True})

    def finish_wiping(self) -> None:
        """Wipe what was deleted, unless that is done already."""
        with self._lock:
            if self.metadata().get("wipe"):
                self.wipe()
                self.set_metadata({"wipe": False})

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
                self._write_metadata({"trimmed": position, "wipe": True})
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

    def _write_metadata(self, metadata: dict[str, Any]) -> None:
        for name, value in metadata.items():
            text = json.dumps(value)
            self.run(_SET_METADATA, (name, text, metadata_checksum(name, text)))

    def _checked(self, row: tuple[Any, ...]) -> Record:
        record = read_record(row)
        if record is None:
            raise self.damage(f"the record at position {row[0]} is damaged")
        return record

    def _checked_node(self, row: tuple[Any, ...]) -> Node:
        node = read_node(row)
        if node is None:
            raise self.damage(f"row {row[0]} of its checkpoint is damaged", REBUILD)
        return node

    def damage(self, what: str, other_cure: str = "") -> JournalError:
        """The error of a journal that does not hold what was written."""
        return JournalError(f"{self.name}: {what}; restore the journal from a copy{other_cure} (nothing was changed)")


def open_journal(place: str | Path | Journal) -> Journal:
    """The journal at a path (SQLite) or a postgresql:// address, created where there is none; an open one as it is."""
    if isinstance(place, Journal):
        return place
    if str(place).startswith(("postgresql://", "postgres://")):
        from tapgnn.online.journal.postgres import PostgresJournal

        return PostgresJournal(str(place))
    from tapgnn.online.journal.sqlite import SqliteJournal

    return SqliteJournal(place)
