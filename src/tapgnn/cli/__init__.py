"""The command line: `tapgnn COMMAND ...`.

    app.py              the commands by name, and what becomes of an error: one line and exit code 2
    options.py          the options that several commands share, as dataclasses
    config_file.py      --config run.toml: the same options from a file
    output.py           what is printed where, and JSON
    events_argument.py  EVENTS: a path or a registered name, read with the options of the reader
    progress.py         a training on the screen, in metrics.jsonl and in TensorBoard
    data.py             inspect, datasets, simulate
    train.py            fit, evaluate
    results.py          what a fitted model is worth, and the report of it
    query_input.py      the questions of embed, score and rank
    query.py            embed, score, rank, classify
    compare.py          compare: the published and the trivial methods beside TAP-GNN
    serve.py            serve, token: a live engine behind HTTP, and the keys to it
    replay.py           replay: a log through a live engine, with a dashboard
    migrate.py          migrate: the journal of an engine into another model

Nothing heavy is imported before a command runs, so that help is quick. Results go to standard output, everything said
on the way to standard error; with --json, standard output ends with one JSON object.
"""

from tapgnn.cli.app import main

__all__ = ["main"]
