"""embed, score, rank and classify: questions to a fitted model, answered in CSV or as one JSON object."""

from __future__ import annotations

import json as json_text
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapgnn.cli.config import ConfigFile
from tapgnn.cli.options import Json, ModelArgument, Reading, grouped, set_threads
from tapgnn.cli.output import print_json, write_csv
from tapgnn.errors import QueryError

if TYPE_CHECKING:
    from tapgnn.estimator import TAPGNN


@dataclass(frozen=True)
class Opening:
    """What all four commands take."""

    observe: Annotated[
        Path | None,
        typer.Option(
            metavar="EVENTS",
            help="First observe these later events, read as in 'fit'; the saved model is not changed.",
            show_default=False,
        ),
    ] = None
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the CSV there.", show_default="standard output")
    ] = None
    threads: Annotated[int, typer.Option(metavar="N", help="Threads of torch.")] = 1

    def model(self, folder: str) -> TAPGNN:
        """The model, having observed what there is to observe."""
        from tapgnn.estimator import TAPGNN

        set_threads(self.threads)
        model = TAPGNN.load(folder)
        if self.observe is not None:
            model.observe(_later_events(model, folder, self.observe))
        return model


@dataclass(frozen=True)
class Asking(Opening):
    """What the questions about one moment take."""

    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="When: a number in the unit of the log, or an ISO date. Only what came before counts.",
            show_default="just after the last event",
        ),
    ] = None

    def open(self, folder: str) -> tuple[TAPGNN, float]:
        """The model, and the time that is asked about."""
        from tapgnn.cli.queries import parse_time

        model = self.model(folder)
        if self.time is not None:
            return model, parse_time(self.time)
        return model, model.state_.clock + model.model_.config.unit


Queries = Annotated[
    Path | None, typer.Option("--queries", metavar="FILE", help="Many questions at once.", show_default=False)
]


def _later_events(model: TAPGNN, folder: str, path: Path) -> Any:
    """Events read with the options that the model was fitted with."""
    from tapgnn.cli.learn import FIT
    from tapgnn.data import read_events

    options = Reading().options()
    note = Path(folder) / FIT
    if note.is_file():
        options = Reading(**json_text.loads(note.read_text(encoding="utf-8"))["reading"]).options()
    # What kind an event was may not be known yet.
    options["label"] = ""
    return read_events(path, vocabulary=model.model_.vocabulary, **options)


@grouped
def embed(
    model: ModelArgument,
    asking: Asking,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODES]...", help="Ids of nodes.")] = None,
    queries: Queries = None,
    json: Json = False,
    config: ConfigFile = None,
) -> None:
    """Print the embeddings of nodes at a time, one row each: node, time, z0, z1, ...

    The nodes stand on the command line, or in a file with columns node and (if they differ) time.
    """
    from tapgnn.cli.queries import as_id, mention_strangers, read_queries

    _one_of("NODES", bool(nodes), queries)
    fitted, time = asking.open(model)
    if queries is not None:
        asked = read_queries(queries, ("node", "time"), fitted, time)
    else:
        asked = [(as_id(node, fitted.model_.vocabulary), time) for node in nodes or []]
    ids, times = [row[0] for row in asked], [row[1] for row in asked]
    mention_strangers(fitted, ids)
    vectors = fitted.embed(ids, times)
    if json:
        print_json({"nodes": ids, "times": times, "embeddings": vectors})
        return
    header = ["node", "time", *(f"z{place}" for place in range(vectors.shape[1]))]
    write_csv(header, ([*row, *vector.tolist()] for row, vector in zip(asked, vectors, strict=True)), asking.out)


@grouped
def score(
    model: ModelArgument,
    asking: Asking,
    src: Annotated[str | None, typer.Option(metavar="ID", help="Who acts.", show_default=False)] = None,
    dst: Annotated[str | None, typer.Option(metavar="ID", help="On whom or what.", show_default=False)] = None,
    queries: Queries = None,
    json: Json = False,
    config: ConfigFile = None,
) -> None:
    """Print how likely links are: the probability that src meets dst rather than someone at random.

    One pair stands on the command line, many in a file with columns src, dst and (if they differ) time. The
    answers come in the order of the questions.
    """
    from tapgnn.cli.queries import as_id, mention_strangers, read_queries

    pair = [name for name in (src, dst) if name is not None]
    _one_of("both --src and --dst", len(pair) == 2, queries)
    fitted, time = asking.open(model)
    if queries is not None:
        asked = read_queries(queries, ("src", "dst", "time"), fitted, time)
    else:
        asked = [(*(as_id(name, fitted.model_.vocabulary) for name in pair), time)]
    left, right, times = ([row[place] for row in asked] for place in range(3))
    mention_strangers(fitted, [*left, *right])
    chances = fitted.score(left, right, times).tolist()
    rows = [(*row, chance) for row, chance in zip(asked, chances, strict=True)]
    _answer(("src", "dst", "time", "probability"), rows, "scores", asking.out, json)


@grouped
def rank(
    model: ModelArgument,
    src: Annotated[str, typer.Argument(metavar="SRC", help="Id of the source.", show_default=False)],
    asking: Asking,
    k: Annotated[int, typer.Option("-k", "--k", metavar="N", help="How many.")] = 10,
    json: Json = False,
    config: ConfigFile = None,
) -> None:
    """Print the likeliest destinations of a source, best first."""
    from tapgnn.cli.queries import as_id, mention_strangers

    if k < 1:
        raise QueryError(f"-k must be at least 1, not {k}")
    fitted, time = asking.open(model)
    source = as_id(src, fitted.model_.vocabulary)
    mention_strangers(fitted, [source])
    best = fitted.rank(source, time, k)
    if json:
        found = [{"dst": name, "probability": chance} for name, chance in best]
        print_json({"src": source, "time": time, "destinations": found})
        return
    write_csv(("rank", "dst", "probability"), ((place + 1, *row) for place, row in enumerate(best)), asking.out)


@grouped
def classify(
    model: ModelArgument,
    events: Annotated[
        Path, typer.Argument(metavar="EVENTS", help="A file of later events, read as in 'fit'.", show_default=False)
    ],
    opening: Opening,
    json: Json = False,
    config: ConfigFile = None,
) -> None:
    """Print how likely each of these new events has the label that 'fit --classify' learnt, such as fraud.

    One row an event, in order of time: src, dst, time, probability. Each is judged by what came before it, the earlier
    ones of the file included. The saved model is not changed.
    """
    fitted = opening.model(model)
    if fitted.classifier_ is None:
        raise QueryError(f"{model} has learnt no labels; fit it again with --classify on a log that has them")
    later = _later_events(fitted, model, events)
    chances = fitted.classify(later).tolist()
    names = later.vocabulary.ids
    header = ("src", "dst", "time", "probability")
    ends = ([names[row] for row in column] for column in (later.src, later.dst))
    _answer(header, [*zip(*ends, later.time.tolist(), chances, strict=True)], "events", opening.out, json)


def _answer(header: tuple[str, ...], rows: list[tuple[Any, ...]], name: str, out: Path | None, as_json: bool) -> None:
    """Rows as CSV, or as one JSON object that lists them under a name."""
    if as_json:
        print_json({name: [dict(zip(header, row, strict=True)) for row in rows]})
    else:
        write_csv(header, rows, out)


def _one_of(what: str, given: bool, queries: Path | None) -> None:
    if given == (queries is not None):
        raise QueryError(f"pass either {what}, or --queries with a file")
