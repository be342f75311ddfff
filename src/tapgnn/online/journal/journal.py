"""The journal: the truth from which every state is replayed. Records in order, metadata, and a checkpoint as a cache.

    log          one record per accepted batch
    producers    who sent them, so that no (producer, sequence) is taken twice
    offsets      how far each source was read, written in the transaction of the record
    blocks       rows of the state as of the checkpoint: only those that changed are written, in blocks of a megabyte
    answers      what senders were told of their batches up to the checkpoint, for when they are sent again
    facts        the metadata: format, model, policy, and the checkpoint's position, clock and counts

Every change is one transaction. The SQL here is what SQLite and PostgreSQL share; a database adds how to connect, to
hold the single writer's lock, to run a statement, and to wipe what was deleted.
"""

from __future__ import annotations

import json
import os
import threading
from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from tapgnn.errors import IrrevocableError, JournalError
from tapgnn.online.journal.kept_answers import KeptAnswers
from tapgnn.online.journal.record import (
    CheckpointBlock,
    Kind,
    Record,
    block_checksum,
    metadata_checksum,
    read_block,
    read_nodes,
    read_record,
)

FORMAT = 3
PAGE = 256
# Bytes that must find room before a journal on a disk that was full is written again.
ROOM = 1 << 20
IN_USE = (
    "{name} is in use by another writer; stop it first, a journal has one writer (to copy it, give 'tapgnn backup' the "
    "address of its server)"
)
REBUILD = ", or rebuild the checkpoint from its records with 'tapgnn migrate'"

