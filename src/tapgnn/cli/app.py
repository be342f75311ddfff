"""The commands and their error handling.

A user's mistake is one line on standard error and exit code 2; Ctrl-C is exit code 130; any other error is a bug and
keeps its traceback.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tapgnn.cli import backup, compare, data, doctor, export, query, replay, reproduce, serve, sweep, tokens, train
from tapgnn.errors import TapgnnError

HELP = """Learn from a log of events who will interact with whom, and when.

EVENTS is a table (CSV, TSV, Parquet, Arrow, JSON lines, .edges; text also as .gz) with a source, a destination \
and a time in every row, and any other columns, or the name of a public data set (see 'tapgnn datasets list').

Getting started:
[cyan]tapgnn simulate payments.csv[/cyan]             simulate a log, if you have none
[cyan]tapgnn inspect payments.csv[/cyan]              show how its columns are read, and its statistics
[cyan]tapgnn evaluate payments.csv --seeds 1[/cyan]   compare a model with trivial methods
[cyan]tapgnn fit payments.csv --out model[/cyan]      train and save a model, with a report
[cyan]tapgnn rank model a00046[/cyan]                 whom will this account pay next?
[cyan]tapgnn classify model new.csv[/cyan]            how risky are new payments? (after fit --classify)
"""
# Newer versions of typer bundle click; in all versions BadParameter is a usage error.
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]

# What help shows last.
EXAMPLES = {
    "inspect": ("tapgnn inspect payments.csv", "tapgnn inspect calls.csv --src from_no --dst to_no --time started"),
    "simulate": ("tapgnn simulate payments.csv --events 5000 --accounts 300 --merchants 60 --fraud 0.03",),
    "evaluate": (
        "tapgnn evaluate payments.csv --classify --seeds 1",
        "tapgnn evaluate fb-forum --protocol paper --seeds 5 --json",
    ),
    "compare": ("tapgnn compare payments.csv --methods tapgnn,tgn,recency --seeds 2 --out comparison",),
    "sweep": ("tapgnn sweep payments.csv --vary width=32,64 --vary learning_rate=1e-4..1e-2 --out sweep",),
    "fit": (
        "tapgnn fit payments.csv --classify --out model",
        "tapgnn fit choices.parquet --bipartite --select mrr --out model",
    ),
    "reproduce": ("tapgnn reproduce links --quick",),
    "embed": ("tapgnn embed model a00046 a00013", "tapgnn embed model --all --out all.parquet"),
    "score": ("tapgnn score model --src a00046 --dst m0001", "tapgnn score model --queries pairs.csv --out scores.csv"),
    "rank": ("tapgnn rank model a00046 -k 5", "tapgnn rank model --queries accounts.csv --out best.parquet"),
    "classify": ("tapgnn classify model new.csv --keep amount --out risk.csv",),
    "serve": (
        "tapgnn serve model --journal state.db",
        "tapgnn serve model --journal state.db --host 0.0.0.0 --tokens tokens.json --late buffer --lateness 30",
    ),
    "replay": ("tapgnn replay payments.csv --model model", "tapgnn replay payments.csv --server http://127.0.0.1:8000"),
    "migrate": ("tapgnn migrate state.db --model new-model --start after",),
    "export": ("tapgnn export model --embeddings nodes.parquet --head head.safetensors",),
    "push": ("tapgnn push model s3://bucket/models/2026-03",),
    "pull": ("tapgnn pull s3://bucket/models/2026-03 model",),
    "backup": (
        "tapgnn backup state.db /backups/state.db",
        "tapgnn backup http://127.0.0.1:8000 /backups/state.db",
    ),
    "doctor": ("tapgnn doctor", "tapgnn doctor --no-test --json"),
    "datasets list": ("tapgnn datasets list",),
    "datasets download": ("tapgnn datasets download fb-forum",),
    "token new": ("tapgnn token new --file tokens.json --scope write --expires 90d",),
    "token list": ("tapgnn token list --file tokens.json",),
    "token revoke": ("tapgnn token revoke write-1 --file tokens.json",),
}

_HELP_NAMES = {"help_option_names": ["-h", "--help"], "max_content_width": 120}

app = typer.Typer(help=HELP, invoke_without_command=True, context_settings=_HELP_NAMES)
datasets = typer.Typer(help="List and download the public data sets of the paper.", invoke_without_command=True)
token = typer.Typer(help="Create, list and revoke access tokens for a server.", invoke_without_command=True)


def _examples(name: str) -> str:
    """The examples of a command, a paragraph each."""
    return "\n\n".join(("Examples:", *(f"[cyan]{line}[/cyan]" for line in EXAMPLES[name])))


for _panel, _members in {
    "Data": (data.inspect, data.simulate),
    "Training and evaluation": (train.evaluate, compare.compare, sweep.sweep, train.fit, reproduce.reproduce),
    "Querying a fitted model": (query.embed, query.score, query.rank, query.classify),
    "Live": (serve.serve, replay.replay, serve.migrate, backup.backup),
    "Exchange": (export.export, export.push, export.pull),
    "Installation": (doctor.doctor,),
}.items():
    for _command in _members:
        _name = _command.__name__
        app.command(_name, rich_help_panel=_panel, epilog=_examples(_name))(_command)
for _name, _command in {"list": data.list_datasets, "download": data.download_dataset}.items():
    datasets.command(_name, epilog=_examples(f"datasets {_name}"))(_command)
app.add_typer(datasets, name="datasets", rich_help_panel="Data")
for _name, _command in {"new": tokens.new_token, "list": tokens.list_tokens, "revoke": tokens.revoke_token}.items():
    token.command(_name, epilog=_examples(f"token {_name}"))(_command)
app.add_typer(token, name="token", rich_help_panel="Live")


@app.callback()
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", metavar="", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from tapgnn import __version__

        typer.echo(f"tapgnn {__version__}")
    else:
        show_help(context)


@datasets.callback()
@token.callback()
def show_help(context: typer.Context) -> None:
    """Show the help of a group of commands if none of them is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@functools.cache
def _commands() -> Any:
    """The typer command, built once per process."""
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        code = _commands()(None if arguments is None else list(arguments), prog_name="tapgnn", standalone_mode=False)
    except USAGE_ERROR as error:
        return _refuse(_usage(error))
    except TapgnnError as error:
        return _refuse(error.told("command_line"))
    except OSError as error:
        if error.filename is None:
            raise
        cure = "; make room and run it again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        return _refuse(f"{error.filename}: {error.strerror}{cure}")
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    if code == 130:
        typer.echo("tapgnn: stopped by Ctrl-C", err=True)
    return code if isinstance(code, int) else 0


def _refuse(message: str) -> int:
    typer.echo(f"tapgnn: {' '.join(message.split())}", err=True)
    return 2


def _usage(error: Exception) -> str:
    """The message of a usage error on one line, with a pointer to the help."""
    message = str(getattr(error, "format_message", lambda: error)()).strip().rstrip(".")
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    name = getattr(getattr(error, "param", None), "name", None)
    place = f" (on the command line or in {context.meta['config']})" if name in (context.default_map or {}) else ""
    return f"{message}{place}; see '{context.command_path} --help'"
