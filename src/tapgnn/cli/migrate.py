"""migrate: replay the journal of an engine into another model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tapgnn.cli.options import Json, set_threads
from tapgnn.cli.output import print_json, say


def migrate(
    journal: Annotated[
        str,
        typer.Argument(
            metavar="JOURNAL", help="The file of the journal, or its postgresql:// address.", show_default=False
        ),
    ],
    model: Annotated[
        Path,
        typer.Option(metavar="MODEL", help="The folder of the model that takes over.", show_default=False),
    ],
    start: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="saved: from the state saved with the model. after: the same, and leave out the journal's events up "
            "to its clock, because the model was trained on them. empty: from nothing.",
        ),
    ] = "saved",
    threads: Annotated[int, typer.Option(metavar="N", help="Threads of torch.")] = 1,
    json: Json = False,
) -> None:
    """Replay the journal of an engine into another model, and switch.

    The engine must be stopped. The whole journal is read, checked and folded into the new model's state; then one
    transaction makes the new state the journal's own. Until then nothing changes, so it can be stopped at any time.
    With the model that the journal already has, it rebuilds the state from the records.
    """
    from tapgnn.online import migrate as replay

    set_threads(threads)
    done = replay(journal, model, start)
    left = f", {done['left_out']:,} left out as known to the model" if done["left_out"] else ""
    say(
        f"{journal}: {done['records']:,} records with {done['events']:,} events{left}, {done['nodes']:,} nodes; model "
        f"{done['from'][:12]} -> {done['to'][:12]}"
    )
    if json:
        print_json(done)
