"""Backups: a copy of a journal, made while its engine runs. The copy is a journal: to restore it is to open it.

A copy holds every record up to the newest one at the end of copying, with the checkpoint that belongs to it. It is read
back whole before it gets its name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tapgnn.errors import ConfigError, JournalError
from tapgnn.online.journal.journal import Journal
from tapgnn.online.journal.journal_place import check_place, open_existing, open_journal


def back_up(journal: Journal, path: str | Path) -> dict[str, Any]:
    """Copy an open journal to a file that does not exist; gives where it ends, and its bytes."""
    return checked_copy(path, journal.copy_to)


def back_up_closed(place: str | Path, path: str | Path) -> dict[str, Any]:
    """Copy a journal that no engine has open."""
    with closing(open_existing(place, "an existing journal, or the address of a server")) as journal:
        return back_up(journal, path)


def checked_copy(path: str | Path, write: Callable[[Path], None]) -> dict[str, Any]:
    """Let `write` make a copy at a place beside a path, read it back, and give it its name."""
    target = Path(path)
    check_place(target)
    for name in (target, Path(f"{target}-wal"), Path(f"{target}-head")):
        if name.exists():
            raise ConfigError(f"{name} exists; remove it, or name another file for the copy")
    part = Path(f"{target}.part")
    _remove(part)
    try:
        write(part)
        with closing(open_journal(part)) as copy:
            copy.verify()
            found = {"copy": str(target), "position": copy.head, "bytes": part.stat().st_size}
        with part.open("rb") as stream:
            os.fsync(stream.fileno())
        part.rename(target)
        _sync_folder(target.parent)
        return found
    except OSError as error:
        raise JournalError(f"{target} cannot be written ({error.strerror}); make room, or name another place") from None
    finally:
        _remove(part)


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-journal", "-shm", "-head"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder durable, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
