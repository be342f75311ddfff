"""backup: a copy of a journal, also while a server runs on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tapgnn.cli.options import argument, command, option
from tapgnn.cli.output import Output, say

_Source = Annotated[
    str,
    argument("JOURNAL|URL", "A journal, or the address of the server."),
]


@command
def backup(
    source: _Source,
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="The file to write; it must not exist.")],
    output: Output,
    token: str | None = option("TEXT", "Access token of the server, with scope write.", envvar="TAPGNN_TOKEN"),
) -> None:
    """Copy a journal while its server goes on taking in events.

    Give the address of the server that runs on the journal (http://...); if none does, give the journal itself. The
    copy is complete up to one record, is read back whole, and is itself a journal: to restore it, pass it to 'tapgnn
    serve --journal', or put it in the place of the journal. A journal in PostgreSQL is copied by pg_dump.
    """
    from tapgnn.online import Client
    from tapgnn.online.journal.backup import back_up_closed, checked_copy

    if source.startswith(("http://", "https://")):
        with Client(source, token) as client:
            done = checked_copy(copy, client.download_backup)
    else:
        done = back_up_closed(source, copy)
    say(f"{done['copy']}: {done['position']:,} records, {done['bytes'] / 1e6:,.1f} MB")
    output.result(done)
