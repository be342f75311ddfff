"""serve and migrate: a live engine behind HTTP, and its journal under another model."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapgnn.cli.options import ModelArgument, argument, command, option
from tapgnn.cli.output import Output, say
from tapgnn.errors import ConfigError
from tapgnn.threads import VARIABLES, set_threads

if TYPE_CHECKING:
    from tapgnn.online.sources import EventSource

SOURCES = "Sources"
_engine, _limit = (partial(option, rich_help_panel=name) for name in ("Engine", "Limits"))


@dataclass(frozen=True)
class EngineOptions:
    """Options of the engine; None keeps the setting in the journal."""

    late: str | None = _engine("HOW", "What to do with late events: reject, merge or buffer.", "reject")
    lateness: float | None = _engine("TIME", "With buffer and merge: how long events wait for late ones.", "0")
    hold_back: bool | None = _engine("", "Absorb an instant only after a later one has begun.", "yes")
    ttl: float | None = _engine("TIME", "Forget nodes that are inactive for longer.", "never")
    horizon: float | None = _engine(
        "TIME", "Reject events later than the latest one by more than this; inf disables it.", "automatic"
    )
    max_held: int | None = _engine("N", "Maximum number of events that wait for later ones.", "100,000")
    checkpoint_every: int | None = _engine("N", "Records between checkpoints.", "adaptive")

    def options(self) -> dict[str, Any]:
        """The options of `Engine.open`."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class ServerLimits:
    """Limits on requests."""

    max_body: int = _limit("BYTES", "Maximum size of a request.", default=16_000_000)
    max_connections: int = _limit("N", "Maximum number of connections; further ones get status 503.", default=1_000)
    max_events: int = _limit("N", "Maximum number of events per request.", default=10_000)
    queue: int = _limit("N", "Maximum number of waiting batches; further requests get status 429.", default=256)
    window: int = _limit("N", "Recent events kept in memory to explain scores.", default=10_000)


@dataclass(frozen=True)
class SourceOptions:
    """Sources of events besides HTTP."""

    source: list[str] | None = option(
        "SOURCE",
        "Also read events from a growing file (.csv, .tsv, .jsonl), from standard input (-), or from Kafka "
        "(kafka://HOST:PORT/TOPIC). May be repeated.",
        rich_help_panel=SOURCES,
    )
    kafka_option: list[str] | None = option(
        "KEY=VALUE", "A setting of librdkafka, such as security.protocol=SSL. May be repeated.", rich_help_panel=SOURCES
    )
    skip_bad_rows: bool = option(
        "",
        "Skip rows that cannot be read; otherwise such a row stops the server.",
        True,
        "--skip-bad-rows",
        default=False,
        rich_help_panel=SOURCES,
    )

    def sources(self) -> list[EventSource]:
        """What they name."""
        from tapgnn.online.sources.file import FileSource, StreamSource
        from tapgnn.online.sources.kafka import KafkaSource

        found: list[EventSource] = []
        for name in self.source or []:
            if name == "-":
                found.append(StreamSource(sys.stdin.buffer, skip_bad_rows=self.skip_bad_rows))
            elif name.startswith("kafka://"):
                servers, _, topic = name.removeprefix("kafka://").partition("/")
                if not servers or not topic:
                    raise ConfigError(
                        f"{name} is not of the form kafka://HOST:PORT/TOPIC; give the brokers and the topic"
                    )
                found.append(KafkaSource(servers, topic, self.skip_bad_rows, self._kafka_options()))
            else:
                found.append(FileSource(name, skip_bad_rows=self.skip_bad_rows))
        return found

    def _kafka_options(self) -> dict[str, Any]:
        pairs = [pair.partition("=") for pair in self.kafka_option or []]
        for place, (_, mark, _) in enumerate(pairs, start=1):
            # It is not repeated: it may be a password.
            if not mark:
                raise ConfigError(f"--kafka-option number {place} is not KEY=VALUE, such as security.protocol=SSL")
        return {key: value for key, _, value in pairs}


