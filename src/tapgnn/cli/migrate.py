"""migrate: move the journal of an engine to another model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tapgnn.cli.options import Json
from tapgnn.cli.output import print_json, say
from tapgnn.threads import set_threads


def migrate(
    journal: Annotated[
        str,
        typer.Argument(metavar="JOURNAL", help="The journal: a file, or a postgresql:// address.", show_default=False),
    ],
    model: Annotated[
        Path,
        typer.Option(metavar="MODEL", help="The folder of the new model.", show_default=False),
    ],
    start: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="saved: start from the state saved with the model. after: the same, but skip the journal's events up "
            "to the clock of that state, because the model was trained on them. empty: start from an empty state.",
        ),
    ] = "saved",
    threads: Annotated[int, typer.Option(metavar="N", help="Number of threads.")] = 1,
    json: Json = False,
) -> None:
    """Replay the journal of an engine with another model, and switch to it.

    The engine must be stopped. The whole journal is read, verified and replayed with the new model; then one
    transaction stores the new state in the journal. Until then nothing changes, so the command can be interrupted at
    any time. With the model that the journal already has, it rebuilds the state from the records.
    """
    from tapgnn.online import migrate as replay

    set_threads(threads)
    done = replay(journal, model, start)
    left = f", {done['left_out']:,} events skipped because the model was trained on them" if done["left_out"] else ""
    say(
        f"{journal}: {done['records']:,} records with {done['events']:,} events{left}, {done['nodes']:,} nodes; model "
        f"{done['from'][:12]} -> {done['to'][:12]}"
    )
    if json:
        print_json(done)