_SCHEMA = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum {integer} NOT NULL)",
    "CREATE TABLE producers (number {integer} PRIMARY KEY, name TEXT UNIQUE NOT NULL, dropped {integer} NOT NULL)",
    "CREATE TABLE log (position {integer} PRIMARY KEY, kind {integer} NOT NULL, producer {integer}, "
    "sequence {integer}, payload {blob} NOT NULL, checksum {blob} NOT NULL)",
    "CREATE UNIQUE INDEX log_sequence ON log (producer, sequence) WHERE sequence IS NOT NULL",
    "CREATE TABLE offsets (topic TEXT NOT NULL, part {integer} NOT NULL, reached {integer} NOT NULL, "
    "PRIMARY KEY (topic, part))",
)
# What came with format 2 and with format 3.
_ANSWERS = (
    "CREATE TABLE answers (position {integer} PRIMARY KEY, events {integer} NOT NULL, data {blob} NOT NULL, "
    "checksum {integer} NOT NULL)"
)
_BLOCKS = (
    "CREATE TABLE blocks (number {integer} PRIMARY KEY, places {blob} NOT NULL, gone {blob} NOT NULL, "
    "ids TEXT NOT NULL, data {blob} NOT NULL, checksum {integer} NOT NULL)"
)
_UPGRADES = {2: (_ANSWERS,), 3: (_BLOCKS, "DROP TABLE nodes")}
_SET_METADATA = (
    "INSERT INTO facts VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value, "
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
    outcome_unknown   a commit failed in a way that leaves open whether it happened; `reopen` finds out
    """

    begin = "BEGIN"
    # The types of whole numbers and of bytes.
    integer: ClassVar[str]
    blob: ClassVar[str]
    # After these errors of a commit nothing was written for certain; after any other error of the database who knows.
    certain_errors: tuple[type[Exception], ...]
    database_error: type[Exception]
    # What is said of an error of the database, with the cure: that of the first type that it is of.
    explanations: ClassVar[Mapping[type[Exception], str]]

    def __init__(self, name: str, connect: Callable[[], Any]) -> None:
        self.name = name
        self.head = 0
        self.outcome_unknown = False
        self.is_open = False
        self._connect = connect
        self._newest_checksum: bytes | None = None
        self._lock = threading.RLock()
        self._producers: dict[str, int] = {}
        self._newest: dict[str, int] = {}
        self._format = FORMAT
        self.answers = KeptAnswers(self)
        self._begin()

    def _begin(self) -> None:
        """Connect, and open what is there."""
        with self.explained():
            self.connection = self._connect()
        try:
            with self.explained():
                self.open()
            self.is_open = True
        except BaseException:
            self.close()
            raise

    def reopen(self) -> bool:
        """Connect again after a failure and read where the journal ends.

        Gives whether it goes on from the newest record that is known here: False where that was changed meanwhile. One
        that ends earlier has lost what was acknowledged, and is refused.
        """
        with self._lock:
            known, checksum = self.head, self._newest_checksum
            try:
                self.close()
                self._begin()
                if self.head < known:
                    self.close()
                    raise JournalError(
                        f"{self.name} ends at position {self.head}, but position {known} was acknowledged: it is an "
                        "older copy, or a stand-in that had not received everything; bring back the one that has it, "
                        "or restart to go on without"
                    )
            except BaseException:
                self.head = known
                raise
            self.outcome_unknown = False
            found = self.run("SELECT checksum FROM log WHERE position = ?", (known,))
            return checksum is None or [bytes(value) for (value,) in found] == [checksum]

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
            raise JournalError(text.format(name=self.name, head=self.head, reason=self.reason_of(error))) from None

    def reason_of(self, error: Exception) -> str:
        """What the database says of an error, on one line."""
        return str(error).strip().partition("\n")[0]

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

    @property
    @abstractmethod
    def copy_place(self) -> Path:
        """Where a copy can be written that is sent elsewhere; what is left there goes when the journal is opened."""

    @abstractmethod
    def copy_to(self, path: Path) -> None:
        """Write a copy, complete up to a record, while others write; refused where the database has a better way."""

    @abstractmethod
    def close(self) -> None:
        """Release the journal; closing again is no error."""

    def create(self) -> None:
        """Make the tables of an empty journal."""
        with self._lock, self.transaction():
            for statement in (*_SCHEMA, _ANSWERS, _BLOCKS):
                self.run(statement.format(integer=self.integer, blob=self.blob))
            self._write_metadata({"format": FORMAT})

    @property
    def has_answers(self) -> bool:
        """Whether there is a table of answers."""
        return self._format >= 2

    @property
    def has_blocks(self) -> bool:
        """Whether there is a table of blocks; before, there was one of nodes."""
        return self._format >= 3

    @contextmanager
    def _writing(self, version: int) -> Iterator[None]:
        """A transaction that leaves a journal of this format or a later one."""
        try:
            with self.transaction():
                for step in range(self._format + 1, version + 1):
                    for statement in _UPGRADES[step]:
                        self.run(statement.format(integer=self.integer, blob=self.blob))
                    self._write_metadata({"format": step})
                yield
        except BaseException:
            self.answers.recount()
            raise
        self._format = max(self._format, version)

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
        self._format = version
        self.answers.recount()
        self.head = int(self.run("SELECT COALESCE(MAX(position), 0) FROM log")[0][0])
        self.head = max(self.head, self.first - 1)
        # Without 'is not null' the databases would not use the index, and read the log once for every producer.
        newest = "(SELECT MAX(sequence) FROM log WHERE producer = number AND sequence IS NOT NULL)"
        found = self.run(f"SELECT name, number, dropped, {newest} FROM producers")
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
        return not self.is_open

    def check_usable(self) -> None:
        """Refuse to go on after a commit whose outcome is unknown, or without a connection."""
        if self.outcome_unknown:
            raise JournalError(
                f"{self.name}: it is unknown whether the last commit, after position {self.head}, happened; a "
                "running server reads it from the journal by itself, anything else is started again"
            )
        if self.connection_lost:
            raise JournalError(
                f"{self.name}: the connection was lost after position {self.head}; when the database is back, a "
                "running server reconnects by itself, and anything else is started again"
            )

    def ping(self) -> None:
        """Ask the database for a sign of life, so that a lost connection is noticed when nothing is written."""
        with self._lock:
            self.run("SELECT 1")

    def check_writable(self) -> None:
        """Commit and remove some filler, as large as a few batches: an error where there is no room for it."""
        for text in ("0" * ROOM, ""):
            self.set_metadata({"room": text})

    def append(self, records: Sequence[Record]) -> list[Record]:
        """Write records at the end, in one transaction, and give them their positions; they are durable then."""
        with self._lock:
            self.check_usable()
            placed = [replace(record, position=self.head + 1 + place) for place, record in enumerate(records)]
            names = sorted(
                {record.producer for record in placed if record.producer is not None} - self._producers.keys()
            )
            numbers = {name: len(self._producers) + 1 + place for place, name in enumerate(names)}
            known = ChainMap(numbers, self._producers)
            with self._writing(2):
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
                for offset in {offset[:2]: offset for record in placed for offset in record.reached}.values():
                    self.run(_SET_OFFSET, offset)
            self._producers |= numbers
            self.head += len(placed)
            self._newest_checksum = placed[-1].checksum() if placed else self._newest_checksum
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

    def blocks(self) -> Iterator[CheckpointBlock]:
        """The blocks of the checkpoint, in the order of their numbers; a damaged one is an error that names it."""
        if not self.has_blocks:
            yield from self._nodes()
            return
        for number in self.block_numbers():
            with self._lock:
                (row,) = self.run(
                    "SELECT number, places, gone, ids, data, checksum FROM blocks WHERE number = ?", (number,)
                )
            block = read_block(row)
            if block is None:
                raise self.damage(f"block {number} of its checkpoint is damaged", REBUILD)
            yield block

    def block_numbers(self) -> list[int]:
        """The numbers of the blocks of the checkpoint, ascending."""
        with self._lock:
            return [number for (number,) in self.run("SELECT number FROM blocks ORDER BY number")]

    def _nodes(self) -> Iterator[CheckpointBlock]:
        """The checkpoint of a journal of an earlier format as blocks of number 0."""
        after = -1
        query = f"SELECT place, id, data, checksum FROM nodes WHERE place > ? ORDER BY place LIMIT {4 * PAGE}"
        while True:
            with self._lock:
                page = self.run(query, (after,))
            if not page:
                return
            block, after = read_nodes(page)
            if block is None:
                raise self.damage(f"row {after} of its checkpoint is damaged", REBUILD)
            yield block

    def save(self, checkpoint: dict[str, Any], blocks: Iterable[CheckpointBlock], gone: Iterable[int]) -> None:
        """Write a checkpoint: what changed in blocks, the position, in one transaction; blocks that are gone go."""
        with self._lock:
            with self._writing(FORMAT):
                self.write_blocks(blocks, gone)
                self.answers.write()
                self._write_metadata({"checkpoint": checkpoint})
            self.answers.clear()

    def write_blocks(self, blocks: Iterable[CheckpointBlock], gone: Iterable[int]) -> None:
        """Write blocks and remove others, by their numbers, within a transaction."""
        self.run_many("DELETE FROM blocks WHERE number = ?", ((number,) for number in gone))
        rows = (block.columns() for block in blocks)
        self.run_many("INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?)", ((*row, block_checksum(*row)) for row in rows))

    def rewrite(self, changed: Iterable[Record], metadata: dict[str, Any], blocks: Iterable[CheckpointBlock]) -> None:
        """Replace records, metadata and the whole checkpoint in one transaction; `finish_wiping` is then due."""
        with self._lock:
            with self._writing(FORMAT):
                undone = set()
                for record in changed:
                    values = (record.payload, record.checksum(), record.position)
                    self.run("UPDATE log SET payload = ?, checksum = ? WHERE position = ?", values)
                    undone.add(record.position)
                self.run("DELETE FROM blocks")
                self.write_blocks(blocks, ())
                self.answers.write(undone)
                self._write_metadata({**metadata, "wipe": True})
            self.answers.clear()

    def finish_wiping(self) -> None:
        """Wipe what was deleted, unless that is done already."""
        with self._lock:
            if self.metadata().get("wipe"):
                self.wipe()
                self.set_metadata({"wipe": False})

    def trim(self, position: int) -> None:
        """Drop the records up to a position; what producers sent in them stays known as sent."""
        with self._lock:
            with self._writing(2):
                latest = (
                    "(SELECT MAX(sequence) FROM log WHERE producer = number AND sequence IS NOT NULL AND position <= ?)"
                )
                self.run(
                    f"UPDATE producers SET dropped = {latest} WHERE COALESCE({latest}, -1) > dropped",
                    (position, position),
                )
                self.run("DELETE FROM log WHERE position <= ?", (position,))
                self.answers.trim(position)
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
        for _ in self.blocks():
            pass
        self.answers.verify()

    def _write_metadata(self, metadata: dict[str, Any]) -> None:
        for name, value in metadata.items():
            text = json.dumps(value)
            self.run(_SET_METADATA, (name, text, metadata_checksum(name, text)))

    def _checked(self, row: tuple[Any, ...]) -> Record:
        record = read_record(row)
        if record is None:
            raise self.damage(f"the record at position {row[0]} is damaged")
        return record

    def damage(self, what: str, other_cure: str = "") -> JournalError:
        """The error of a journal that does not hold what was written."""
        return JournalError(f"{self.name}: {what}; restore the journal from a copy{other_cure} (nothing was changed)")


def open_journal(place: str | Path | Journal) -> Journal:
    """The journal at a path (SQLite) or a postgresql:// address, created where there is none; an open one as it is."""
    if isinstance(place, Journal):
        return place
    check_place(place)
    if is_postgres(place):
        from tapgnn.online.journal.postgres import PostgresJournal

        return PostgresJournal(str(place))
    from tapgnn.online.journal.sqlite import SqliteJournal

    return SqliteJournal(place)


def is_postgres(place: str | Path) -> bool:
    """Whether this is the address of a PostgreSQL."""
    return str(place).startswith(("postgresql://", "postgres://"))


def check_place(place: str | Path) -> None:
    """Refuse a place where no journal can be, before anything is opened or created."""
    if is_postgres(place):
        from tapgnn.online.journal.postgres import parse_address

        parse_address(str(place))
        return
    if "://" in str(place) or "password=" in str(place):
        raise JournalError(
            "a journal is a file or an address that begins with postgresql://; what was given is neither (it is not "
            "shown here, because it may hold a password)"
        )
    path = Path(place)
    if not path.parent.is_dir():
        reason = f"there is no folder {path.parent}; create it, or name another place"
    elif path.is_dir():
        reason = "it is a folder; name a file in it"
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        reason = f"{path.parent} is not writable; name a place where this user may write"
    elif path.exists() and not os.access(path, os.R_OK | os.W_OK):
        reason = "this user may not read and write it; change its owner, or name another place"
    else:
        return
    raise JournalError(f"{path} cannot be a journal: {reason}")
