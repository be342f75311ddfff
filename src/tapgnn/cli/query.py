"""embed, score, rank and classify: queries to a fitted model, answered as CSV or as one JSON object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapgnn.cli.options import ModelArgument, Reading, command, option
from tapgnn.cli.output import Output, check_file, write_csv
from tapgnn.errors import QueryError
from tapgnn.threads import set_threads

if TYPE_CHECKING:
    from tapgnn.estimator import TAPGNN


@dataclass(frozen=True)
class ModelOptions:
    """The options of all four commands."""

    observe: Path | None = option(
        "EVENTS", "Observe these later events first, read as in 'fit'; the saved model is not changed."
    )
    threads: int = option("N", "Number of threads.", True, default=1)

    def model(self, folder: str, log: Path | None = None) -> TAPGNN:
        """The model after observing --observe; with its log it can answer queries about the past."""
        from tapgnn.estimator import TAPGNN

        set_threads(self.threads)
        model = TAPGNN.load(folder)
        if log is not None:
            model.remember(_events(model, folder, log))
        if self.observe is not None:
            model.observe(_events(model, folder, self.observe))
        return model


@dataclass(frozen=True)
class QueryOptions(ModelOptions):
    """The options of queries at one time."""

    time: str | None = option(
        "TIME",
        "Time of the query: a number in the unit of the log, or an ISO date. Only earlier events count.",
        "just after the last event",
    )

    def open(self, folder: str, log: Path | None = None) -> tuple[TAPGNN, float]:
        """The model, and the time of the query."""
        from tapgnn.cli.query_input import parse_time

        model = self.model(folder, log)
        return model, model.state_.clock + model.model_.config.unit if self.time is None else parse_time(self.time)


@dataclass(frozen=True)
class Answer(Output):
    """Answers as rows of CSV and as one JSON object."""

    out: Path | None = option("FILE", "Write the CSV to this file.", "standard output")

    def __post_init__(self) -> None:
        check_file(self.out)

    def give(self, header: Sequence[str], rows: Iterable[Sequence[Any]], found: Any) -> None:
        """Write the rows to the file, or to standard output unless that is for JSON."""
        if self.out is not None or not self.json:
            write_csv(header, rows, self.out)
        self.result(found)


QUERIES = option("FILE", "Read many queries from a file.")


def _events(model: TAPGNN, folder: str, path: Path) -> Any:
    """Events, read with the options of the fit."""
    from tapgnn.data import load_dataset
    from tapgnn.estimator import FILE
    from tapgnn.model.files import refusing

    with refusing(Path(folder) / FILE):
        reading = Reading.of(model.reading_ or {}).options()
    # The label of a new event may not be known yet.
    reading["label"] = ""
    return load_dataset(str(path), vocabulary=model.vocabulary, **reading)


@command
def embed(
    model: ModelArgument,
    options: QueryOptions,
    answer: Answer,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODES]...", help="Ids of nodes.")] = None,
    queries: Path | None = QUERIES,
    log: Path | None = option(
        "EVENTS", "The log that the model was fitted on, read as in 'fit'; needed for times before its end."
    ),
) -> None:
    """Print the embeddings of nodes at a time, one row each: node, time, z0, z1, ...

    The nodes are given on the command line, or in a file with the columns node and (optionally) time.
    """
    from tapgnn.cli.query_input import queried

    _one_of("NODES", bool(nodes), queries)
    fitted, time = options.open(model, log)
    wanted = queried(queries, ("node", "time"), [[node] for node in nodes or []], fitted, time)
    ids, times = [row[0] for row in wanted], [row[1] for row in wanted]
    vectors = fitted.embed(ids, times)
    header = ["node", "time", *(f"z{place}" for place in range(vectors.shape[1]))]
    rows = ([*row, *vector.tolist()] for row, vector in zip(wanted, vectors, strict=True))
    answer.give(header, rows, {"nodes": ids, "times": times, "embeddings": vectors})


@command
def score(
    model: ModelArgument,
    options: QueryOptions,
    answer: Answer,
    src: str | None = option("ID", "Id of the source."),
    dst: str | None = option("ID", "Id of the destination."),
    queries: Path | None = QUERIES,
) -> None:
    """Print link probabilities: how likely src interacts with dst rather than with a random destination.

    One pair is given on the command line, many in a file with the columns src, dst and (optionally) time. The answers
    are in the order of the queries.
    """
    from tapgnn.cli.query_input import queried

    pair = [name for name in (src, dst) if name is not None]
    _one_of("both --src and --dst", bool(pair), queries, whole=len(pair) != 1)
    fitted, time = options.open(model)
    wanted = queried(queries, ("src", "dst", "time"), [pair], fitted, time)
    left, right, times = ([row[place] for row in wanted] for place in range(3))
    probabilities = fitted.score(left, right, times).tolist()
    rows = [(*row, value) for row, value in zip(wanted, probabilities, strict=True)]
    header = ("src", "dst", "time", "probability")
    answer.give(header, rows, {"scores": _objects(header, rows)})


@command
def rank(
    model: ModelArgument,
    src: Annotated[str, typer.Argument(metavar="SRC", help="Id of the source.", show_default=False)],
    options: QueryOptions,
    answer: Answer,
    k: int = option("N", "Number of destinations.", True, "-k", "--k", default=10),
) -> None:
    """Print the most likely destinations of a source, best first."""
    from tapgnn.cli.query_input import queried

    if k < 1:
        raise QueryError(f"-k must be at least 1, not {k}")
    fitted, time = options.open(model)
    source, _ = queried(None, ("src", "time"), [[src]], fitted, time)[0]
    best = fitted.rank(source, time, k)
    found = {"src": source, "time": time, "destinations": _objects(("dst", "probability"), best)}
    rows = ((place + 1, *row) for place, row in enumerate(best))
    answer.give(("rank", "dst", "probability"), rows, found)


@command
def classify(
    model: ModelArgument,
    events: Annotated[
        Path, typer.Argument(metavar="EVENTS", help="A file of later events, read as in 'fit'.", show_default=False)
    ],
    options: ModelOptions,
    answer: Answer,
) -> None:
    """Print the predicted probability of the label, such as fraud, for each new event.

    One row per event, in order of time: src, dst, time, probability. The prediction uses everything before the event,
    including earlier events of the file. The model must be trained with 'fit --classify'; it is not changed.
    """
    fitted = options.model(model)
    if fitted.classifier_ is None:
        raise QueryError(f"{model} was not trained on labels; fit it again with --classify on a log with labels")
    later = _events(fitted, model, events)
    probabilities = fitted.classify(later).tolist()
    names = later.vocabulary.ids
    header = ("src", "dst", "time", "probability")
    ends = ([names[row] for row in column] for column in (later.src, later.dst))
    rows = [*zip(*ends, later.time.tolist(), probabilities, strict=True)]
    answer.give(header, rows, {"events": _objects(header, rows)})


def _objects(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """Each row as an object."""
    return [dict(zip(header, row, strict=True)) for row in rows]


def _one_of(what: str, given: bool, queries: Path | None, whole: bool = True) -> None:
    if given == (queries is not None) or not whole:
        raise QueryError(f"pass either {what}, or --queries with a file")
