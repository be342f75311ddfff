"""What an Arrow stream holds once it is decoded, read from its messages before anything is decoded.

    message = flatbuffer (Schema, RecordBatch or DictionaryBatch) + body
    RecordBatch: length, buffers [(offset, length)], compression      a compressed buffer begins with its decoded size

Arrow allocates what a compressed buffer says it holds, and joins what comes in pieces (delta dictionaries) anew for
each batch. So the sizes are added up and compared with a limit first. Messages are verified by Arrow when they are
read, so that their tables and vectors lie within them; bodies are not.
"""

from __future__ import annotations

from struct import unpack_from

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tapgnn.online.server.http_errors import HTTPProblemError, too_many_events

# More than the metadata of any table that people make: what describes columns becomes far larger objects.
SCHEMA_BYTES = 1_000_000


class _Table:
    """A table of a flatbuffer: its fields by number."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data, self._place = data, place
        self._fields = place - unpack_from("<i", data, place)[0]
        self._size = unpack_from("<H", data, self._fields)[0]

    def _find(self, number: int) -> int | None:
        at = 4 + 2 * number
        offset = unpack_from("<H", self.data, self._fields + at)[0] if at < self._size else 0
        return self._place + offset if offset else None

    def number(self, field: int, kind: str) -> int:
        """A scalar, zero where it is left out."""
        place = self._find(field)
        return 0 if place is None else int(unpack_from(kind, self.data, place)[0])

    def table(self, field: int) -> _Table | None:
        """A table, None where it is left out."""
        place = self._find(field)
        return None if place is None else _Table(self.data, place + unpack_from("<I", self.data, place)[0])

    def pairs(self, field: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """A vector of structures of two integers [n, 2]."""
        place = self._find(field)
        if place is None:
            return np.empty((0, 2), dtype=np.int64)
        place += unpack_from("<I", self.data, place)[0]
        count = unpack_from("<I", self.data, place)[0]
        return np.frombuffer(self.data, "<i8", 2 * count, place + 4).reshape(-1, 2)


def check_messages(body: bytes, most: int, limit: int) -> pa.Schema:
    """Refuse more than `most` rows, or more than `limit` bytes once decoded; gives the schema."""
    rows = size = 0
    schema = None
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(body)):
        if message.type == "schema":
            if schema is not None or message.metadata.size > SCHEMA_BYTES:
                raise HTTPProblemError(413, "the schema of the stream is too large; send only columns of an event")
            schema = pa.ipc.read_schema(message)
            continue
        data = message.metadata.to_pybytes()
        batch = _Table(data, unpack_from("<I", data, 0)[0]).table(2)
        if message.type == "dictionary" and batch is not None:
            if batch.number(2, "<B"):
                raise HTTPProblemError(422, "the stream has delta dictionaries; send each dictionary whole")
            batch = batch.table(1)
        elif batch is not None:
            rows += batch.number(0, "<q")
        if batch is None:
            raise pa.ArrowInvalid("a message is empty")
        size += _decoded_size(batch, message.body)
        if rows > most:
            raise too_many_events(most)
        if size > limit:
            raise HTTPProblemError(
                413, f"the Arrow stream decompresses to more than {limit:,} bytes; send several requests"
            )
    if schema is None:
        raise pa.ArrowInvalid("there is no schema")
    return schema


def _decoded_size(batch: _Table, body: pa.Buffer | None) -> int:
    """Bytes of the buffers of a record batch once they are decompressed."""
    buffers = batch.pairs(2)
    if batch.table(3) is None or body is None:
        return 0 if body is None else int(body.size)
    offset, length = buffers[buffers[:, 1] > 0].T
    if np.any((length < 8) | (offset < 0) | (offset > body.size - 8)):
        raise pa.ArrowInvalid("a compressed buffer lies outside of its message")
    content = np.frombuffer(body, np.uint8)
    sizes = content[offset[:, None] + np.arange(8)].copy().view("<i8")[:, 0]
    # -1 marks a buffer that is not compressed after all. Other negative sizes are refused when they are read.
    return int(np.where(sizes < 0, length, np.minimum(sizes, 2**40)).sum())
