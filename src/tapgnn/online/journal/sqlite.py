"""The journal as one SQLite file: write-ahead log, a real sync at every commit, one connection, one writer.

The connection holds the file's exclusive lock as long as it is open, so that a second writer is refused. Beside the
file lies `NAME-head` with the newest position that was committed: a journal that ends earlier has lost its
write-ahead log or was replaced by an older copy, and is refused.
"""

from __future__ import annotations

import glob
import logging
import os
import struct
import time
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tapgnn.errors import JournalError
from tapgnn.online.journal.database import IN_USE
from tapgnn.online.journal.journal import Journal
from tapgnn.online.journal.record import Record

try:
    import apsw
except ImportError as error:
    raise JournalError("a journal in a file needs apsw; install it with pip install 'tapgnn[serve]'") from error

_log = logging.getLogger(__name__)

_SETTINGS = (
    "page_size = 8192",
    "journal_mode = WAL",
    "synchronous = FULL",
    "wal_autocheckpoint = 2000",
    "journal_size_limit = 67108864",
    "cache_size = -8192",
)
_DAMAGED = "{name}: the file is damaged or cannot be written after position {head} ({reason}); restore it from a copy"
_HEAD = struct.Struct("<QI")
# Pages that are copied before others have their turn.
STEP = 1_024


class SqliteJournal(Journal):
    """See the module."""

    begin = "BEGIN IMMEDIATE"
    integer, blob = "INTEGER", "BLOB"
    certain_errors = (apsw.FullError, apsw.BusyError)
    database_error = apsw.Error
    explanations: ClassVar = {
        apsw.BusyError: IN_USE,
        apsw.LockedError: IN_USE,
        apsw.FullError: "{name}: the disk is full at position {head}; nothing was written, make room and try again",
        apsw.NotADBError: "{name} is not a tapgnn journal, or its start is damaged; restore it from a copy (nothing "
        "was changed)",
        apsw.Error: _DAMAGED,
        OSError: _DAMAGED,
        UnicodeDecodeError: _DAMAGED,
    }

    def __init__(self, path: str | Path) -> None:
        self._head_file, self._head_failed = -1, False
        super().__init__(str(path), lambda: apsw.Connection(str(path)))

    def open(self) -> None:
        """Lock the file, check it, and create the tables where there are none."""
        # Until the file is known to be an intact journal, not a byte of it may change, not even on closing.
        self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self.run("PRAGMA locking_mode = EXCLUSIVE")
        tables = {name for (name,) in self.run("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        committed = self._read_head_file()
        if "facts" not in tables and (tables or committed):
            raise JournalError(
                f"{self.name} is not a tapgnn journal, or was cut to nothing; restore it from a copy, or name a "
                f"file that does not exist (and has no {self.name}-head beside it); nothing was changed"
            )
        if tables:
            self._check_whole()
            self.load()
        if committed > self.head:
            raise JournalError(
                f"{self.name} ends at position {self.head}, but position {committed} was committed: its -wal file is "
                f"missing, or it is an older copy; restore it, or delete {self.name}-head to go on without (nothing "
                "was changed)"
            )
        for setting in _SETTINGS:
            self.run(f"PRAGMA {setting}")
        self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        if not tables:
            self.create()
        for left in self.copy_place.parent.glob(f"{glob.escape(self.copy_place.name)}*"):
            left.unlink()
        self._head_file = os.open(f"{self.name}-head", os.O_RDWR | os.O_CREAT, 0o644)
        self.finish_wiping()

    def _check_whole(self) -> None:
        """Refuse a file that ends within a page: the database would read zeros for what is missing."""
        log = Path(f"{self.name}-wal")
        # A kill while pages are copied over leaves such a file too; the write-ahead log then still has them.
        if log.exists() and log.stat().st_size:
            return
        ((page,),) = self.run("PRAGMA page_size")
        if Path(self.name).stat().st_size % page:
            raise JournalError(
                f"{self.name} ends in the middle of a page: its end is missing; restore it from a copy (nothing was "
                "changed)"
            )

    def reopen(self) -> bool:
        going_on = super().reopen()
        # What a failed sync left in memory alone may be read as if it were on the disk; written anew, it is.
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")
        return going_on

    def append(self, records: Sequence[Record]) -> list[Record]:
        with self._lock:
            placed = super().append(records)
            self._write_head_file()
            return placed

    def _write_head_file(self) -> None:
        """Note the newest position; without it less damage is found out, but nothing is lost."""
        try:
            os.pwrite(self._head_file, _HEAD.pack(self.head, _head_checksum(self.head)), 0)
            self._head_failed = False
        except OSError as error:
            if not self._head_failed:
                _log.warning("%s-head cannot be written (%s)", self.name, error.strerror)
            self._head_failed = True

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock, self.explained():
            return list(self.connection.execute(statement, values))

    def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._lock, self.explained():
            self.connection.executemany(statement, rows)

    @property
    def copy_place(self) -> Path:
        return Path(f"{self.name}-copy")

    def copy_to(self, path: Path) -> None:
        # What this connection writes meanwhile goes into the copy too, which ends as the journal is at that moment.
        try:
            target = apsw.Connection(str(path))
            try:
                with self._lock:
                    backup = target.backup("main", self.connection, "main")
                try:
                    self._copy_pages(backup)
                finally:
                    with self._lock:
                        backup.close(True)
            finally:
                target.close()
        except (apsw.Error, OSError) as error:
            # SQLite has no text for an error of the other database.
            reason = "the disk is full" if isinstance(error, apsw.FullError) else type(error).__name__
            raise JournalError(
                f"{path} cannot be written ({reason}); make room, or name another place (the journal is as it was)"
            ) from None

    def _copy_pages(self, backup: Any) -> None:
        """Copy all pages; those who write have their turn for as long as each step takes."""
        while not backup.done:
            start = time.monotonic()
            with self._lock:
                self.check_usable()
                backup.step(STEP)
            time.sleep(time.monotonic() - start)

    def wipe(self) -> None:
        """Rewrite the whole file, and empty the write-ahead log."""
        self.run("VACUUM")
        busy = self.run("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
        if busy:
            raise JournalError(f"{self.name}: its write-ahead log could not be emptied; restart to try again")

    def close(self) -> None:
        with self._lock:
            self.is_open = False
            self.connection.close()
            if self._head_file >= 0:
                os.close(self._head_file)
                self._head_file = -1

    def _read_head_file(self) -> int:
        try:
            number, checksum = _HEAD.unpack(Path(f"{self.name}-head").read_bytes())
        except (FileNotFoundError, struct.error):
            return 0
        return int(number) if _head_checksum(number) == checksum else 0


def _head_checksum(number: int) -> int:
    return zlib.crc32(struct.pack("<Q", number))
