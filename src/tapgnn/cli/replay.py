"""replay: stream a log through a live engine, with a dashboard."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapgnn.cli.events_argument import read_whole
from tapgnn.cli.options import EventsArgument, ReadingOptions, command, option
from tapgnn.cli.output import Output, say
from tapgnn.cli.serve import EngineOptions
from tapgnn.errors import ConfigError

if TYPE_CHECKING:
    from rich.panel import Panel

    from tapgnn.online.replay import ReplayProgress, Tally, Target

BLOCKS = " ▁▂▃▄▅▆▇█"


@command
def replay(
    events: EventsArgument,
    reading: ReadingOptions,
    engine_options: EngineOptions,
    output: Output,
    model: str | None = option("MODEL", "The folder of a fitted model, served in this process."),
    journal: str | None = option("PATH", "Where to keep the journal.", "a temporary file"),
    server: str | None = option("URL", "Send the events to this server instead."),
    token: str | None = option("TEXT", "Access token of the server, with scope write.", envvar="TAPGNN_TOKEN"),
    speed: str = option("HOW", "full, real (one unit of time per second), or a multiple of real.", default="full"),
    batch: int = option("N", "Events per batch.", default=200),
    seed: int = option("N", "Seed of the negatives.", default=0),
) -> None:
    """Stream a log through a live engine and report its accuracy over time and its speed.

    Events that the model has already observed are skipped. Every other event is scored against one negative and then
    ingested. Pass --model to run the engine in this process, or --server to use a running one.
    """
    from tapgnn.online.replay import Tally
    from tapgnn.online.replay import replay as stream

    pace = _pace(speed)
    if (model is None) == (server is None):
        raise ConfigError("pass either --model with a folder, or --server with an address")
    if server is not None and (journal is not None or engine_options.options()):
        raise ConfigError("--journal and the engine options require --model; a server has its own")
    log = read_whole(events, reading.options() if model is None else _as_fitted(model, reading))
    tally, screen = Tally(), Dashboard(log.title)
    with _target(model, journal, server, token, engine_options) as target, screen.live or contextlib.nullcontext():
        progress = None
        for progress in stream(log.events, target, tally, batch, pace, seed):
            screen.show(progress, tally)
    if progress is not None:
        _report(log.title, progress, tally, output)


def _as_fitted(model: str, reading: ReadingOptions) -> dict[str, Any]:
    """How the log is read: by the schema of the model, so that its columns are the model's."""
    from tapgnn.data.fitted_schema import FittedSchema
    from tapgnn.model.files import SCHEMA, read_file, refusing

    with refusing(Path(model) / SCHEMA):
        schema = FittedSchema.from_json(read_file(model, SCHEMA)).schema
    options = {"format": reading.format, "header": reading.header, "skip_bad_rows": reading.skip_bad_rows}
    return {"schema": schema, **options}


def _pace(speed: str) -> float | None:
    if speed == "full":
        return None
    try:
        return 1.0 if speed == "real" else float(speed)
    except ValueError:
        raise ConfigError(f"--speed must be full, real or a number, not {speed!r}") from None


@contextlib.contextmanager
def _target(
    model: str | None, journal: str | None, server: str | None, token: str | None, engine_options: EngineOptions
) -> Iterator[Target]:
    """The engine or server that receives the events."""
    import secrets

    from tapgnn.online.replay import EngineTarget, ServerTarget

    if server is not None:
        from tapgnn.online import Client

        with Client(server, token, producer=f"replay-{secrets.token_hex(4)}") as client:
            if not client.is_ready():
                say(f"waiting until {server} is ready")
                client.wait_until_ready()
            yield ServerTarget(client)
        return
    from tapgnn.online import Engine

    with tempfile.TemporaryDirectory() as folder:
        place = journal or str(Path(folder) / "journal.db")
        with Engine.open(str(model), place, **engine_options.options()) as engine:
            yield EngineTarget(engine)


