"""compare: published and trivial methods alongside TAP-GNN, in one table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tapgnn.cli.events_argument import read_log
from tapgnn.cli.options import LAG, PROTOCOL, SEEDS, EventsArgument, Reading, command, option
from tapgnn.cli.output import Output, check_folder, say, write_csv, write_json

if TYPE_CHECKING:
    from rich.table import Table

    from tapgnn.evaluation.harness import RunProgress

COMPARISON, TABLE = "comparison.json", "comparison.csv"
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
    reading: Reading,
    output: Output,
    methods: str = option("A,B,...", "Names of methods, such as tapgnn,tgn,recency, or all.", default="all"),
    protocol: str = PROTOCOL,
    seeds: int = SEEDS,
    lag: int = LAG,
    threads: int = option("N", "Number of threads for each method, in all libraries.", default=1),
    out: Path | None = option("FOLDER", f"Write {COMPARISON} and {TABLE} to this folder."),
) -> None:
    """Train and test published and trivial methods alongside TAP-GNN, all in the same way.

    Every method is trained on the first 70 % of the log, selects its weights or settings on the next 15 %, and is
    tested on the last 15 %: the same queries for all, each with the history strictly before it. Some methods cannot use
    events after training; the last column shows which. Ctrl-C keeps the finished runs.
    """
    from tapgnn.cli.results import described
    from tapgnn.evaluation import compare as run
    from tapgnn.evaluation.harness import chosen_methods

    names = chosen_methods([name for name in re.split(r"[,\s]+", methods) if name])
    if out is not None:
        check_folder(out)
    log = read_log(events, reading)
    say(log.opening(f"{len(log.events):,} events, {len(names)} methods, protocol {protocol}"))
    found = run(log.events, names, protocol, seeds, threads, _tell, schema=log.schema, lag=lag)  # type: ignore[arg-type]
    title = f"{log.title}, {described({**found, **found['data']})}"
    output.show(title, comparison_table(found["methods"]))
    for line in failures(found["methods"]):
        say(line)
    results = {"name": log.name, "simulated": log.simulated, **found}
    if out is not None:
        write_json(out / COMPARISON, results)
        kept = kept_columns(found["methods"])
        write_csv(("method", *kept), table_rows(found["methods"], kept), out / TABLE)
        say(f"results in {out / COMPARISON}, table in {out / TABLE}")
    output.result(results)
    if found["interrupted"]:
        done = sum(len(row["runs"]) for row in found["methods"].values())
        say(f"interrupted; the results cover the {done} of {seeds * len(names)} runs that were finished")
        raise typer.Exit(130)


def _tell(progress: RunProgress) -> None:
    """One line when a run starts and one when it has finished."""
    place, run = f"[{progress.place}/{progress.total}] {progress.method}, seed {progress.seed}", progress.run
    if run is None:
        say(f"{place} ...")
    elif "error" in run:
        say(f"{place}: failed: {run['error']}")
    else:
        from tapgnn.cli.results import titled

        metric = next(key for key in MAIN if key in run)
        found = f"{titled(metric)} {run[metric]:.4f}"
        say(f"{place}: {found}, {run['train_seconds']:.1f} s of training, {run['memory_mb']:.0f} MB")


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
    from tapgnn.cli.results import BY_TEST, method_table

    columns = {key.removesuffix("_mean"): how for key, how in FIGURES.items()}
    columns |= {f"{test}_ap": (f"AP {words}", ".4f") for test, words in BY_TEST.items()}
    caption = "\n".join([CAPTION, *other_scores(methods)])
    return method_table(methods, columns, caption, (HISTORY, {name: _history(row) for name, row in methods.items()}))


def _history(row: Mapping[str, Any]) -> str:
    """Whether a method sees history up to the query, and how many of its runs failed."""
    if "sees_history" not in row:
        return "failed"
    seen = "yes" if row["sees_history"] else "no"
    return f"{seen} ({row['failed']} of {len(row['runs'])} failed)" if row.get("failed") else seen
