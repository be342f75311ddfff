"""Where a journal is: a path (SQLite) or a postgresql:// address."""

from __future__ import annotations

import os
from pathlib import Path

from tapgnn.errors import JournalError
from tapgnn.online.journal.journal import Journal


def open_journal(place: str | Path | Journal) -> Journal:
    """The journal at a path (SQLite) or a postgresql:// address, created where there is none; an open one as it is."""
    if isinstance(place, Journal):
        return place
    check_place(place)
    if is_postgres(place):
        from tapgnn.online.journal.postgres import PostgresJournal

        return PostgresJournal(str(place))
    from tapgnn.online.journal.sqlite import SqliteJournal

    return SqliteJournal(place)


def open_existing(place: str | Path | Journal, wanted: str = "an existing journal") -> Journal:
    """The journal at a place; where there is none, an error says what is wanted instead."""
    if not isinstance(place, Journal):
        check_place(place)
        if not is_postgres(place) and not Path(place).is_file():
            raise JournalError(f"there is no journal at {place}; name {wanted}")
    return open_journal(place)


def is_postgres(place: str | Path) -> bool:
    """Whether this is the address of a PostgreSQL."""
    return str(place).startswith(("postgresql://", "postgres://"))


def check_place(place: str | Path) -> None:
    """Refuse a place where no journal can be, before anything is opened or created."""
    if is_postgres(place):
        from tapgnn.online.journal.postgres import parse_address

        parse_address(str(place))
        return
    if "://" in str(place) or "password=" in str(place):
        raise JournalError(
            "a journal is a file or an address that begins with postgresql://; what was given is neither (it is not "
            "shown here, because it may hold a password)"
        )
    path = Path(place)
    if not path.parent.is_dir():
        reason = f"there is no folder {path.parent}; create it, or name another place"
    elif path.is_dir():
        reason = "it is a folder; name a file in it"
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        reason = f"{path.parent} is not writable; name a place where this user may write"
    elif path.exists() and not os.access(path, os.R_OK | os.W_OK):
        reason = "this user may not read and write it; change its owner, or name another place"
    else:
        return
    raise JournalError(f"{path} cannot be a journal: {reason}")
