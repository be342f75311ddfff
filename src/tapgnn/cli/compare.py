"""compare: published and trivial methods alongside TAP-GNN, in one table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tapgnn.cli.events_argument import read_log
from tapgnn.cli.options import PROTOCOL, SEEDS, EventsArgument, ReadingOptions, TrainingOptions, command, option
from tapgnn.cli.output import Output, check_folder, say, write_csv, write_json
from tapgnn.cli.progress import RunScreen

if TYPE_CHECKING:
    from rich.table import Table

    from tapgnn.evaluation.runner import Found, Run
    from tapgnn.experiments.tables import ResultTable

COMPARISON, TABLE, PAGE = "comparison.json", "comparison.csv", "comparison.html"
FIGURES = {
    "auc_mean": ("AUC", ".4f"),
    "ap_mean": ("AP", ".4f"),
    "accuracy_mean": ("acc.", ".4f"),
    "mrr_mean": ("MRR", ".4f"),
    "train_seconds": ("fit s", ".1f"),
    "query_ms": ("query ms", ".3f"),
    "memory_mb": ("MB", ".0f"),
}
HISTORY = "sees history up to the query"
# What alternative scores are compared by, under one protocol or another.
MAIN = ("auc", "mrr", "transductive_random_ap")
# The first columns of comparison.csv; and those that the alternative scores of a fit share with it.
KEPT = (*FIGURES, "auc_std", "sees_history", "failed", "error")
SHARED = ("train_seconds", "memory_mb", "sees_history", "failed", "error")
CAPTION = (
    "acc.: accuracy at the threshold that is best on the validation events; query ms: time per test query, including "
    "observing the stream; MB: increase in the peak memory of the method's process"
)


@command
def compare(
    events: EventsArgument,
    reading: ReadingOptions,
    learning: TrainingOptions,
    output: Output,
    methods: str = option("A,B,...", "Names of methods, such as tapgnn,tgn,recency, or all.", default="all"),
    protocol: str = PROTOCOL,
    seeds: int = SEEDS,
    processes: int = option("N", "Number of runs at a time, each with --threads of its own.", default=1),
    out: Path | None = option(
        "FOLDER", f"Keep the runs in this folder, and write {COMPARISON} and the table (CSV, Markdown, LaTeX, HTML)."
    ),
) -> None:
    """Train and test published and trivial methods alongside TAP-GNN, all in the same way.

    Every method is trained on the first 70 % of the log, selects its weights or settings on the next 15 %, and is
    tested on the last 15 %: the same queries for all, each with the history strictly before it. Some methods cannot use
    events after training; the last column shows which. The options of model and training are those of TAP-GNN; --lag,
    --seed (the first) and --threads count for all.

    Ctrl-C keeps the finished runs. With --out, a comparison that was stopped anywhere goes on where it was when the
    same command is given again. The exit code is 1 if a run failed.
    """
    estimator = learning.estimator()
    from tapgnn.cli.results import described
    from tapgnn.evaluation import compare as run
    from tapgnn.evaluation.comparison import chosen_methods

    names = chosen_methods([name for name in re.split(r"[,\s]+", methods) if name])
    if out is not None:
        check_folder(out)
    log = read_log(events, reading)
    say(log.opening(f"{len(log.events):,} events, {len(names)} methods, protocol {protocol}"))
    places = {"estimator": estimator, "processes": processes, "threads": learning.threads, "folder": out}
    with RunScreen("runs", seeds * len(names), _words, _outcome) as screen:
        more = {"listener": screen.tell, "schema": log.schema, "negatives": log.board_negatives(protocol)}
        found = run(log.events, names, protocol, seeds, **places, **more)  # type: ignore[arg-type]
    title = f"{log.title}, {described({**found, **found['data']})}"
    output.show(title, comparison_table(found["methods"]))
    for line in failures(found["methods"]):
        say(line)
    results = {"name": log.name, "simulated": log.simulated, **found}
    if out is not None:
        _write(out, title, results)
        say(f"results in {out / COMPARISON}, table in {out / TABLE}, page in {out / PAGE}")
    output.result(results)
    if found["interrupted"]:
        done = sum(len(row["runs"]) for row in found["methods"].values())
        say(f"interrupted; the results cover the {done} of {seeds * len(names)} runs that were finished")
        raise typer.Exit(130)
    if any(row["failed"] for row in found["methods"].values()):
        raise typer.Exit(1)


def _words(run: Run) -> str:
    """What a run is called."""
    return f"{run.method}, seed {run.seed}"


def _outcome(found: Found) -> str:
    """What is said of a finished run."""
    from tapgnn.cli.results import titled

    metric = next(key for key in MAIN if key in found)
    costs = f"{found['train_seconds']:.1f} s of training, {found['memory_mb']:.0f} MB"
    return f"{titled(metric)} {found[metric]:.4f}, {costs}"


def _write(out: Path, title: str, results: Mapping[str, Any]) -> None:
    """The results of a comparison as files."""
    from tapgnn.file_integrity import write_atomically
    from tapgnn.report.page import render_comparison

    methods = results["methods"]
    write_json(out / COMPARISON, results)
    kept = kept_columns(methods)
    write_csv(("method", *kept), table_rows(methods, kept), out / TABLE)
    table = result_table(title, methods)
    write_atomically(out / TABLE.replace("csv", "md"), f"# {title}\n\n{table.markdown()}")
    write_atomically(out / TABLE.replace("csv", "tex"), table.latex())
    page = render_comparison(title, table, {key: results[key] for key in ("settings", "versions", "data")})
    write_atomically(out / PAGE, page)


def result_table(title: str, methods: Mapping[str, Mapping[str, Any]]) -> ResultTable:
    """The table of the files: metrics with their deviation, then costs, the best of each column in bold."""
    from tapgnn.experiments.tables import ResultTable, Value

    shown = {key: how for key, how in _columns().items() if any(key in row for row in methods.values())}
    rows = []
    for name, row in methods.items():
        cells: list[Value | str] = []
        for key, (_, form) in shown.items():
            spread, count = row.get(key.replace("_mean", "_std"), 0.0), len(row["runs"]) - row["failed"]
            deviates = key.endswith("_mean")
            cells.append(Value(row.get(key), spread if deviates else 0.0, count if deviates else 1, form=form))
        rows.append((name, (*cells, _history(row))))
    best = tuple("max" if key.endswith("_mean") else "" for key in shown)
    note = "\n".join([CAPTION, *other_scores(methods), *failures(methods)])
    header = ("method", *(heading for heading, _ in shown.values()), HISTORY)
    return ResultTable("comparison", title, header, rows, best=(*best, ""), note=note)


def _columns() -> dict[str, tuple[str, str]]:
    """Title and format of every metric and cost that a table shows."""
    from tapgnn.cli.results import BY_TEST

    return {**FIGURES, **{f"{test}_ap_mean": (f"AP {words}", ".4f") for test, words in BY_TEST.items()}}


def kept_columns(methods: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The columns of comparison.csv: the usual ones, then the other metrics that a method has."""
    more = (key for row in methods.values() for key in row if key.endswith(("_mean", "_std")))
    return list(dict.fromkeys([*KEPT, *more]))


