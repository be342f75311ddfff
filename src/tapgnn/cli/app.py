"""The commands and their error handling.

A user's mistake is one line on standard error and exit code 2; Ctrl-C is exit code 130; any other error is a bug and
keeps its traceback.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tapgnn.cli import compare, data, query, replay, serve, train
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

_HELP_NAMES = {"help_option_names": ["-h", "--help"], "max_content_width": 120}

app = typer.Typer(help=HELP, invoke_without_command=True, add_completion=False, context_settings=_HELP_NAMES)
datasets = typer.Typer(help="List and download the public data sets of the paper.", invoke_without_command=True)
token = typer.Typer(help="Create access tokens for a server.", invoke_without_command=True)

for _panel, _members in {
    "Data": (data.inspect, data.simulate),
    "Training and evaluation": (train.evaluate, compare.compare, train.fit),
    "Querying a fitted model": (query.embed, query.score, query.rank, query.classify),
    "Live": (serve.serve, replay.replay, serve.migrate),
}.items():
    for _command in _members:
        app.command(_command.__name__, rich_help_panel=_panel)(_command)
datasets.command("list")(data.list_datasets)
datasets.command("download")(data.download_dataset)
app.add_typer(datasets, name="datasets", rich_help_panel="Data")
token.command("new")(serve.new_token)
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
        return _refuse(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        return _refuse(f"{error.filename}: {error.strerror}")
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
