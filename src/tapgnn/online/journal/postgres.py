"""The journal in PostgreSQL, for teams that have one: `postgresql://user@host/database?schema=NAME`.

All tables lie in one schema ('tapgnn' where none is named), so that a database can hold several journals. The single
writer holds an advisory lock as long as its session lives. Commits are synchronous, whatever the server's default is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tapgnn.errors import JournalError
from tapgnn.online.journal.journal import Journal

try:
    import psycopg
    from psycopg import sql
except ImportError as error:
    raise JournalError(
        "a journal in PostgreSQL needs psycopg; install it with pip install 'tapgnn[postgres]'"
    ) from error

# The lock of a writer that was killed is released when the server notices, which takes a moment.
PATIENCE = "2s"


class PostgresJournal(Journal):
    """See the module."""

    certain_errors = (psycopg.errors.DiskFull,)
    database_error = psycopg.Error

    def __init__(self, address: str) -> None:
        place, self.schema = _split(address)
        super().__init__(_shown(address), lambda: psycopg.connect(place, autocommit=True))

    def open(self) -> None:
        """Take the writer's lock, check the schema, and create the tables where there are none."""
        self.run("SET synchronous_commit = on")
        self.run("SET client_min_messages = warning")
        self._take_writer_lock()
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = ?"
        tables = {name for (name,) in self.run(query, (self.schema,))}
        if tables and "facts" not in tables:
            raise JournalError(
                f"{self.name}: schema {self.schema!r} holds other tables and no journal; name another with ?schema= "
                "(nothing was changed)"
            )
        if not tables:
            self.connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self.schema)))
        self.connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(self.schema)))
        if not tables:
            self.create("BIGINT", "BYTEA")
        self.load()
        self.finish_wiping()

    def _take_writer_lock(self) -> None:
        """Take the lock of the single writer, which the server keeps until this session ends."""
        key = int.from_bytes(hashlib.blake2b(f"tapgnn {self.schema}".encode(), digest_size=8).digest(), signed=True)
        self.run(f"SET lock_timeout = '{PATIENCE}'")
        try:
            self.run("SELECT pg_advisory_lock(?)", (key,))
        except psycopg.errors.LockNotAvailable:
            raise JournalError(
                f"{self.name} is in use by another writer; stop it first, a journal has one writer"
            ) from None
        self.run("SET lock_timeout = 0")

    def in_transaction(self) -> bool:
        """Whether there is something to roll back."""
        return not self.connection.closed and not self.outcome_unknown

    @property
    def connection_lost(self) -> bool:
        """Whether the session has ended."""
        return bool(self.connection.closed)

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement, with ? for values; gives its rows."""
        with self.explained():
            cursor = self.connection.execute(statement.replace("?", "%s").encode(), values or None)
            return cursor.fetchall() if cursor.description is not None else []

    def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each row of values."""
        with self.explained(), self.connection.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s").encode(), rows)

    def wipe(self) -> None:
        """Rewrite the tables; what the server has in its own write-ahead log goes when it recycles that."""
        for table in ("log", "nodes", "facts", "producers"):
            self.run(f"VACUUM FULL {table}")

    def close(self) -> None:
        """End the session, and with it the lock."""
        self.connection.close()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns errors of the database into a `JournalError` with the cure."""
        try:
            yield
        except psycopg.errors.LockNotAvailable:
            raise
        except psycopg.errors.DiskFull:
            raise JournalError(
                f"{self.name}: the server's disk is full at position {self.head}; nothing was written, make room and "
                "try again"
            ) from None
        except psycopg.OperationalError as error:
            reason = str(error).strip().splitlines()[0]
            raise JournalError(
                f"{self.name}: the server cannot be reached, or the connection was lost, after position {self.head} "
                f"({reason}); restart when it is back"
            ) from None
        except psycopg.Error as error:
            reason = str(error).strip().splitlines()[0]
            raise JournalError(
                f"{self.name}: PostgreSQL refused a statement after position {self.head} ({reason})"
            ) from None


def _split(address: str) -> tuple[str, str]:
    """The address as libpq takes it, and the schema."""
    parts = urlsplit(address)
    options = parse_qsl(parts.query)
    schema = next((value for name, value in options if name == "schema"), "tapgnn")
    rest = urlencode([(name, value) for name, value in options if name != "schema"])
    return urlunsplit(parts._replace(query=rest)), schema


def _shown(address: str) -> str:
    """The address without its password, for messages."""
    parts = urlsplit(address)
    return address.replace(f":{parts.password}@", ":***@") if parts.password else address