def table_rows(methods: Mapping[str, Mapping[str, Any]], kept: Sequence[str] = KEPT) -> Iterator[list[Any]]:
    """The rows of comparison.csv: every method, followed by its alternative scores, one row each.

    >>> both = {"dot": {"auc_mean": 0.7}, "logistic": {"auc_mean": 0.8}}
    >>> [row[:2] for row in table_rows({"sage": {"auc_mean": 0.8, "alternatives": both}})]
    [['sage', 0.8], ['sage-dot', 0.7], ['sage-logistic', 0.8]]
    """
    for name, row in methods.items():
        yield [name, *(row.get(key, "") for key in kept)]
        shared = {key: row[key] for key in SHARED if key in row}
        for score, metrics in row.get("alternatives", {}).items():
            yield [f"{name}-{score}", *({**shared, **metrics}.get(key, "") for key in kept)]


def failures(methods: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One line per method with failed runs.

    >>> failures({"tgn": {"error": "no memory left", "failed": 1, "runs": [{}, {}]}, "recency": {"failed": 0}})
    ['tgn failed in 1 of 2 runs: no memory left']
    """
    broken = ((name, row) for name, row in methods.items() if row["failed"])
    return [f"{name} failed in {row['failed']} of {len(row['runs'])} runs: {row['error']}" for name, row in broken]


def other_scores(methods: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One line per method with several scores: the test AUC of each.

    >>> other_scores({"m": {"alternatives": {"dot": {"auc_mean": 0.7}, "logistic": {"auc_mean": 0.8}}}, "other": {}})
    ['m, AUC by score: dot 0.7000, logistic 0.8000 (the table has the one that is better on validation)']
    """
    from tapgnn.cli.results import titled

    lines = []
    for name, row in methods.items():
        if others := row.get("alternatives"):
            metric = next(key for key in MAIN if f"{key}_mean" in next(iter(others.values())))
            listed = ", ".join(f"{score} {found[f'{metric}_mean']:.4f}" for score, found in others.items())
            title = titled(metric)
            lines.append(f"{name}, {title} by score: {listed} (the table has the one that is better on validation)")
    return lines


def comparison_table(methods: Mapping[str, Mapping[str, Any]]) -> Table:
    """The results of all methods, and whether each one sees the history up to the query."""
    from tapgnn.cli.results import method_table

    columns = {key.removesuffix("_mean"): how for key, how in _columns().items()}
    caption = "\n".join([CAPTION, *other_scores(methods)])
    return method_table(methods, columns, caption, (HISTORY, {name: _history(row) for name, row in methods.items()}))


def _history(row: Mapping[str, Any]) -> str:
    """Whether a method sees history up to the query, and how many of its runs failed."""
    if "sees_history" not in row:
        return "failed"
    seen = "yes" if row["sees_history"] else "no"
    return f"{seen} ({row['failed']} of {len(row['runs'])} failed)" if row.get("failed") else seen
