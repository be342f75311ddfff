"""token new, list and revoke: the access tokens of a server, kept as hashes in a file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tapgnn.cli.options import argument, command, option
from tapgnn.cli.output import Output, say

FileOption = Annotated[Path, typer.Option(metavar="FILE", help="The token file.", show_default=False)]


@command
def new_token(
    file: Annotated[
        Path, typer.Option(metavar="FILE", help="The token file, created if it does not exist.", show_default=False)
    ],
    scope: str = option("NAME", "read (queries only) or write (queries and events).", default="read"),
    name: str = option("NAME", "A name for the token.", "the scope and a number", default=""),
    expires: str | None = option("TIME", "For how long it is valid: 12h, 90d, 8w or 1y.", "without an end"),
) -> None:
    """Create an access token and add its hash to a token file; the token itself is printed only once.

    A server that runs reads the file again within a second of a request, or at once on SIGHUP.
    """
    from tapgnn.online.server.tokens import Tokens, parse_lifetime

    tokens = Tokens.load(file) if file.exists() else Tokens()
    text = tokens.add(scope, name, None if expires is None else parse_lifetime(expires))  # type: ignore[arg-type]
    tokens.save(file)
    made = tokens.entries[-1]
    end = "" if made.expires is None else f", valid until {made.expires}"
    say(f"{made.name}: scope {scope}{end}, stored as a hash in {file}; the token is shown only once:")
    typer.echo(text)


@command
def list_tokens(file: FileOption, output: Output) -> None:
    """List the tokens in a token file: name, scope, when each was created and when it expires."""
    from rich.table import Table

    from tapgnn.online.server.tokens import Tokens

    entries = Tokens.load(file).entries
    table = Table("name", "scope", "created", "expires")
    for entry in entries:
        end = "never" if entry.expires is None else f"{entry.expires}{' (expired)' * entry.has_expired()}"
        table.add_row(entry.name, entry.scope, entry.created, end)
    output.show(f"{file}: {len(entries)} token{'s' * (len(entries) != 1)}", table)
    output.result({"tokens": [{**asdict(entry), "expired": entry.has_expired()} for entry in entries]})


@command
def revoke_token(
    name: Annotated[str, argument("NAME", "The name of the token.")],
    file: FileOption,
) -> None:
    """Remove a token from a token file; a server that runs refuses it within a second, or at once after SIGHUP."""
    from tapgnn.online.server.tokens import Tokens

    tokens = Tokens.load(file)
    tokens.revoke(name)
    tokens.save(file)
    say(f"{name}: revoked")