@command
def serve(
    model: ModelArgument,
    journal: Annotated[
        str, typer.Option(metavar="PATH", help="The journal: a file, created if it does not exist, or postgresql://...")
    ],
    engine_options: EngineOptions,
    limits: ServerLimits,
    source_options: SourceOptions,
    host: str = option("NAME", "Address to listen on; other than localhost only with --tokens.", default="127.0.0.1"),
    port: int = option("N", "Port to listen on; 0 chooses a free one.", default=8000, min=0, max=65_535),
    tokens: Path | None = option("FILE", "File of access tokens, see 'tapgnn token new'; read again when it changes."),
    log_level: str = option("NAME", "debug, info, warning or error.", default="info"),
    otlp_endpoint: str | None = option(
        "URL",
        "Send OpenTelemetry traces to this collector, over HTTP, such as http://127.0.0.1:4318.",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ),
) -> None:
    """Serve a fitted model over HTTP: ingest events, answer queries, and show a live page.

    Every acknowledged event is in the journal; after a crash, the next process continues from there. SIGTERM and Ctrl-C
    shut the server down cleanly, with exit code 0; SIGHUP rereads the token file. Logs are JSON lines on standard
    error.
    """
    missing = [name for name in ("apsw", "fastapi", "prometheus_client", "uvicorn") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"serving needs {', '.join(missing)}; run pip install 'tapgnn[serve]'")
    # Several threads that spin on a busy machine are far slower than one. Numba and BLAS read these when they load.
    for name in ("NUMBA_NUM_THREADS", *VARIABLES):
        os.environ.setdefault(name, "1")
    from tapgnn.model import load_model
    from tapgnn.online import Engine
    from tapgnn.online.journal.journal_place import check_place
    from tapgnn.online.server import serving
    from tapgnn.online.server.limits import Limits
    from tapgnn.online.server.logs import log_as_json
    from tapgnn.online.server.service import ServerSettings, Service
    from tapgnn.online.server.tokens import WatchedTokens
    from tapgnn.online.server.tracing import exported_traces

    set_threads(1)
    known = None if tokens is None else WatchedTokens(tokens)
    serving.check_address(host, known is not None)
    check_place(journal)
    kept = {"events": limits.max_events, "queue": limits.queue, "window": limits.window}
    bounds = Limits(limits.max_connections, body=limits.max_body)
    shape = load_model(model).config
    options, sources = engine_options.options(), source_options.sources()
    with exported_traces(otlp_endpoint) as tracing:
        settings = ServerSettings(tokens=known, limits=bounds, tracing=tracing, **kept)
        service = Service(lambda: Engine.open(model, journal, **options), settings, sources)
        log_as_json(log_level)
        reload = (lambda: None) if known is None else known.reload
        serving.run(service, shape, host, port, lambda place: typer.echo(f"tapgnn serves {model} at {place}"), reload)


@command
def migrate(
    journal: Annotated[
        str,
        argument("JOURNAL", "The journal: a file, or a postgresql:// address."),
    ],
    model: Annotated[Path, typer.Option(metavar="MODEL", help="The folder of the new model.", show_default=False)],
    output: Output,
    start: str = option(
        "WHERE",
        "saved: start from the state saved with the model. after: the same, but skip the journal's events up "
        "to the clock of that state, because the model was trained on them. empty: start from an empty state.",
        default="saved",
    ),
    threads: int = option("N", "Number of threads.", default=1),
) -> None:
    """Replay the journal of an engine with another model, and switch to it.

    The engine must be stopped. The whole journal is read, verified and replayed with the new model; then one
    transaction stores the new state in the journal. Until then nothing changes, so the command can be interrupted at
    any time. With the model that the journal already has, it rebuilds the state from the records.
    """
    from tapgnn.online.journal import undo_and_migrate

    set_threads(threads)
    done = undo_and_migrate.migrate(journal, model, start)
    left = f", {done['left_out']:,} events skipped because the model was trained on them" if done["left_out"] else ""
    say(
        f"{done['journal']}: {done['records']:,} records with {done['events']:,} events{left}, {done['nodes']:,} nodes"
        f"; model {done['from'][:12]} -> {done['to'][:12]}"
    )
    output.result(done)
