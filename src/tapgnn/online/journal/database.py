"""A database behind a journal: one connection, and statements on it in transactions.

The SQL of a journal is what SQLite and PostgreSQL share. A database adds how to connect, to hold the single writer's
lock, to run a statement, and to wipe what was deleted.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from tapgnn.errors import JournalError

IN_USE = (
    "{name} is in use by another writer; stop it first, a journal has one writer (to copy it, give 'tapgnn backup' the "
    "address of its server)"
)


class Database(ABC):
    """See the module. Any thread may call.

    name, head        what messages call it, and the position of its newest record
    outcome_unknown   a commit failed in a way that leaves open whether it happened
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
        self.name, self.head = name, 0
        self.outcome_unknown = self.is_open = False
        self._connect = connect
        self._lock = threading.RLock()

    @abstractmethod
    def open(self) -> None:
        """Take the single writer's lock, check what is there, and create the tables where there are none."""

    @abstractmethod
    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement, with ? for values; gives its rows."""

    @abstractmethod
    def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each row of values."""

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

    @property
    def connection_lost(self) -> bool:
        """Whether the database is out of reach until the journal is opened again."""
        return not self.is_open

    def connect(self) -> None:
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

    def ping(self) -> None:
        """Ask the database for a sign of life, so that a lost connection is noticed when nothing is written."""
        with self._lock:
            self.run("SELECT 1")

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
