"""embed, score, rank and classify: queries to a fitted model, answered as a table or as one JSON object.

Every answer is in the order asked, with the names of the model's own table: the id of the event, where there is one,
both ends, the time, the columns of --keep, and the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapgnn.cli.options import ModelArgument, argument, command, listed, option
from tapgnn.cli.output import Output, check_file, say
from tapgnn.errors import DataError, QueryError
from tapgnn.threads import set_threads, useful_threads

if TYPE_CHECKING:
    import polars as pl

    from tapgnn.cli.query_input import QueryRows
    from tapgnn.estimator import TAPGNN
    from tapgnn.fitted_queries import FittedQueries, Side


@dataclass(frozen=True)
class ModelOptions:
    """The options of all four commands."""

    observe: Path | None = option(
        "EVENTS", "Observe these later events first, read as in 'fit'; the saved model is not changed."
    )
    format: str | None = option("NAME", "The format of files of events.", "from the file name")
    skip_bad_rows: bool = option(
        "", "Skip rows of events that cannot be read, and report how many.", False, "--skip-bad-rows", default=False
    )
    node_table: Path | None = option(
        "FILE", "A later table of nodes that are new or have changed, with the columns of the one in 'fit'."
    )
    threads: int = option("N", "Number of threads.", True, default=useful_threads())

    def model(self, folder: str, log: Path | None = None) -> TAPGNN:
        """The model after observing --observe; with its log it can answer queries about the past."""
        from tapgnn.cli.events_argument import read_with
        from tapgnn.estimator import TAPGNN

        set_threads(self.threads)
        model = TAPGNN.load(folder)
        if self.node_table is not None:
            model.describe(self.node_table)
        if log is not None:
            model.remember(read_with(str(log), self.reading(model)).events)
        if self.observe is not None:
            model.observe(read_with(str(self.observe), self.reading(model)).events)
        return model

    def reading(self, model: TAPGNN) -> dict[str, Any]:
        """How files of events are read: by the schema of the model; labels of new events may not be known yet."""
        options = {"format": self.format, "skip_bad_rows": self.skip_bad_rows}
        return {"schema": replace(model.schema, label=None), "vocabulary": model.vocabulary, **options}


@dataclass(frozen=True)
class QueryOptions(ModelOptions):
    """The options of queries at one time."""

    time: str | None = option(
        "TIME",
        "Time of the query: a number in the unit of the log, or a date as in the log. Only earlier events count.",
        "just after the last event",
    )

    def open(self, folder: str, whole: bool = True, log: Path | None = None) -> tuple[FittedQueries, float]:
        """The model, and the time of the query; where not all of it is wanted, as few parts of it as it takes."""
        from tapgnn.cli.query_input import parse_time

        if whole or self.observe is not None or self.node_table is not None:
            model: FittedQueries = self.model(folder, log)
        else:
            from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

            from tapgnn.saved_model import open_model

            model = open_model(folder)
            threadpool_limits(limits=self.threads)
        return model, model.now if self.time is None else parse_time(self.time, model)


@dataclass(frozen=True)
class AnswerOutput(Output):
    """Answers as a table and as one JSON object."""

    out: Path | None = option(
        "FILE",
        "Write the answers to this file, by its ending: .csv, .tsv, .jsonl (each also .gz), .parquet or .arrow.",
        "CSV on standard output",
    )
    for_spreadsheet: bool = option(
        "",
        "Put an apostrophe before text in CSV and TSV that a spreadsheet would run as a formula: text that begins with "
        "=, +, -, @ or a tab. Without it, text is written as it is, so that answers can be joined to their table.",
        False,
        "--for-spreadsheet",
        default=False,
    )

    def __post_init__(self) -> None:
        check_file(self.out)
        if self.out is not None:
            from tapgnn.data.writing import ending_of

            ending_of(self.out)

    def give(self, columns: Mapping[str, Sequence[Any]], found: Any) -> None:
        """Write the columns to the file, or to standard output unless that is for JSON."""
        from tapgnn.data.writing import write_table

        if self.out is not None:
            self.out.parent.mkdir(parents=True, exist_ok=True)
        if self.out is not None or not self.json:
            write_table(columns, self.out or "-", "escape" if self.for_spreadsheet else "keep")
        self.result(found)


QUERIES = option("FILE", "Read many queries from a file, with the model's own column names in its header.")
KEEP = option("A,B,...", "Columns of the file of queries to repeat in the answer.")


@command
def embed(
    model: ModelArgument,
    options: QueryOptions,
    answer: AnswerOutput,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODES]...", help="Ids of nodes.")] = None,
    queries: Path | None = QUERIES,
    keep: str | None = KEEP,
    every: bool = option("", "Every node that the model knows.", False, "--all", default=False),
    side: str | None = option("src|dst", "Which node is meant if an id is both a source and a destination."),
    log: Path | None = option(
        "EVENTS", "The log that the model was fitted on, read as in 'fit'; needed for times before its end."
    ),
) -> None:
    """Print the embeddings of nodes at a time, one row each: node, time, z0, z1, ...

    The nodes are given on the command line, in a file with the columns node and (optionally) time, or are all (--all).
    """
    if sum((bool(nodes), queries is not None, every)) != 1:
        raise QueryError("pass either NODES, or --queries with a file, or --all")
    if side not in (None, "src", "dst"):
        raise QueryError(f"--side must be src or dst, not {side!r}")
    fitted, time = options.open(model, log=log)
    import numpy as np

    if every:
        asked, sides = _every_node(fitted, time)
        vectors = fitted.embed_rows(np.arange(len(asked.times)), np.array(asked.times))
    else:
        asked = _queried(queries, {"node": nodes or []}, fitted, time, keep, side)  # type: ignore[arg-type]
        vectors = fitted.embed(asked.ids["node"], asked.times, side)  # type: ignore[arg-type]
    columns: dict[str, Any] = {**asked.shown, **{f"z{place}": vectors[:, place] for place in range(vectors.shape[1])}}
    found = {"nodes": asked.ids["node"], "times": asked.times, "embeddings": vectors}
    answer.give(columns, found | ({"sides": sides} if every and fitted.schema.bipartite else {}))


def _every_node(model: FittedQueries, time: float) -> tuple[QueryRows, list[str]]:
    """All nodes of a model, and the side of each ('src' where there is only one kind)."""
    from tapgnn.cli.query_input import QueryRows
    from tapgnn.exchange import every_node

    names, sides = every_node(model)
    schema, times = model.schema, [time] * len(names)
    shown: dict[str, Any] = {"node": names, **({"side": sides} if schema.bipartite else {}), schema.time: times}
    return QueryRows({"node": names}, times, shown), sides


@command
def score(
    model: ModelArgument,
    options: QueryOptions,
    answer: AnswerOutput,
    src: str | None = option("ID", "Id of the source."),
    dst: str | None = option("ID", "Id of the destination."),
    queries: Path | None = QUERIES,
    keep: str | None = KEEP,
) -> None:
    """Print the scores of links: the chance that src interacts with dst rather than with a random destination.

    A score of 0.9 says that dst is nine times as likely as one random destination, not that the event will happen. One
    pair is given on the command line, many in a file with the columns src, dst and (optionally) time, or with the names
    of the model's own table. The answers are in the order of the queries.
    """
    pair = {name: [given] for name, given in (("src", src), ("dst", dst)) if given is not None}
    if bool(pair) == (queries is not None) or len(pair) == 1:
        raise QueryError("pass either both --src and --dst, or --queries with a file")
    fitted, time = options.open(model, whole=queries is not None)
    asked = _queried(queries, pair or {"src": [], "dst": []}, fitted, time, keep)
    scores = fitted.score(asked.ids["src"], asked.ids["dst"], asked.times)
    columns = _joined(asked.shown, {"score": scores})
    answer.give(columns, {"scores": _objects(columns)})


@command
def rank(
    model: ModelArgument,
    options: QueryOptions,
    answer: AnswerOutput,
    src: Annotated[list[str] | None, typer.Argument(metavar="[SRC]...", help="Ids of sources.")] = None,
    queries: Path | None = QUERIES,
    keep: str | None = KEEP,
    k: int = option("N", "Number of destinations of each source.", True, "-k", "--k", default=10),
) -> None:
    """Print the likeliest destinations of one or more sources, best first, with their scores.

    Sources are given on the command line, or in a file with the columns src and (optionally) time. For the meaning of a
    score see 'tapgnn score --help'.
    """
    if k < 1:
        raise QueryError(f"-k must be at least 1, not {k}")
    if bool(src) == (queries is not None):
        raise QueryError("pass either SRC, or --queries with a file")
    fitted, time = options.open(model, whole=queries is not None)
    asked = _queried(queries, {"src": src or []}, fitted, time, keep)
    best = fitted.rank(asked.ids["src"], asked.times, k)
    rows = [(row, place + 1, *found) for row, ranked in enumerate(best) for place, found in enumerate(ranked)]
    repeated = {name: [cells[row[0]] for row in rows] for name, cells in asked.shown.items()}
    places, names, scores = ([row[place] for row in rows] for place in (1, 2, 3))
    columns = _joined(repeated, {"rank": places, fitted.schema.dst: names, "score": scores})
    answer.give(columns, {"ranks": _objects(columns)})


@command
def classify(
    model: ModelArgument,
    events: Annotated[Path, argument("EVENTS", "A file of later events, read as in 'fit'.")],
    options: ModelOptions,
    answer: AnswerOutput,
    keep: str | None = option("A,B,...", "Columns of the file to repeat in the answer."),
) -> None:
    """Print the risk of each new event: the predicted probability of the label, such as fraud.

    One row for every row of the file, in its order: the id of the event, src, dst, time, the columns of --keep, risk.
    The prediction uses everything before the event, including earlier events of the file; cells may be
    missing, and a row that --skip-bad-rows skips has no risk. The model must be trained with 'fit --classify'; it is
    not changed.
    """
    import numpy as np
    import polars as pl

    from tapgnn.cli.events_argument import held_back
    from tapgnn.data import ReadReport, read_table

    fitted = options.model(model)
    if fitted.classifier_ is None:
        raise QueryError(f"{model} was not trained on labels; fit it again with --classify on a log with labels")
    report = ReadReport()
    with held_back():
        later, order, rows = read_table(events, report=report, **options.reading(fitted))
    if report.skipped:
        say(f"{report.skipped_rows()}; skipped rows have no risk")
    shown = _repeated(fitted, rows, listed(keep) or [], events.name, text=not report.typed)
    risk = np.full(len(rows), np.nan)
    risk[order] = fitted.classify(later)
    columns = _joined(shown, {"risk": pl.Series(risk, nan_to_null=True)})
    answer.give(columns, {"events": _objects(columns)})


def _repeated(model: TAPGNN, rows: pl.DataFrame, keep: Sequence[str], file: str, text: bool) -> dict[str, Any]:
    """The cells of a file that an answer repeats: the id of the event, both ends, the time, and what is to be kept."""
    from tapgnn.cli.query_input import typed_cells

    schema = model.schema
    named = [schema.id] if schema.id is not None and schema.id in rows.columns else []
    unknown = next((name for name in keep if name not in rows.columns), None)
    if unknown is not None:
        raise DataError(f"{file} has no column {unknown!r} to keep; its columns are {', '.join(rows.columns[:12])}")
    names = dict.fromkeys([*named, schema.src, schema.dst, schema.time, *keep])
    return {name: typed_cells(name, rows[name], model) if text else rows[name] for name in names}


def _queried(
    path: Path | None,
    given: Mapping[str, Sequence[str]],
    model: FittedQueries,
    time: float,
    keep: str | None,
    side: Side | None = None,
) -> QueryRows:
    """Queries from the command line or from a file; warns of unknown nodes."""
    from tapgnn.cli.query_input import given_queries, read_queries, warn_of_unknown

    if path is None:
        asked = given_queries(given, model, time, side)
    else:
        asked = read_queries(path, list(given), model, time, listed(keep) or [], side)
    warn_of_unknown(asked, model, side)
    return asked


def _joined(shown: Mapping[str, Sequence[Any]], answers: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """The columns of an answer; one that is repeated must not have the name of one that is answered."""
    for name in answers:
        if name in shown:
            raise QueryError(f"the answer already has a column {name!r}; rename that of the file, or do not keep it")
    return {**shown, **answers}


def _objects(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Each row as an object."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
