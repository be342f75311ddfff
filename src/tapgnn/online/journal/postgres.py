"""The journal in PostgreSQL, for teams that have one: `postgresql://user@host/database?schema=NAME`.

All tables lie in one schema ('tapgnn' where none is named), so that a database can hold several journals. The single
writer holds an advisory lock as long as its session lives. Commits are synchronous, whatever the server's default is.

Messages name a journal by the parts of its address that are no secrets, and no message repeats an address that could
not be read: a password may be anywhere in it. Better than in the address it is kept in PGPASSWORD or ~/.pgpass.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, unquote

from tapgnn.errors import ConfigError, JournalError
from tapgnn.online.journal.database import IN_USE
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
# A server that falls silent is given up after about ten seconds, unless the address says otherwise.
NETWORK = {
    "connect_timeout": "10",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
PG_DUMP = (
    "a journal in PostgreSQL is copied by PostgreSQL's own tool, while the server runs: pg_dump --schema={schema} "
    "--file=COPY DATABASE; 'psql --file=COPY DATABASE' restores it where no such schema is"
)


class PostgresJournal(Journal):
    """See the module."""

    integer, blob = "BIGINT", "BYTEA"
    certain_errors = (psycopg.errors.DiskFull,)
    database_error = psycopg.Error
    explanations: ClassVar = {
        psycopg.errors.LockNotAvailable: IN_USE,
        psycopg.errors.DiskFull: "{name}: the server's disk is full at position {head}; nothing was written, make room "
        "and try again",
        psycopg.OperationalError: "{name}: PostgreSQL cannot be reached, or the connection was lost, after position "
        "{head} ({reason}); when it is back, a running server reconnects by itself, and anything else is started again",
        psycopg.Error: "{name}: PostgreSQL refused a statement after position {head} ({reason})",
    }

    def __init__(self, address: str) -> None:
        given, self.schema = parse_address(address)
        settings = psycopg.conninfo.make_conninfo(**{**NETWORK, **given})
        secrets = (given.get("password"), given.get("sslpassword"), os.environ.get("PGPASSWORD"))
        self._secrets = [secret for secret in secrets if secret]
        super().__init__(_shown(given, self.schema), lambda: psycopg.connect(settings, autocommit=True))

    def reason_of(self, error: Exception) -> str:
        reason = super().reason_of(error)
        for secret in self._secrets:
            reason = reason.replace(secret, "***")
        return reason

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
            self.create()
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
        return super().connection_lost or bool(self.connection.closed)

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.explained():
            cursor = self.connection.execute(statement.replace("?", "%s").encode(), values or None)
            return cursor.fetchall() if cursor.description is not None else []

    def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with self.explained(), self.connection.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s").encode(), rows)

    def wipe(self) -> None:
        """Rewrite the tables; what the server has in its own write-ahead log goes when it recycles that."""
        rows = "blocks" if self.has_blocks else "nodes"
        for table in ("log", rows, "facts", "producers", *(["answers"] if self.has_answers else [])):
            self.run(f"VACUUM FULL {table}")

    @property
    def copy_place(self) -> Path:
        raise ConfigError(PG_DUMP.format(schema=self.schema))

    def copy_to(self, path: Path) -> None:
        raise ConfigError(PG_DUMP.format(schema=self.schema))

    def close(self) -> None:
        """End the session, and with it the lock."""
        self.is_open = False
        self.connection.close()


def parse_address(address: str) -> tuple[dict[str, str], str]:
    """The settings in an address, as libpq names them, and the schema."""
    # What is before the first @ may hold any character but a slash.
    start, place, query = re.fullmatch(r"([^:]+://(?:[^@/]*@)?)([^?]*)(.*)", address, re.DOTALL).groups()  # type: ignore[union-attr]
    options = [option.partition("=") for option in query[1:].split("&")]
    schema = next((unquote(value) for name, _, value in options if name == "schema"), "tapgnn")
    rest = "&".join("".join(option) for option in options if option[0] != "schema")
    try:
        found = psycopg.conninfo.conninfo_to_dict(f"{start}{place}?{rest}" if rest else start + place)
    except psycopg.Error:
        found = {}
    given = {name: str(value) for name, value in found.items()}
    # A password with an unescaped character ends too early, and its rest is taken for one of these.
    misread = any("@" in given.get(name, "") for name in ("host", "dbname")) or re.search(
        "[^0-9,]", given.get("port", "")
    )
    if not given or misread:
        raise JournalError(
            "the address of the PostgreSQL cannot be read (it is not shown here, because it may hold a password); "
            "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE?schema=NAME, with %40 for @, %2F for /, %3A for : and "
            "%25 for % within a part"
        )
    return given, schema


def _shown(given: Mapping[str, str], schema: str) -> str:
    """The address for messages: of what was given, only what is never secret."""
    user = f"{given['user']}@" if "user" in given else ""
    host = quote(given.get("host", given.get("hostaddr", "")), safe=":,")
    port = f":{given['port']}" if "port" in given else ""
    return f"postgresql://{user}{host}{port}/{given.get('dbname', '')}?schema={schema}"
