"""inspect, simulate and datasets: the statistics of a log, and where to get one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapgnn.cli.events_argument import NOTE, describe_log
from tapgnn.cli.options import EventsArgument, ReadingOptions, command, option
from tapgnn.cli.output import Output, check_folder, say, write_json
from tapgnn.errors import ConfigError
from tapgnn.file_integrity import file_sha256

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from tapgnn.data import Schema
    from tapgnn.data.reading.column_preview import ColumnPreview
    from tapgnn.events import Events

MOST_COLUMNS = 40

PAYMENT_COLUMNS = "payment_id", "payer", "payee", "amount", "currency", "channel", "country", "timestamp", "is_fraud"


@command
def inspect(events: EventsArgument, reading: ReadingOptions, output: Output) -> None:
    """Show how the columns of a log are read, and its statistics.

    Every column has a role (src, dst, time, label, id), is a number, a category or a boolean, or is not used; the
    options below change that, here and in 'evaluate', 'fit' and 'compare'. Shares of missing cells and examples are
    from the first rows.

    A file sorted by time is read in pieces and may be larger than memory; any other file is loaded as a whole.
    """
    from rich.table import Table

    from tapgnn.data.schema import TIME_UNITS
    from tapgnn.data.statistics import HEADINGS

    log, statistics = describe_log(events, reading)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for key, words in HEADINGS.items():
        if statistics.get(key) is not None and key != "timespan":
            unit = f", if time is in {TIME_UNITS[log.schema.time_unit]}" if key == "timespan_days" else ""
            table.add_row(_shown(statistics[key]), words + unit)
    output.show(log.title, table)
    columns = described_columns(log.schema, log.report.previews)
    if columns:
        output.show("Columns", _columns_table(columns))
    for line in log.report.suggestions:
        say(f"note: {line}")
    found = {"schema": log.schema.to_dict(), "columns": columns, "suggestions": log.report.suggestions}
    output.result({"name": log.name, "simulated": log.simulated, **statistics, **found})


def described_columns(schema: Schema, previews: Mapping[str, ColumnPreview]) -> list[dict[str, Any]]:
    """Every column of a table: its name, its role or kind, the share of missing cells, and examples."""
    roles = {getattr(schema, role): role for role in ("src", "dst", "time", "label", "id")}
    words: dict[str | None, str] = roles | dict(schema.columns) | dict.fromkeys(schema.dropped, "not used")
    return [
        {"column": name, "use": words[name], "missing": found.missing, "examples": list(found.examples)}
        for name, found in previews.items()
        if name in words
    ]


def _columns_table(columns: list[dict[str, Any]]) -> Table:
    """The columns for people; in a very wide table, the first ones."""
    from rich.markup import escape
    from rich.table import Table

    more = f"and {len(columns) - MOST_COLUMNS} more" if len(columns) > MOST_COLUMNS else None
    table = Table(box=None, pad_edge=False, caption=more, caption_justify="left")
    for heading, side in {"column": "left", "use": "left", "missing": "right", "examples": "left"}.items():
        table.add_column(heading, justify=side, overflow="fold")  # type: ignore[arg-type]
    for row in columns[:MOST_COLUMNS]:
        missing = f"{row['missing']:.1%}" if row["missing"] else "-"
        table.add_row(escape(row["column"]), row["use"], missing, escape(", ".join(row["examples"])))
    return table


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.1f}"


@command
def simulate(
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="The file to write: .csv, .tsv, .jsonl (each also .gz), .parquet or .arrow."
        ),
    ],
    output: Output,
    events: int = option("N", "Number of payments.", default=100_000),
    accounts: int = option("N", "Number of accounts.", default=20_000),
    merchants: int = option("N", "Number of merchants.", default=2_000),
    days: float = option("D", "Days from the first to the last payment.", default=90.0),
    fraud: float = option("SHARE", "Share of fraudulent payments (is_fraud 1).", default=0.007),
    seed: int = option("N", "The same seed gives the same file.", default=0),
    first: int | None = option("N", "Write only the first N payments, and others at the time of the last one.", min=1),
    skip: int = option("N", "Write only the payments that --first N leaves out.", default=0, min=0),
    merchants_out: Path | None = option("FILE", "Also write a table of the merchants: id, category, country."),
) -> None:
    """Write a log of a SIMULATED payment network: nothing in it is real.

    Accounts pay merchants and each other in daily and weekly cycles; habits change, and a few fraud rings are active.
    The file is a payment table: payment_id, payer, payee, amount, currency, channel, country, timestamp, is_fraud; some
    amounts and countries are missing. It is written in pieces, so that it may be larger than memory.

    --first writes only the beginning of the stream, such as the events known so far; --skip writes what comes after it.
    """
    from rich.console import Console
    from rich.progress import track

    from tapgnn.data.simulation.payment_network import simulated_network
    from tapgnn.data.simulation.payment_stream import merchant_table, simulate_stream
    from tapgnn.data.writing import ending_of, write_stream, write_table

    arguments = {"events": events, "accounts": accounts, "merchants": merchants, "days": days}
    if first is not None and first <= skip:
        raise ConfigError(f"--first {first} leaves nothing after --skip {skip}; both count from the first payment")
    stream = simulate_stream(**arguments, seed=seed, fraud=fraud)  # type: ignore[arg-type]
    if merchants_out is not None:
        check_folder(merchants_out.parent, "--merchants-out")
        ending_of(merchants_out)
    pieces = write_stream(_payments(_part(stream, skip, first)), out)
    out.parent.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    steps = track(pieces, "simulating", events // 100_000 + 1, console=console, disable=not console.is_terminal)
    written = labels = 0
    for piece in steps:
        written += len(piece)
        labels += int(piece["is_fraud"].sum())
    about = {
        "simulated": True,
        **arguments,
        "written_events": written,
        "seed": seed,
        "fraud": fraud,
        "fraudulent_events": labels,
        "columns": list(PAYMENT_COLUMNS),
        "sha256": file_sha256(out),
    }
    write_json(Path(f"{out}{NOTE}"), about)
    share = f"{events:,}" if written == events else f"{written:,} of {events:,}"
    share = f"the first {share}" if written < events and not skip else share
    say(f"{out}: {share} simulated payments over {days:g} days, {labels:,} of them fraudulent (is_fraud 1)")
    say(f"{out}{NOTE}: how it was simulated; tapgnn uses this file to label results as simulated")
    if merchants_out is not None:
        merchants_out.parent.mkdir(parents=True, exist_ok=True)
        write_table(merchant_table(simulated_network(accounts, merchants, days, seed)), merchants_out)
        say(f"{merchants_out}: {merchants:,} simulated merchants")
    output.result({"name": out.name, "path": str(out), **about})


def _part(stream: Iterator[Events], skip: int, stop: int | None) -> Iterator[tuple[int, Events]]:
    """The events after the first `skip` and up to `stop`, each piece with its place; instants are not cut."""
    start = 0
    for piece in stream:
        low, high = (_border(piece, count - start) for count in (skip, len(piece) + start if stop is None else stop))
        if low < high:
            yield start + low, piece.slice(low, high)
        start += len(piece)
        if stop is not None and stop <= start:
            return


def _border(piece: Events, count: int) -> int:
    """Where the instant of the first `count` events ends."""
    if count <= 0 or count >= len(piece):
        return max(0, min(count, len(piece)))
    return int(piece.time.searchsorted(piece.time[count - 1], side="right"))


def _payments(pieces: Iterator[tuple[int, Events]]) -> Iterator[pl.DataFrame]:
    """Pieces of the stream as tables of payments."""
    import numpy as np
    import polars as pl

    for first, piece in pieces:
        ids = np.array(piece.vocabulary.ids, dtype=object)
        when = np.datetime_as_string(piece.time.astype("datetime64[s]"))
        cells = {
            "payment_id": [f"p{first + place:08d}" for place in range(len(piece))],
            "payer": ids[piece.src].tolist(),
            "payee": ids[piece.dst].tolist(),
            **{name: pl.Series(column.tolist(), nan_to_null=True) for name, column in piece.columns.items()},
            "timestamp": [f"{text}Z" for text in when],
            "is_fraud": piece.labels,
        }
        yield pl.DataFrame(cells).select(PAYMENT_COLUMNS)


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
