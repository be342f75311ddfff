"""inspect, simulate and datasets: the statistics of a log, and where to get one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapgnn.cli.events_argument import NOTE, describe_log
from tapgnn.cli.options import EventsArgument, Reading, command, option
from tapgnn.cli.output import Output, say, write_json
from tapgnn.file_integrity import file_sha256

if TYPE_CHECKING:
    from tapgnn.events import Events

# The rows of the statistics table, in order.
WORDS = {
    "events": "events",
    "nodes": "nodes",
    "bipartite": "bipartite (no node is both source and destination)",
    "temporal_nodes": "temporal nodes (a node at an instant in which it is active)",
    "message_links": "message links of the temporal graph (never materialised)",
    "ratio": "message links per event",
    "repetition": "share of events with the same destination as the source's previous event",
    "density": "density, 2E / N(N-1)",
    "degree_max": "events of the busiest node",
    "degree_mean": "events per node",
    "timespan_days": "days from the first to the last event, if time is in seconds",
    "start": "time of the first event",
    "end": "time of the last event",
    "instants": "distinct times",
    "ties": "events at the same time as another event",
    "duplicates": "exact duplicates",
    "self_loops": "self-loops",
    "sorted": "the file is sorted by time",
    "feature_width": "features per event",
    "labels": "events with a label above 0",
}


@command
def inspect(events: EventsArgument, reading: Reading, output: Output) -> None:
    """Show the statistics of a log, as in the paper's table of data sets.

    A file sorted by time is read in pieces and may be larger than memory; any other file is loaded as a whole.
    """
    from rich.table import Table

    log, statistics = describe_log(events, reading)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for key, words in WORDS.items():
        if statistics.get(key) is not None:
            table.add_row(_shown(statistics[key]), words)
    output.show(log.title, table)
    if log.report.roles:
        say(f"columns used: {_columns(log.report.roles)}")
    if log.report.ignored:
        say(f"columns not used: {', '.join(log.report.ignored)}")
    output.result({"name": log.name, "simulated": log.simulated, **statistics, "columns": log.report.roles})


def _columns(roles: dict[str, Any]) -> str:
    """The column of each role; without a header, its number.

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


@command
def simulate(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The file to write: .csv, .tsv, .jsonl (each also .gz) or .parquet.")
    ],
    output: Output,
    events: int = option("N", "Number of payments.", default=100_000),
    accounts: int = option("N", "Number of accounts.", default=20_000),
    merchants: int = option("N", "Number of merchants.", default=2_000),
    days: float = option("D", "Days from the first to the last payment.", default=90.0),
    fraud: float = option("SHARE", "Share of fraudulent payments (label 1).", default=0.007),
    seed: int = option("N", "The same seed gives the same file.", default=0),
    first: int | None = option("N", "Write only the first N payments, and the rest of their last instant.", min=1),
) -> None:
    """Write a log of a SIMULATED payment network: nothing in it is real.

    Accounts pay merchants and each other in daily and weekly cycles; habits change, and a few fraud rings are active.
    The file has the columns src, dst, time, label and f0 to f6, and is written in pieces, so that it may be larger than
    memory.

    --first writes the beginning of the same stream, such as what is known today.
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
    say(f"{out}: {share} simulated payments over {days:g} days, {labels:,} of them fraudulent (label 1)")
    say(f"{out}{NOTE}: how it was simulated; tapgnn uses this file to label results as simulated")
    output.result({"name": out.name, "path": str(out), **about})


def _beginning(stream: Iterator[Events], count: int) -> Iterator[Events]:
    """The first `count` events, and the rest of their last instant."""
    for piece in stream:
        if count <= len(piece):
            yield piece.slice(0, int(piece.time.searchsorted(piece.time[count - 1], side="right")))
            return
        yield piece
        count -= len(piece)


@command
def list_datasets(output: Output) -> None:
    """List the public data sets, and where they are on this machine."""
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
        about = {"events": entry.events, "nodes": entry.nodes, "url": entry.url, "download_sha256": entry.sha256}
        entries.append({"name": name, **about, "command": entry.command, "path": path})
    output.show("Public data sets of the paper", table)
    say("Set TAPGNN_DATA to a folder that contains data sets, or run 'tapgnn datasets download NAME'.")
    say(
        "If no checksum is known for a download, add --unverified (or --sha256 with one that you trust); the number of "
        "events is always checked."
    )
    if remark := missing_folder():
        say(f"{remark}.")
    output.result({"datasets": entries})


@command
def download_dataset(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from 'tapgnn datasets list'.")],
    output: Output,
    folder: Path | None = option("FOLDER", "Where to store it.", "the cache folder of tapgnn"),
    url: str | None = option("URL", "Download from this address instead."),
    sha256: str | None = option("HEX", "The expected checksum of the file."),
    unverified: bool = option("", "Accept a file for which no checksum is known.", True, "--unverified", default=False),
) -> None:
    """Download a data set and verify it; an interrupted download continues where it stopped."""
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
    say(f"{name} is at {path}" + ("" if folder is None else f"; set TAPGNN_DATA={folder} to use it by name"))
    output.result({"name": name, "path": str(path), "sha256": file_sha256(path)})
