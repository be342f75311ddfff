"""A growing file, read as it grows, and standard input.

How far a file was read is kept under its inode: the number of bytes, and a hash of those just before. Reading goes on
only where these bytes still are. A file that was cut and has grown past its old size, or was replaced by one that
begins with the same events, is therefore read from its start, while it is watched and after a restart, and a warning
is logged. A file that was renamed with unread lines, while nothing was running, is read to its end first. Only
complete lines count.
"""

from __future__ import annotations

import hashlib
import logging
import os
import select
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tapgnn.errors import DataError
from tapgnn.online.journal.event_rows import RowReader
from tapgnn.online.sources import Deliver, Offsets
from tapgnn.online.sources.line_parser import LineParser

_log = logging.getLogger("tapgnn.online.sources")

BLOCK = 1 << 18
LONGEST_LINE = 1 << 20
# Bytes before an offset by which a file is known again.
BEFORE = 4_096
FORMATS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}


class FileSource:
    """The lines of a growing file; looks for more every `pause` seconds."""

    def __init__(self, path: str | Path, skip_bad_rows: bool = False, pause: float = 0.2) -> None:
        self.path = Path(path).resolve()
        self.name = f"file:{self.path}"
        found = FORMATS.get(self.path.suffix.lower())
        if found is None:
            raise DataError(
                f"{path}: the name ends in none of {', '.join(FORMATS)}; pass a file with one of these extensions"
            )
        self._format, self._skip, self._pause = found, skip_bad_rows, pause
        self.lag: int | None = None

    def run(self, deliver: Deliver, offsets: Offsets, stop: threading.Event, rows: RowReader) -> None:
        """Follow the file, across rotations, until told to stop."""
        known = dict(offsets)
        for renamed in self._renamed(known):
            with renamed:
                self._follow(renamed, rows, deliver, known, stop, to_end=True)
        while not stop.is_set():
            try:
                stream = open(self.path, "rb")  # noqa: SIM115
            except FileNotFoundError:
                stop.wait(self._pause)
                continue
            except OSError as error:
                raise DataError(f"{self.path} cannot be read ({error.strerror}); check the file") from None
            with stream:
                self._follow(stream, rows, deliver, known, stop)

    def _follow(
        self,
        stream: BinaryIO,
        rows: RowReader,
        deliver: Deliver,
        known: dict[tuple[str, int], int],
        stop: threading.Event,
        to_end: bool = False,
    ) -> None:
        """Read one file until it is replaced or written anew, or to its end."""
        parser = LineParser(self.path.name, self._format, rows, self._skip)
        start = self._start(stream, parser, stop)
        if start is None:
            return
        place, replaced = self._resume(stream, start, known), False
        while not stop.is_set():
            text = _read_lines(stream, place, self.path.name)
            self.lag = max(os.fstat(stream.fileno()).st_size - place.at, 0)
            if text is None or (not text and (to_end or replaced)):
                return
            if not text:
                # What was replaced is looked at once more: its last lines may have come in between.
                replaced = self._is_replaced(stream)
                stop.wait(self._pause)
                continue
            lines = text.split(b"\n")[:-1]
            batch = parser.parse(lines, place.line)
            place.pass_over(text)
            reached = ((self.name, place.inode, place.at), (self._hashes, place.inode, _hash(place.before)))
            known |= {offset[:2]: offset[2] for offset in reached}
            if batch is not None:
                deliver(batch, reached)

    @property
    def _hashes(self) -> str:
        """The topic under which the hashes are kept."""
        return f"hash before {self.name}"

    def _resume(self, stream: BinaryIO, start: _Place, known: Offsets) -> _Place:
        """Where reading goes on: after what was read before, if it is still there, else at the start."""
        inodes = [inode for topic, inode in known if topic == self._hashes]
        elsewhere = _inodes_in(self.path.parent) - {start.inode}
        # A file that was copied to its place has another inode; one that was rotated still has its own.
        mine = [inode for inode in inodes if inode not in elsewhere]
        found = [known[self.name, inode] for inode in mine if self._has_read(stream, known, inode)]
        if not inodes and (self.name, start.identity) in known:
            # As versions before kept it: under a hash of the first event.
            at = known[self.name, start.identity]
            found = [at] if at <= os.fstat(stream.fileno()).st_size else []
        if found:
            start.move_to(stream, max(found))
        elif any(topic == self.name for topic, _ in known):
            size, at = os.fstat(stream.fileno()).st_size, known.get((self.name, start.inode), 0)
            what = f"was truncated ({size} bytes, {at} were read)" if size < at else "is not what was read before"
            _log.warning("%s %s: it is read from its start", self.path.name, what)
        return start

    def _has_read(self, stream: BinaryIO, known: Offsets, inode: int) -> bool:
        """Whether what was read of an inode is in this file."""
        at = known.get((self.name, inode))
        return at is not None and _hash(_bytes_before(stream, at)) == known.get((self._hashes, inode))

    def _renamed(self, known: Offsets) -> Iterator[BinaryIO]:
        """Files that were renamed with unread lines, oldest first; none where the file in their place was read from."""
        read = {inode: at for (topic, inode), at in known.items() if topic == self.name}
        if not read or not self.path.parent.is_dir():
            return
        beside = [path for path in self.path.parent.iterdir() if path.is_file()]
        if any(path == self.path and _inode(path.stat()) in read for path in beside):
            return
        for path in sorted(beside, key=lambda path: path.stat().st_mtime):
            inode, size = _inode(path.stat()), path.stat().st_size
            if path != self.path and size > read.get(inode, size):
                with open(path, "rb") as stream:
                    if self._has_read(stream, known, inode):
                        _log.warning("%s is now %s: the rest of it is read first", self.path.name, path.name)
                        yield stream

    def _start(self, stream: BinaryIO, parser: LineParser, stop: threading.Event) -> _Place | None:
        """Where the first event starts; waits until there is one."""
        while not stop.is_set():
            stream.seek(0)
            lines = stream.read(LONGEST_LINE).split(b"\n")[:-1]
            wanted = 2 if parser.needs_header else 1
            if len(lines) >= wanted:
                if parser.needs_header:
                    parser.read_header(lines[0].removeprefix(b"\xef\xbb\xbf").rstrip(b"\r"))
                inode, identity = _inode(os.fstat(stream.fileno())), zlib.crc32(lines[wanted - 1])
                before = lines[0] + b"\n" if wanted == 2 else b""
                return _Place(inode, identity, len(before), before[-BEFORE:], wanted)
            if os.fstat(stream.fileno()).st_size >= LONGEST_LINE:
                raise DataError(f"{self.path.name} line 1: the line is too long; one event per line is expected")
            if self._is_replaced(stream):
                return None
            stop.wait(self._pause)
        return None

    def _is_replaced(self, stream: BinaryIO) -> bool:
        """Whether another file is at the path."""
        own = os.fstat(stream.fileno())
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        return (own.st_dev, own.st_ino) != (there.st_dev, there.st_ino)