class Dashboard:
    """The progress of a replay: a panel on a terminal, elsewhere one line per 10 %."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self.title = title
        self.console = Console(stderr=True)
        self.live = Live(console=self.console, refresh_per_second=8) if self.console.is_terminal else None
        self.tenths = 0
        self.areas: list[float] = []

    def show(self, progress: ReplayProgress, tally: Tally) -> None:
        """Say where the replay stands."""
        tenth = 10 * progress.done // progress.total
        if self.live is not None:
            self.live.update(self._panel(progress, tally))
        elif tenth > self.tenths:
            self.tenths = tenth
            say(self._line(progress, tally))

    def _line(self, progress: ReplayProgress, tally: Tally) -> str:
        area, took = tally.recent_auc(), tally.percentiles().get("observe", {})
        said = f"{progress.done:,} of {progress.total:,} events  {progress.done / progress.seconds:,.0f} events/s"
        said += "" if area is None else f"  AUC {area:.4f}"
        return f"{said}  {_percentiles(took)}" if took else said

    def _panel(self, progress: ReplayProgress, tally: Tally) -> Panel:
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        area = tally.recent_auc()
        if area is not None and len(self.areas) < 60 * progress.done // progress.total:
            self.areas.append(area)
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim")
        grid.add_row(
            "speed", f"[bold]{progress.done / progress.seconds:,.0f}[/bold] events/s, now at {_moment(progress.time)}"
        )
        if area is not None:
            grid.add_row(
                "AUC", f"[bold]{area:.4f}[/bold] over the last 2,000 events  [cyan]{_sparkline(self.areas)}[/cyan]"
            )
        for what, took in tally.percentiles().items():
            grid.add_row(what, _percentiles(took))
        bar = ProgressBar(total=progress.total, completed=progress.done, width=None)
        count = f"{progress.done:,} of {progress.total:,} events"
        whole = Table.grid(expand=True)
        whole.add_row(bar)
        whole.add_row(grid)
        return Panel(whole, title=f"replay {self.title}", subtitle=count, border_style="blue")


def _percentiles(took: dict[str, float]) -> str:
    """Latencies as one text.

    >>> _percentiles({"p50_ms": 1.5, "p99_ms": 4.0})
    'p50 1.50 ms, p99 4.00 ms'
    """
    return ", ".join(f"{name.removesuffix('_ms')} {value:.2f} ms" for name, value in took.items())


def _sparkline(values: list[float]) -> str:
    """A sparkline of AUCs from 0.5 to 1.

    >>> _sparkline([0.5, 0.75, 1.0])
    ' ▄█'
    """
    return "".join(BLOCKS[max(0, min(8, round(16 * (value - 0.5))))] for value in values)


def _moment(time: float) -> str:
    """Seconds since 1970 as a date, any other time as a number."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S") if 3e8 < time < 1e11 else f"{time:g}"


def _report(title: str, progress: ReplayProgress, tally: Tally, output: Output) -> None:
    from rich.table import Table

    curve, whole = tally.curve(), tally.whole_auc()
    table = Table(box=None, pad_edge=False)
    for heading in ("from", "to", "events", "AUC"):
        table.add_column(heading, justify="right")
    for row in curve:
        table.add_row(_moment(row["start"]), _moment(row["stop"]), f"{row['events']:,}", f"{row['auc']:.4f}")
    output.show(f"{title}: AUC over time", table)
    pace = progress.done / progress.seconds
    said = f"{progress.done:,} events in {progress.seconds:.1f} s ({pace:,.0f} events/s)"
    say(said + ("" if whole is None else f", AUC {whole:.4f} against one random negative per event"))
    for what, took in tally.percentiles().items():
        say(f"{what} per batch: {_percentiles(took)}")
    found: dict[str, Any] = {"name": title, "events": progress.done, "seconds": progress.seconds}
    found |= {"events_per_s": pace, "auc": whole, "auc_along_time": curve, "latency": tally.percentiles()}
    output.result(found)
