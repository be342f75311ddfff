"""The journal in PostgreSQL, for teams that have one: `postgresql://user@host/database?schema=NAME`.

All tables lie in one schema ('tapgnn' where none is named), so that a database can hold several journals. The single
writer holds an advisory lock as long as its session lives. Commits are synchronous, whatever the server's default is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tapgnn.errors import JournalError
from tapgnn.online.journal.journal import IN_USE, Journal

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
    explanations: ClassVar = {
        psycopg.errors.LockNotAvailable: IN_USE,
        psycopg.errors.DiskFull: "{name}: the server's disk is full at position {head}; nothing was written, make room "
        "and try again",
        psycopg.OperationalError: "{name}: the server cannot be reached, or the connection was lost, after position "
        "{head} ({reason}); restart when it is back",
        psycopg.Error: "{name}: PostgreSQL refused a statement after position {head} ({reason})",
    }

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
        self.run("SELECT pg_advisory_lock(?)", (key,))
        self.run("SET lock_timeout = 0")

    @property
    def connection_lost(self) -> bool:
        return bool(self.connection.closed)

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.explained():
            cursor = self.connection.execute(statement.replace("?", "%s").encode(), values or None)
            return cursor.fetchall() if cursor.description is not None else []

    def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with self.explained(), self.connection.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s").encode(), rows)

    def wipe(self) -> None:
        """Rewrite the tables; what the server has in its own write-ahead log goes when it recycles that."""
        for table in ("log", "nodes", "facts", "producers"):
            self.run(f"VACUUM FULL {table}")

    def close(self) -> None:
        """End the session, and with it the lock."""
        self.connection.close()


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
