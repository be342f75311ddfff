"""The journal: the truth from which every state is replayed. Records in order, metadata, and a checkpoint as a cache.

    log          one record per accepted batch
    producers    who sent them, so that no (producer, sequence) is taken twice
    offsets      how far each source was read, written in the transaction of the record
    blocks       rows of the state as of the checkpoint: only those that changed are written, in blocks of a megabyte
    answers      what senders were told of their batches up to the checkpoint, for when they are sent again
    facts        the metadata: format, model, policy, and the checkpoint's position, clock and counts

Every change is one transaction.
"""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tapgnn.errors import IrrevocableError, JournalError
from tapgnn.online.journal.database import Database
from tapgnn.online.journal.kept_answers import KeptAnswers
from tapgnn.online.journal.record import (
    CheckpointBlock,
    Kind,
    Record,
    block_checksum,
    crc32,
    read_block,
    read_nodes,
    read_record,
)

FORMAT = 3
PAGE = 256
# Bytes that must find room before a journal on a disk that was full is written again.
ROOM = 1 << 20
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
# Without 'is not null' the databases would not use the index, and read the log once for every producer.
_NEWEST = "SELECT MAX(sequence) FROM log WHERE producer = number AND sequence IS NOT NULL"
_RECORDS = (
    "SELECT l.position, l.kind, p.name, l.sequence, l.payload, l.checksum "
    "FROM log l LEFT JOIN producers p ON p.number = l.producer "
)


class Journal(Database):
    """See the module. One writer; any thread may call."""

    def __init__(self, name: str, connect: Callable[[], Any]) -> None:
        super().__init__(name, connect)
        self._newest_checksum: bytes | None = None
        self._producers: dict[str, int] = {}
        self._newest: dict[str, int] = {}
        self._format = FORMAT
        self.answers = KeptAnswers(self)
        self.connect()

    def reopen(self) -> bool:
        """Connect again after a failure and read where the journal ends.

        Gives whether it goes on from the newest record that is known here: False where that was changed meanwhile. One
        that ends earlier has lost what was acknowledged, and is refused.
        """
        with self._lock:
            known, checksum = self.head, self._newest_checksum
            try:
                self.close()
                self.connect()
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

    def create(self) -> None:
        """Make the tables of an empty journal."""
        with self._lock, self.transaction():
            self._run_all((*_SCHEMA, _ANSWERS, _BLOCKS))
            self._write_metadata({"format": FORMAT})

    def _run_all(self, statements: Iterable[str]) -> None:
        for statement in statements:
            self.run(statement.format(integer=self.integer, blob=self.blob))

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
                    self._run_all(_UPGRADES[step])
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
        found = self.run(f"SELECT name, number, dropped, COALESCE(({_NEWEST}), -1) FROM producers")
        if not all(isinstance(value, int) for _, *numbers in found for value in numbers):
            raise self.damage("its list of producers is damaged")
        self._producers = {name: number for name, number, _, _ in found}
        self._newest = {name: max(dropped, last) for name, _, dropped, last in found}
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
                if crc32(f"{name}={text}") != checksum:
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

    def check_writable(self) -> None:
        """Commit and remove some filler, as large as a few batches: an error where there is no room for it."""
        for text in ("0" * ROOM, ""):
            self.set_metadata({"room": text})

    def append(self, records: Sequence[Record]) -> list[Record]:
        """Write records at the end, in one transaction, and give them their positions; they are durable then."""
        with self._lock:
            self.check_usable()
            placed = [replace(record, position=at) for at, record in enumerate(records, self.head + 1)]
            fresh = {record.producer for record in placed if record.producer is not None} - self._producers.keys()
            numbers = {name: number for number, name in enumerate(sorted(fresh), len(self._producers) + 1)}
            known = ChainMap(numbers, self._producers)
            with self._writing(2):
                for name, number in numbers.items():
                    self.run("INSERT INTO producers VALUES (?, ?, -1)", (number, name))
                for record in placed:
                    sender = None if record.producer is None else known[record.producer]
                    row = (record.position, int(record.kind), sender, record.sequence, record.payload)
                    self.run("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", (*row, record.checksum()))
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
                (row,) = self.run("SELECT * FROM blocks WHERE number = ?", (number,))
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
                latest = f"({_NEWEST} AND position <= ?)"
                update = f"UPDATE producers SET dropped = {latest} WHERE COALESCE({latest}, -1) > dropped"
                self.run(update, (position, position))
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
            self.run(_SET_METADATA, (name, text, crc32(f"{name}={text}")))

    def _checked(self, row: tuple[Any, ...]) -> Record:
        record = read_record(row)
        if record is None:
            raise self.damage(f"the record at position {row[0]} is damaged")
        return record

    def damage(self, what: str, other_cure: str = "") -> JournalError:
        """The error of a journal that does not hold what was written."""
        return JournalError(f"{self.name}: {what}; restore the journal from a copy{other_cure} (nothing was changed)")
