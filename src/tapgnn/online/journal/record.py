"""What a journal holds: records, in order, and the rows of nodes in a checkpoint; each with its checksum.

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
from typing import Any

from tapgnn.errors import ConfigError
from tapgnn.vocabulary import Id

Offset = tuple[str, int, int]
NAME_LENGTH = 1_000


class Kind(IntEnum):
    """What a record means: a batch of events, the closing of all held instants, or a new policy."""

    EVENTS = 1
    FLUSH = 2
    POLICY = 3


@dataclass(frozen=True)
class Record:
    """One row of the log: who sent it under which number, and its position, counted from 1 (0 before it is appended).

    offset is how far a source was read, kept in the transaction that appends the record, and no part of it.
    """

    kind: Kind
    payload: bytes
    producer: str | None = None
    sequence: int | None = None
    offset: Offset | None = None
    position: int = 0

    def __post_init__(self) -> None:
        if (self.producer is None) != (self.sequence is None):
            raise ConfigError("producer and sequence belong together; give both, or neither")
        if self.producer is not None:
            _check_name("producer", self.producer)
            _check_number("sequence", self.sequence)
        if self.offset is not None:
            topic, partition, reached = self.offset
            _check_name("topic", topic)
            _check_number("partition", partition)
            _check_number("offset", reached)

    def checksum(self) -> bytes:
        """16 bytes over all of it."""
        sender = json.dumps([self.producer, self.sequence]).encode()
        head = struct.pack("<QBI", self.position, self.kind, len(sender))
        return hashlib.blake2b(head + sender + self.payload, digest_size=16).digest()


@dataclass(frozen=True)
class Node:
    """A node in a checkpoint: its row, its id (None where the model itself knows it), and its numbers."""

    row: int
    id: Id | None
    data: bytes | memoryview

    def text(self) -> str | None:
        """The id as JSON, which tells 7 from '7'."""
        return None if self.id is None else json.dumps(self.id)

    def checksum(self) -> int:
        """32 bits over all of it."""
        return zlib.crc32(self.data, zlib.crc32(f"{self.row} {self.text()}".encode()))


def read_record(row: Sequence[Any]) -> Record | None:
    """The record in a row (position, kind, producer, sequence, payload, checksum) of any content; None if damaged."""
    position, kind, producer, sequence, payload, checksum = row
    try:
        record = Record(Kind(kind), bytes(payload), producer, sequence, None, position)
        return record if record.checksum() == bytes(checksum) else None
    except (TypeError, ValueError, struct.error):
        return None


def read_node(row: Sequence[Any]) -> Node | None:
    """The node in a row (row, id, data, checksum) of any content; None if damaged."""
    place, name, data, checksum = row
    try:
        node = Node(place, None if name is None else json.loads(name), bytes(data))
        return node if node.text() == name and node.checksum() == checksum else None
    except (TypeError, ValueError):
        return None


def metadata_checksum(name: str, text: str) -> int:
    """32 bits over an entry of the metadata."""
    return zlib.crc32(f"{name}={text}".encode())


def _check_name(what: str, name: Any) -> None:
    """Refuse a name that not every database can store."""
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH or not name.isprintable():
        raise ConfigError(f"{what} is a printable name of 1 to {NAME_LENGTH:,} characters, not {str(name)[:40]!r}")


def _check_number(what: str, number: Any) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**63:
        raise ConfigError(f"{what} is a whole number from 0 to 2^63 - 1, not {str(number)[:40]}")
