"""The command line: `tapgnn COMMAND ...`.

    app.py              the commands and their error handling: one line and exit code 2
    options.py          options shared by several commands, as dataclasses
    config_file.py      --config run.toml: the same options from a file
    output.py           tables, messages, JSON and CSV
    events_argument.py  EVENTS: a path or the name of a data set
    progress.py         progress of a training and of many runs: on the screen, in metrics.jsonl and in TensorBoard
    mlflow_log.py       --mlflow: a fit as a run of MLflow
    data.py             inspect, datasets, simulate
    train.py            fit, evaluate
    results.py          result tables and reports of fit and evaluate
    query_input.py      the nodes and times of embed, score and rank
    query.py            embed, score, rank, classify
    compare.py          compare: published and trivial methods alongside TAP-GNN
    sweep.py            sweep: search the settings that are best on validation
    reproduce.py        reproduce: the tables and figures of the paper
    backup.py           backup: a copy of a journal
    serve.py            serve, migrate: a live engine behind HTTP, its journal for another model
    tokens.py           token new, list, revoke: the access tokens of a server
    export.py           export, push, pull: a model for other programs and in other places
    doctor.py           doctor: versions, threads, folders, compiled code, and a test
    replay.py           replay: stream a log through a live engine, with a dashboard

Heavy modules are imported only when a command runs, so that help is fast. Results go to standard output, messages to
standard error; with --json, standard output ends with one JSON object.
"""

from tapgnn.cli.app import main

__all__ = ["main"]
