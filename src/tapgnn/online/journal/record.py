"""What a journal holds: records, in order, and the rows of nodes in a checkpoint, in blocks; each with its checksum.

A record's checksum covers its position, so that swapped rows are detected too.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.errors import ConfigError
from tapgnn.events import Ints
from tapgnn.vocabulary import Id

Offset = tuple[str, int, int]
Reached = tuple[Offset, ...]
NAME_LENGTH = 1_000


class Kind(IntEnum):
    """What a record means: the closing of all held instants, a new policy, or a batch of events.

    The kind of a batch also says what its sender was told of it: nothing, scores of links, risks, or both.
    """

    EVENTS = 1
    FLUSH = 2
    POLICY = 3
    SCORED = 4
    CLASSIFIED = 5
    SCORED_AND_CLASSIFIED = 6

    @classmethod
    def of_events(cls, scored: bool, classified: bool) -> Kind:
        """The kind of a batch whose sender is told these."""
        return next(kind for kind, told in _TOLD.items() if told == (scored, classified))

    @property
    def holds_events(self) -> bool:
        """Whether the record is a batch."""
        return self in _TOLD

    @property
    def told(self) -> tuple[bool, bool]:
        """Whether the sender of a batch was told scores, and risks."""
        return _TOLD.get(self, (False, False))


_TOLD = {
    Kind.EVENTS: (False, False),
    Kind.SCORED: (True, False),
    Kind.CLASSIFIED: (False, True),
    Kind.SCORED_AND_CLASSIFIED: (True, True),
}


@dataclass(frozen=True)
class Record:
    """One row of the log: who sent it under which number, and its position, counted from 1 (0 before it is appended).

    reached is how far sources were read, kept in the transaction that appends the record, and no part of it.
    """

    kind: Kind
    payload: bytes
    producer: str | None = None
    sequence: int | None = None
    reached: Reached = ()
    position: int = 0

    def __post_init__(self) -> None:
        if (self.producer is None) != (self.sequence is None):
            raise ConfigError("producer and sequence belong together; give both, or neither")
        if self.producer is not None:
            _check_name("producer", self.producer)
            _check_number("sequence", self.sequence)
        for topic, partition, offset in self.reached:
            _check_name("topic", topic)
            _check_number("partition", partition)
            _check_number("offset", offset)

    def checksum(self) -> bytes:
        """16 bytes over all of it."""
        sender = json.dumps([self.producer, self.sequence]).encode()
        head = struct.pack("<QBI", self.position, self.kind, len(sender))
        return hashlib.blake2b(head + sender + self.payload, digest_size=16).digest()


@dataclass(frozen=True)
class CheckpointBlock:
    """Nodes in a checkpoint, written together; a block with a higher number has the newer rows.

    rows [n] are those of the nodes, ids [n] their ids (None where the model itself knows them) and data [n, w] their
    numbers as bytes; gone are rows that no longer have a node.
    """

    number: int
    rows: Ints
    gone: Ints
    ids: Sequence[Id | None]
    data: NDArray[np.uint8]

    def columns(self) -> tuple[int, bytes, bytes, str, memoryview]:
        """Number, rows, gone, ids as JSON, which tells 7 from '7', and data."""
        rows, gone = (rows.astype("<i8").tobytes() for rows in (self.rows, self.gone))
        return self.number, rows, gone, json.dumps(list(self.ids)), self.data.reshape(-1).data


def read_record(row: Sequence[Any]) -> Record | None:
    """The record in a row (position, kind, producer, sequence, payload, checksum) of any content; None if damaged."""
    position, kind, producer, sequence, payload, checksum = row
    try:
        record = Record(Kind(kind), bytes(payload), producer, sequence, (), position)
        return record if record.checksum() == bytes(checksum) else None
    except (TypeError, ValueError, struct.error):
        return None


def block_checksum(number: int, rows: bytes, gone: bytes, ids: str, data: bytes | memoryview) -> int:
    """32 bits over all of a block."""
    return crc32(f"{number} {len(rows)} {len(gone)} {ids}", rows, gone, data)


def crc32(text: str, *parts: bytes | memoryview) -> int:
    """The CRC-32 of a text and of what follows it."""
    return reduce(lambda before, part: zlib.crc32(part, before), parts, zlib.crc32(text.encode()))


def read_block(row: Sequence[Any]) -> CheckpointBlock | None:
    """The block in a row (number, rows, gone, ids, data, checksum) of any content; None if damaged."""
    number, rows, gone, ids, data, checksum = row
    try:
        if block_checksum(number, rows, gone, ids, data) != checksum:
            return None
        places, left = (np.frombuffer(held, "<i8").astype(np.int64) for held in (rows, gone))
        names = json.loads(ids)
        block = CheckpointBlock(number, places, left, names, _by_node(data, len(places)))
        return block if len(names) == len(places) else None
    except (TypeError, ValueError):
        return None


def read_nodes(rows: Sequence[Sequence[Any]]) -> tuple[CheckpointBlock | None, int]:
    """The block of number 0 that nodes of formats before 3 make, rows (row, id, data, checksum); None at a damaged one.

    Gives also the row of the last node that was looked at.
    """
    ids = []
    for place, name, data, checksum in rows:
        try:
            intact = crc32(f"{place} {name}", data) == checksum
            ids.append(None if name is None else json.loads(name))
        except (TypeError, ValueError):
            intact = False
        if not intact:
            return None, place
    data = b"".join(data for _, _, data, _ in rows)
    places = np.array([place for place, *_ in rows], dtype=np.int64)
    return CheckpointBlock(0, places, places[:0], ids, _by_node(data, len(rows))), int(places[-1])


def _by_node(data: bytes, nodes: int) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8).reshape(nodes, -1 if nodes else 0)


def _check_name(what: str, name: Any) -> None:
    """Refuse a name that not every database can store."""
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH or not name.isprintable():
        raise ConfigError(f"{what} is a printable name of 1 to {NAME_LENGTH:,} characters, not {str(name)[:40]!r}")


def _check_number(what: str, number: Any) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**63:
        raise ConfigError(f"{what} is a whole number from 0 to 2^63 - 1, not {str(number)[:40]}")
