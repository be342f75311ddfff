"""A growing file, read as it grows, and standard input.

The offset of a file is (its name, its identity, bytes read). The identity is a hash of the first event, so that a file
that was rotated or rewritten, even while nothing was running, is another file: it is read from its start, and a warning
is logged. Only complete lines count.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from tapgnn.errors import DataError
from tapgnn.online.journal.event_rows import RowReader
from tapgnn.online.sources import Deliver, Offsets
from tapgnn.online.sources.line_parser import LineParser

_log = logging.getLogger("tapgnn.online.sources")

BLOCK = 1 << 18
LONGEST_LINE = 1 << 20
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
        self._parser: Callable[[RowReader], LineParser] = lambda rows: LineParser(
            self.path.name, found, rows, skip_bad_rows
        )
        self._pause = pause
        self.lag: int | None = None

    def run(self, deliver: Deliver, offsets: Offsets, stop: threading.Event, rows: RowReader) -> None:
        """Follow the file, across rotations, until told to stop."""
        known = dict(offsets)
        while not stop.is_set():
            try:
                stream = open(self.path, "rb")  # noqa: SIM115
            except FileNotFoundError:
                stop.wait(self._pause)
                continue
            except OSError as error:
                raise DataError(f"{self.path} cannot be read ({error.strerror}); check the file") from None
            with stream:
                self._follow(stream, self._parser(rows), deliver, known, stop)

    def _follow(
        self,
        stream: BinaryIO,
        parser: LineParser,
        deliver: Deliver,
        known: dict[tuple[str, int], int],
        stop: threading.Event,
    ) -> None:
        """Read one file until it is replaced or truncated."""
        start = self._start(stream, parser, stop)
        if start is None:
            return
        begin, number, identity = start
        at = self._resume(stream, begin, identity, known)
        stream.seek(begin)
        number += _count_lines(stream, at - begin)
        rest = b""
        while not stop.is_set():
            block = stream.read(BLOCK)
            self.lag = max(os.fstat(stream.fileno()).st_size - at, 0)
            if not block:
                if self._is_gone(stream, at):
                    return
                stop.wait(self._pause)
                continue
            rest += block
            cut = rest.rfind(b"\n") + 1
            if not cut:
                if len(rest) > LONGEST_LINE:
                    raise DataError(
                        f"{self.path.name} line {number}: the line is too long; one event per line is expected"
                    )
                continue
            lines, rest = rest[:cut].split(b"\n")[:-1], rest[cut:]
            at += cut
            batch = parser.parse(lines, number)
            number += len(lines)
            known[self.name, identity] = at
            if batch is not None:
                deliver(batch, (self.name, identity, at))

    def _resume(self, stream: BinaryIO, begin: int, identity: int, known: Offsets) -> int:
        """How far this very file was read before; its first event where it was not, or was truncated since."""
        at, size = known.get((self.name, identity), begin), os.fstat(stream.fileno()).st_size
        if at > size:
            _log.warning("%s was truncated (%d bytes, %d were read): it is read from its start",
                         self.path.name, size, at)  # fmt: skip
            at = begin
        elif known and at == begin and any(key[0] == self.name for key in known):
            _log.warning("%s is not the file that was read before: it is read from its start", self.path.name)
        return at

    def _start(self, stream: BinaryIO, parser: LineParser, stop: threading.Event) -> tuple[int, int, int] | None:
        """Where the first event starts, its line, and the identity of the file; waits until there is one."""
        while not stop.is_set():
            stream.seek(0)
            lines = stream.read(LONGEST_LINE).split(b"\n")[:-1]
            wanted = 2 if parser.needs_header else 1
            if len(lines) >= wanted:
                if parser.needs_header:
                    parser.read_header(lines[0].removeprefix(b"\xef\xbb\xbf").rstrip(b"\r"))
                begin = len(lines[0]) + 1 if wanted == 2 else 0
                return begin, wanted, zlib.crc32(lines[wanted - 1])
            if os.fstat(stream.fileno()).st_size >= LONGEST_LINE:
                raise DataError(f"{self.path.name} line 1: the line is too long; one event per line is expected")
            if self._is_gone(stream, 0):
                return None
            stop.wait(self._pause)
        return None

    def _is_gone(self, stream: BinaryIO, at: int) -> bool:
        """Whether the file was replaced, or became shorter than what was read."""
        own = os.fstat(stream.fileno())
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        if (own.st_dev, own.st_ino) != (there.st_dev, there.st_ino):
            _log.warning("%s was replaced: the new file is read from its start", self.path.name)
            return True
        return own.st_size < at


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
                deliver(batch, None)
            if not block:
                return

    def _has_data(self) -> bool:
        """Wait briefly; whether there is something to read, or the end of the stream."""
        try:
            return bool(select.select([self._stream.fileno()], [], [], 0.2)[0])
        except (OSError, ValueError):
            return True  # not a stream of the operating system: reading it never blocks


def _count_lines(stream: BinaryIO, size: int) -> int:
    """The number of line ends in the next bytes, which are skipped."""
    count = 0
    while size > 0 and (block := stream.read(min(BLOCK, size))):
        count += block.count(b"\n")
        size -= len(block)
    return count