@dataclass
class _Place:
    """How far a file was read: `at` bytes, `before` that, and the number of the next line.

    identity is a hash of the first event.
    """

    inode: int
    identity: int
    at: int
    before: bytes
    line: int

    def pass_over(self, text: bytes) -> None:
        """Go on behind these lines."""
        self.at += len(text)
        self.before = (self.before + text)[-BEFORE:]
        self.line += text.count(b"\n")

    def move_to(self, stream: BinaryIO, at: int) -> None:
        """Go on at a later byte."""
        for start in range(self.at, at, BLOCK):
            self.line += os.pread(stream.fileno(), min(BLOCK, at - start), start).count(b"\n")
        self.at, self.before = at, _bytes_before(stream, at)


def _read_lines(stream: BinaryIO, place: _Place, name: str) -> bytes | None:
    """The next complete lines; None where what was read before them is no longer there."""
    start = place.at - len(place.before)
    found = os.pread(stream.fileno(), len(place.before) + BLOCK, start)
    if not found.startswith(place.before):
        return None
    text = found[len(place.before) :]
    if len(text) == BLOCK and b"\n" not in text:
        text = os.pread(stream.fileno(), LONGEST_LINE + 1, place.at)
        if len(text) > LONGEST_LINE and b"\n" not in text:
            raise DataError(f"{name} line {place.line}: the line is too long; one event per line is expected")
    return text[: text.rfind(b"\n") + 1]


def _bytes_before(stream: BinaryIO, at: int) -> bytes:
    start = max(at - BEFORE, 0)
    return os.pread(stream.fileno(), at - start, start)


def _hash(text: bytes) -> int:
    """63 bits, as every database has them."""
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> 1


def _inode(about: os.stat_result) -> int:
    return about.st_ino & (2**63 - 1)


def _inodes_in(folder: Path) -> set[int]:
    return {_inode(path.stat()) for path in folder.iterdir() if path.is_file()}


class StreamSource:
    """The lines of a stream that cannot be read twice, such as standard input; it ends when the stream does."""

    name = "stdin"
    lag: int | None = None

    def __init__(self, stream: BinaryIO, format: str = "jsonl", skip_bad_rows: bool = False) -> None:
        self._stream, self._format, self._skip = stream, format, skip_bad_rows

    def run(self, deliver: Deliver, offsets: Offsets, stop: threading.Event, rows: RowReader) -> None:
        """Read to the end; a last line without a line end counts."""
        parser = LineParser(self.name, self._format, rows, self._skip)
        number, rest = 1, b""
        # read1 gives what is there, so that a line is not kept waiting for a full block.
        read = getattr(self._stream, "read1", self._stream.read)
        while not stop.is_set():
            if not self._has_data():
                continue
            block = read(BLOCK)
            rest += block
            cut = rest.rfind(b"\n") + 1 if block else len(rest)
            if not cut and len(rest) > LONGEST_LINE:
                raise DataError(f"{self.name} line {number}: the line is too long; one event per line is expected")
            lines, rest = rest[:cut].removesuffix(b"\n").split(b"\n") if cut else [], rest[cut:]
            if lines and parser.needs_header:
                parser.read_header(lines.pop(0).rstrip(b"\r"))
                number += 1
            batch = parser.parse(lines, number) if lines else None
            number += len(lines)
            if batch is not None:
                deliver(batch, ())
            if not block:
                return

    def _has_data(self) -> bool:
        """Wait briefly; whether there is something to read, or the end of the stream."""
        try:
            return bool(select.select([self._stream.fileno()], [], [], 0.2)[0])
        except (OSError, ValueError):
            return True  # not a stream of the operating system: reading it never blocks
