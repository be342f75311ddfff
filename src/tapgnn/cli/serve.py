"""serve and token: a live engine behind HTTP, and the keys to it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapgnn.cli.config_file import ConfigFile
from tapgnn.cli.options import ModelArgument, grouped
from tapgnn.cli.output import say
from tapgnn.errors import ConfigError

if TYPE_CHECKING:
    from tapgnn.online.sources import EventSource

ENGINE, LIMITS, SOURCES = "Engine", "Limits", "Sources"


def _option(panel: str, metavar: str, help: str, *names: str, default: str | bool = True) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, show_default=default)


@dataclass(frozen=True)
class Folding:
    """How the engine folds its journal; what is None stays as the journal has it."""

    late: Annotated[
        str | None,
        _option(ENGINE, "HOW", "Older events than those absorbed: reject, merge or buffer.", default="reject"),
    ] = None
    lateness: Annotated[
        float | None,
        _option(ENGINE, "TIME", "With buffer and merge: how long events wait for older ones.", default="0"),
    ] = None
    hold_back: Annotated[
        bool | None,
        _option(
            ENGINE,
            "",
            "Absorb an instant only when a later time has come.",
            "--hold-back/--no-hold-back",
            default="yes",
        ),
    ] = None
    ttl: Annotated[
        float | None, _option(ENGINE, "TIME", "Forget nodes that are silent for longer.", default="never")
    ] = None
    horizon: Annotated[
        float | None, _option(ENGINE, "TIME", "Refuse events this much later than the newest.", default="no limit")
    ] = None
    checkpoint_every: Annotated[
        int | None, _option(ENGINE, "N", "Records between checkpoints.", default="by what it saves")
    ] = None

    def options(self) -> dict[str, Any]:
        """The options of `Engine.open`."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Bounds:
    """What a server lets in."""

    max_body: Annotated[int, _option(LIMITS, "BYTES", "Of one request.")] = 16_000_000
    max_events: Annotated[int, _option(LIMITS, "N", "Events of one request.")] = 10_000
    queue: Annotated[int, _option(LIMITS, "N", "Batches that may wait; more are told to come back (429).")] = 256
    window: Annotated[int, _option(LIMITS, "N", "Latest events kept in memory to explain scores.")] = 10_000


@dataclass(frozen=True)
class Feeding:
    """Where events come from beside HTTP."""

    source: Annotated[
        list[str] | None,
        _option(
            SOURCES,
            "SOURCE",
            "Also read events from a file that grows (.csv, .tsv, .jsonl), from standard input (-), or from Kafka "
            "(kafka://HOST:PORT/TOPIC). May be given several times.",
            default=False,
        ),
    ] = None
    kafka_option: Annotated[
        list[str] | None,
        _option(SOURCES, "KEY=VALUE", "A setting of librdkafka, such as security.protocol=SSL.", default=False),
    ] = None
    skip_bad_rows: Annotated[
        bool,
        _option(SOURCES, "", "Leave out rows that cannot be read; otherwise one stops the server.", "--skip-bad-rows"),
    ] = False

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
                    raise ConfigError(f"{name} is not kafka://HOST:PORT/TOPIC; name the brokers and the topic")
                found.append(KafkaSource(servers, topic, self.skip_bad_rows, self._kafka_options()))
            else:
                found.append(FileSource(name, skip_bad_rows=self.skip_bad_rows))
        return found

    def _kafka_options(self) -> dict[str, Any]:
        pairs = [option.partition("=") for option in self.kafka_option or []]
        for key, mark, _ in pairs:
            if not mark:
                raise ConfigError(f"--kafka-option {key} is not KEY=VALUE; write for example security.protocol=SSL")
        return {key: value for key, _, value in pairs}


@grouped
def serve(
    model: ModelArgument,
    journal: Annotated[
        str, typer.Option(metavar="PATH", help="The journal: a file, begun if it is not there, or postgresql://...")
    ],
    folding: Folding,
    bounds: Bounds,
    feeding: Feeding,
    host: Annotated[
        str, typer.Option(metavar="NAME", help="Where to listen; beyond this machine, with tokens only.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(metavar="N", help="0 takes one that is free.", min=0, max=65_535)] = 8000,
    tokens: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The tokens that open it: see 'tapgnn token new'.")
    ] = None,
    log_level: Annotated[str, typer.Option(metavar="NAME", help="debug, info, warning or error.")] = "info",
    config: ConfigFile = None,
) -> None:
    """Serve a fitted model: take in events, answer questions, show a page to watch it.

    Every event that is acknowledged is in the journal; whatever happens to the process, the next one goes on from
    there. SIGTERM and Ctrl-C end it in order, with code 0. Logs are JSON lines on standard error.
    """
    _check_installed()
    # One thread a product: several that spin on a busy machine are far slower. Read when numba and BLAS are loaded.
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from tapgnn.model import load_model
    from tapgnn.online import Engine
    from tapgnn.online.server import serving
    from tapgnn.online.server.logs import log_as_json
    from tapgnn.online.server.middleware import Limits
    from tapgnn.online.server.service import ServerSettings, Service
    from tapgnn.online.server.tokens import Tokens

    threadpool_limits(limits=1)
    known = None if tokens is None else Tokens.load(tokens)
    serving.check_address(host, known is not None)
    settings = ServerSettings(
        tokens=known,
        limits=Limits(body=bounds.max_body),
        events=bounds.max_events,
        queue=bounds.queue,
        window=bounds.window,
    )
    shape = load_model(model).config
    options = folding.options()
    service = Service(lambda: Engine.open(model, journal, **options), settings, feeding.sources())
    log_as_json(log_level)
    serving.run(service, shape, host, port, lambda place: typer.echo(f"tapgnn serves {model} at {place}"))


def _check_installed() -> None:
    missing = [name for name in ("apsw", "fastapi", "prometheus_client", "uvicorn") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"serving needs {', '.join(missing)}; run pip install 'tapgnn[serve]'")


def new_token(
    file: Annotated[Path, typer.Option(metavar="FILE", help="The token file, made if it is not there.")],
    scope: Annotated[str, typer.Option(metavar="NAME", help="read (ask) or write (ask and send events).")] = "read",
    name: Annotated[str, typer.Option(metavar="NAME", help="What to know it by.", show_default=False)] = "",
) -> None:
    """Make a token and add its hash to a token file; the token itself is printed, once.

    A server reads the file when it starts.
    """
    from tapgnn.online.server.tokens import Tokens

    tokens = Tokens.load(file) if file.exists() else Tokens()
    text = tokens.add(scope, name)  # type: ignore[arg-type]
    tokens.save(file)
    say(f"{tokens.entries[-1].name}: scope {scope}, kept as a hash in {file}; the token is shown only now:")
    typer.echo(text)
