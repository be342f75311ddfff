"""The journal as one SQLite file: write-ahead log, a real sync at every commit, one connection, one writer.

The connection holds the file's exclusive lock as long as it is open, so that a second writer is refused. Beside the
file lies a witness, `NAME-head`, with the newest position that was committed: a file that ends earlier has lost its
write-ahead log or was replaced by an older copy, and is refused.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tapgnn.errors import JournalError
from tapgnn.online.journal.journal import Journal
from tapgnn.online.journal.record import Entry, Record

try:
    import apsw
except ImportError as error:
    raise JournalError("a journal in a file needs apsw; install it with pip install 'tapgnn[serve]'") from error

_SETTINGS = (
    "page_size = 8192",
    "journal_mode = WAL",
    "synchronous = FULL",
    "wal_autocheckpoint = 2000",
    "journal_size_limit = 67108864",
    "cache_size = -8192",
)
_WITNESS = struct.Struct("<QI")


class SqliteJournal(Journal):
    """See the module."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(str(path))
        self._witness = -1
        with self._explained():
            self.connection = apsw.Connection(self.name)
        try:
            with self._explained():
                self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        # Until the file is known to be a sound journal, not a byte of it may change, not even on closing.
        self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self.run("PRAGMA locking_mode = EXCLUSIVE")
        tables = {name for (name,) in self.run("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        promised = self._read_witness()
        if "facts" not in tables and (tables or promised):
            raise JournalError(
                f"{self.name} is not a journal of tapgnn, or was cut to nothing; restore it from a copy, or name a "
                f"file that does not exist (and has no {self.name}-head beside it); nothing was changed"
            )
        if tables:
            self._check_whole()
            self.load()
        if promised > self.head:
            raise JournalError(
                f"{self.name} ends at position {self.head}, but position {promised} was committed: its -wal file is "
                f"missing, or it is an older copy; restore it, or delete {self.name}-head to go on without (nothing "
                "was changed)"
            )
        for setting in _SETTINGS:
            self.run(f"PRAGMA {setting}")
        self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        if not tables:
            self.create("INTEGER", "BLOB")
        self._witness = os.open(f"{self.name}-head", os.O_RDWR | os.O_CREAT, 0o644)
        self.finish_wiping()

    def _check_whole(self) -> None:
        """Refuse a file that ends within a page: the database would read zeros for what is missing."""
        log = Path(f"{self.name}-wal")
        # A death while pages are carried over leaves such a file too; the write-ahead log then has them still.
        if log.exists() and log.stat().st_size:
            return
        ((page,),) = self.run("PRAGMA page_size")
        if Path(self.name).stat().st_size % page:
            raise JournalError(
                f"{self.name} ends in the middle of a page: its end is missing; restore it from a copy (nothing was "
                "changed)"
            )

    def append(self, entries: Sequence[Entry]) -> list[Record]:
        """Write entries at the end, in one transaction; when it returns they are safe."""
        with self._lock:
            records = super().append(entries)
            number = struct.pack("<Q", self.head)
            os.lseek(self._witness, 0, os.SEEK_SET)
            os.write(self._witness, number + struct.pack("<I", zlib.crc32(number)))
            return records

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements of the block are committed together, or none is."""
        with self._explained():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._commit()
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def _commit(self) -> None:
        try:
            self.connection.execute("COMMIT")
        except (apsw.FullError, apsw.BusyError):
            raise
        except apsw.Error:
            self.doubtful = True
            raise

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement, with ? for values; gives its rows."""
        with self._explained():
            return list(self.connection.execute(statement, values))

    def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each row of values."""
        with self._explained():
            self.connection.executemany(statement, rows)

    def wipe(self) -> None:
        """Write the whole file anew, and empty the write-ahead log."""
        self.run("VACUUM")
        busy = self.run("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
        if busy:
            raise JournalError(f"{self.name}: its write-ahead log could not be emptied; open the journal again")

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self.connection.close()
            if self._witness >= 0:
                os.close(self._witness)
                self._witness = -1

    def _read_witness(self) -> int:
        try:
            number, checksum = _WITNESS.unpack(Path(f"{self.name}-head").read_bytes())
        except (FileNotFoundError, struct.error):
            return 0
        return int(number) if zlib.crc32(struct.pack("<Q", number)) == checksum else 0

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of the database in words, with their cure."""
        try:
            yield
        except (apsw.BusyError, apsw.LockedError):
            raise JournalError(
                f"{self.name} is in use by another writer; stop it first, a journal has one writer"
            ) from None
        except apsw.FullError:
            raise JournalError(
                f"{self.name}: the disk is full at position {self.head}; nothing was written, make room and try again"
            ) from None
        except apsw.NotADBError:
            raise JournalError(
                f"{self.name} is not a journal of tapgnn, or its start is damaged; restore it from a copy (nothing was "
                "changed)"
            ) from None
        except (apsw.Error, UnicodeDecodeError) as error:
            raise JournalError(
                f"{self.name}: the file is damaged or cannot be written after position {self.head} ({error}); restore "
                "it from a copy"
            ) from None
