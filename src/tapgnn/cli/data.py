"""inspect, simulate and datasets: what is in a log, and where to get one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tapgnn.cli.config import ConfigFile
from tapgnn.cli.log import NOTE, read_log
from tapgnn.cli.options import EventsArgument, Json, Reading, grouped
from tapgnn.cli.output import print_json, say, show, write_json

# The words of the data table, in its order; {} is the value.
WORDS = {
    "events": "events",
    "nodes": "nodes",
    "bipartite": "bipartite (no node is both source and destination)",
    "temporal_nodes": "temporal nodes: a node at an instant in which it is active",
    "message_links": "message links of the temporal graph, which is never built",
    "ratio": "message links per event",
    "repetition": "share of events that repeat the source's previous destination",
    "density": "density, 2E / N(N-1)",
    "degree_max": "events of the busiest node",
    "degree_mean": "events per node",
    "timespan_days": "days from first to last event, if time is in seconds",
    "start": "time of the first event",
    "end": "time of the last event",
    "instants": "distinct times",
    "ties": "events that share their time with another",
    "duplicates": "exact duplicates",
    "self_loops": "events of a node with itself",
    "sorted": "the file was sorted by time",
    "feature_width": "features of an event",
    "labels": "events with a label above 0",
}


@grouped
def inspect(events: EventsArgument, reading: Reading, json: Json = False, config: ConfigFile = None) -> None:
    """Say what is in a log: the paper's table of data sets, for any file."""
    from rich.table import Table

    from tapgnn.data import describe

    log = read_log(events, reading)
    facts = describe(log.events, was_sorted=log.report.sorted)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for key, words in WORDS.items():
        if facts.get(key) is not None:
            table.add_row(_shown(facts[key]), words)
    show(log.title, table, json)
    if log.report.ignored:
        say(f"columns not used: {', '.join(log.report.ignored)}")
    if json:
        print_json({"name": log.name, "simulated": log.simulated, **facts})


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.1f}"


@grouped
def simulate(
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="The file to write: .csv, .tsv, .jsonl (each also .gz) or .parquet."),
    ],
    events: Annotated[int, typer.Option(metavar="N", help="Payments in all.")] = 100_000,
    accounts: Annotated[int, typer.Option(metavar="N", help="Accounts that pay.")] = 20_000,
    merchants: Annotated[int, typer.Option(metavar="N", help="Merchants that are paid.")] = 2_000,
    days: Annotated[float, typer.Option(metavar="D", help="Days from the first payment to the last.")] = 90.0,
    fraud: Annotated[float, typer.Option(metavar="SHARE", help="Share of payments that are fraud, label 1.")] = 0.007,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same file.")] = 0,
    json: Json = False,
    config: ConfigFile = None,
) -> None:
    """Write a log of a SIMULATED payment network: nothing in it is real.

    Accounts pay merchants and one another, with the rhythm of days and weeks; habits change, and a few rings of fraud
    are at work. The file has columns src, dst, time, label and f0 to f6, and is written piece by piece, so that it may
    be larger than memory.
    """
    from rich.console import Console
    from rich.progress import track

    from tapgnn.data import checksum
    from tapgnn.data.simulator import FEATURES, simulate_stream
    from tapgnn.data.writers import write_stream

    arguments = {"events": events, "accounts": accounts, "merchants": merchants, "days": days}
    stream = simulate_stream(**arguments, seed=seed, fraud=fraud)  # type: ignore[arg-type]
    pieces = write_stream(stream, out)
    out.parent.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    steps = track(pieces, "simulating", events // 100_000 + 1, console=console, disable=not console.is_terminal)
    labels = sum(0 if piece.labels is None else int(piece.labels.sum()) for piece in steps)
    about = {
        "simulated": True,
        **arguments,
        "seed": seed,
        "fraud": fraud,
        "fraudulent_events": labels,
        "columns": {f"f{place}": name for place, name in enumerate(FEATURES)},
        "sha256": checksum(out),
    }
    write_json(Path(f"{out}{NOTE}"), about)
    say(f"{out}: {events:,} simulated payments over {days:g} days, {labels:,} of them fraud (label 1)")
    say(f"{out}{NOTE}: how it was made, and the mark by which tapgnn knows that it is simulated")
    if json:
        print_json({"name": out.name, "path": str(out), **about})


def list_datasets(json: Json = False) -> None:
    """List the public data sets that have a name, and where they are on this machine."""
    from rich.table import Table

    from tapgnn.data import DATASETS, find_dataset

    table = Table(box=None, pad_edge=False)
    for heading, side in (("name", "left"), ("events", "right"), ("nodes", "right"), ("here", "left")):
        table.add_column(heading, justify=side, overflow="fold")  # type: ignore[arg-type]
    entries = []
    for name, entry in DATASETS.items():
        path = find_dataset(name)
        table.add_row(name, f"{entry.events:,}", f"{entry.nodes:,}", "no" if path is None else str(path))
        entries.append({"name": name, "events": entry.events, "nodes": entry.nodes, "url": entry.url, "path": path})
    show("Public data sets of the paper", table, json)
    say("Set TAPGNN_DATA to a folder that holds some of them, or run 'tapgnn datasets download NAME'.")
    if json:
        print_json({"datasets": entries})


def download_dataset(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from 'tapgnn datasets list'.")],
    folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where to keep it.", show_default="where tapgnn looks for it"),
    ] = None,
    url: Annotated[str | None, typer.Option(metavar="URL", help="Another address than the registered one.")] = None,
    sha256: Annotated[str | None, typer.Option(metavar="HEX", help="The checksum that the file must have.")] = None,
    unverified: Annotated[
        bool, typer.Option("--unverified", metavar="", help="Accept a file for which no checksum is known.")
    ] = False,
    json: Json = False,
) -> None:
    """Download a data set, verify it, and say where it is; a broken download goes on where it stopped."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    from tapgnn.data import cache_folder, checksum, download

    console = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=None)
        path = download(
            name,
            folder or cache_folder(),
            url=url,
            sha256=sha256,
            unverified=unverified,
            progress=lambda have, total: bar.update(task, completed=have, total=total),
        )
    say(f"{name} is at {path}" + ("" if folder is None else f"; set TAPGNN_DATA={folder} to use it by its name"))
    if json:
        print_json({"name": name, "path": str(path), "sha256": checksum(path)})
