"""inspect, simulate and datasets: what is in a log, and where to get one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapgnn.cli.config_file import ConfigFile
from tapgnn.cli.events_argument import NOTE, describe_log
from tapgnn.cli.options import EventsArgument, Json, Reading, grouped
from tapgnn.cli.output import print_json, say, show, write_json
from tapgnn.file_integrity import file_sha256

if TYPE_CHECKING:
    from tapgnn.events import Events

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
    """Say what is in a log: the paper's table of data sets, for any file.

    A file that is sorted by time is read piece by piece, and may be larger than memory; any other is held.
    """
    from rich.table import Table

    log, facts = describe_log(events, reading)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for key, words in WORDS.items():
        if facts.get(key) is not None:
            table.add_row(_shown(facts[key]), words)
    show(log.title, table, json)
    if log.report.roles:
        say(f"columns used: {_columns(log.report.roles)}")
    if log.report.ignored:
        say(f"columns not used: {', '.join(log.report.ignored)}")
    if json:
        print_json({"name": log.name, "simulated": log.simulated, **facts, "columns": log.report.roles})


def _columns(roles: dict[str, Any]) -> str:
    """Which column was taken for what; without a header they go by their numbers.

    >>> _columns({"src": "1", "dst": "2", "time": "3", "label": None, "features": ["f0", "f1"]})
    'src is 1, dst is 2, time is 3, label is none, features are f0, f1'
    """
    single = [f"{role} is {name or 'none'}" for role, name in roles.items() if role != "features"]
    features = roles["features"]
    shown = features if len(features) <= 8 else [*features[:3], "...", features[-1]]
    return ", ".join([*single, f"features are {', '.join(shown) or 'none'}"])


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
    first: Annotated[
        int | None,
        typer.Option(metavar="N", help="Write only the first N of them, and the rest of that instant.", min=1),
    ] = None,
    json: Json = False,
    config: ConfigFile = None,
) -> None:
    """Write a log of a SIMULATED payment network: nothing in it is real.

    Accounts pay merchants and one another, with the rhythm of days and weeks; habits change, and a few rings of fraud
    are at work. The file has columns src, dst, time, label and f0 to f6, and is written piece by piece, so that it may
    be larger than memory.

    --first writes the beginning of the same stream: what is known today, where the whole file is what will have
    happened.
    """
    from rich.console import Console
    from rich.progress import track

    from tapgnn.data.simulation.payment_stream import FEATURES, simulate_stream
    from tapgnn.data.writing import write_stream

    arguments = {"events": events, "accounts": accounts, "merchants": merchants, "days": days}
    stream = simulate_stream(**arguments, seed=seed, fraud=fraud)  # type: ignore[arg-type]
    pieces = write_stream(stream if first is None else _beginning(stream, first), out)
    out.parent.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    steps = track(pieces, "simulating", events // 100_000 + 1, console=console, disable=not console.is_terminal)
    written = labels = 0
    for piece in steps:
        written += len(piece)
        labels += 0 if piece.labels is None else int(piece.labels.sum())
    about = {
        "simulated": True,
        **arguments,
        "written_events": written,
        "seed": seed,
        "fraud": fraud,
        "fraudulent_events": labels,
        "columns": {f"f{place}": name for place, name in enumerate(FEATURES)},
        "sha256": file_sha256(out),
    }
    write_json(Path(f"{out}{NOTE}"), about)
    share = f"the first {written:,} of {events:,}" if written < events else f"{events:,}"
    say(f"{out}: {share} simulated payments over {days:g} days, {labels:,} of them fraud (label 1)")
    say(f"{out}{NOTE}: how it was made, and the mark by which tapgnn knows that it is simulated")
    if json:
        print_json({"name": out.name, "path": str(out), **about})


def _beginning(stream: Iterator[Events], count: int) -> Iterator[Events]:
    """The first so many events, and the rest of the instant in which they end."""
    for piece in stream:
        if count <= len(piece):
            yield piece.slice(0, int(piece.time.searchsorted(piece.time[count - 1], side="right")))
            return
        yield piece
        count -= len(piece)


def list_datasets(json: Json = False) -> None:
    """List the public data sets that have a name, and where they are on this machine."""
    from rich.table import Table

    from tapgnn.data import DATASETS, find_dataset, missing_folder

    table = Table(box=None, pad_edge=False)
    sides = {"name": "left", "events": "right", "nodes": "right", "download": "left", "here": "left"}
    for heading, side in sides.items():
        table.add_column(heading, justify=side, overflow="fold", no_wrap=heading == "name")  # type: ignore[arg-type]
    entries = []
    for name, entry in DATASETS.items():
        path = find_dataset(name)
        fetched = "verified" if entry.sha256 else "--unverified"
        table.add_row(name, f"{entry.events:,}", f"{entry.nodes:,}", fetched, "no" if path is None else str(path))
        facts = {"events": entry.events, "nodes": entry.nodes, "url": entry.url, "download_sha256": entry.sha256}
        entries.append({"name": name, **facts, "command": entry.command, "path": path})
    show("Public data sets of the paper", table, json)
    say("Set TAPGNN_DATA to a folder that holds some of them, or run 'tapgnn datasets download NAME'.")
    say(
        "Where no checksum is known of what the site serves, add --unverified (or --sha256 with one that you trust); "
        "the number of events is checked in any case."
    )
    if remark := missing_folder():
        say(f"{remark}.")
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

    from tapgnn.data import cache_folder
    from tapgnn.data.datasets.download import download

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
        print_json({"name": name, "path": str(path), "sha256": file_sha256(path)})
