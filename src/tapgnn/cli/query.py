"""embed, score, rank and classify: questions to a fitted model, answered in CSV or as one JSON object."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapgnn.cli.config_file import ConfigFile
from tapgnn.cli.options import Json, ModelArgument, Reading, grouped
from tapgnn.cli.output import check_file, print_json, write_csv
from tapgnn.errors import ModelFileError, QueryError
from tapgnn.threads import set_threads

if TYPE_CHECKING:
    from tapgnn.estimator import TAPGNN


@dataclass(frozen=True)
class ModelOptions:
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

    def model(self, folder: str, log: Path | None = None) -> TAPGNN:
        """The model, having observed what there is to observe; with its log it can be asked about the past."""
        from tapgnn.estimator import TAPGNN

        check_file(self.out)
        set_threads(self.threads)
        model = TAPGNN.load(folder)
        if log is not None:
            model.remember(_events(model, folder, log))
        if self.observe is not None:
            model.observe(_events(model, folder, self.observe))
        return model


@dataclass(frozen=True)
class QueryOptions(ModelOptions):
    """What the questions about one moment take."""

    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="When: a number in the unit of the log, or an ISO date. Only what came before counts.",
            show_default="just after the last event",
        ),
    ] = None

    def open(self, folder: str, log: Path | None = None) -> tuple[TAPGNN, float]:
        """The model, and the time that is asked about."""
        from tapgnn.cli.query_input import parse_time

        model = self.model(folder, log)
        if self.time is not None:
            return model, parse_time(self.time)
        return model, model.state_.clock + model.model_.config.unit


Queries = Annotated[
    Path | None, typer.Option("--queries", metavar="FILE", help="Many questions at once.", show_default=False)
]


def _events(model: TAPGNN, folder: str, path: Path) -> Any:
    """Events read with the options that the model was fitted with."""
    from tapgnn.cli.train import FIT
    from tapgnn.data import load_dataset

    options = Reading().options()
    note = Path(folder) / FIT
    if note.is_file():
        try:
            options = Reading(**json_text.loads(note.read_text(encoding="utf-8"))["reading"]).options()
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ModelFileError(
                f"{note} is damaged: it does not say how the log was read; restore it, fit again, or remove it to read "
                "with the usual options"
            ) from None
    # What kind an event was may not be known yet.
    options["label"] = ""
    return load_dataset(str(path), vocabulary=model.vocabulary, **options)


@grouped
def embed(
    model: ModelArgument,
    asking: QueryOptions,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODES]...", help="Ids of nodes.")] = None,
    queries: Queries = None,
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="EVENTS",
            help="The log that the model was fitted on, read as in 'fit': it is replayed for times before its end.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    config: ConfigFile = None,
) -> None:
    """Print the embeddings of nodes at a time, one row each: node, time, z0, z1, ...

    The nodes stand on the command line, or in a file with columns node and (if they differ) time.
    """
    from tapgnn.cli.query_input import as_id, mention_unseen, read_queries

    _one_of("NODES", bool(nodes), queries)
    fitted, time = asking.open(model, log)
    if queries is not None:
        asked = read_queries(queries, ("node", "time"), fitted, time)
    else:
        asked = [(as_id(node, fitted.model_.vocabulary), time) for node in nodes or []]
    ids, times = [row[0] for row in asked], [row[1] for row in asked]
    mention_unseen(fitted, ids)
    vectors = fitted.embed(ids, times)
    header = ["node", "time", *(f"z{place}" for place in range(vectors.shape[1]))]
    rows = ([*row, *vector.tolist()] for row, vector in zip(asked, vectors, strict=True))
    _answer(header, rows, {"nodes": ids, "times": times, "embeddings": vectors}, asking.out, json)


@grouped
def score(
    model: ModelArgument,
    asking: QueryOptions,
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
    from tapgnn.cli.query_input import as_id, mention_unseen, read_queries

    pair = [name for name in (src, dst) if name is not None]
    _one_of("both --src and --dst", bool(pair), queries, whole=len(pair) != 1)
    fitted, time = asking.open(model)
    if queries is not None:
        asked = read_queries(queries, ("src", "dst", "time"), fitted, time)
    else:
        asked = [(*(as_id(name, fitted.model_.vocabulary) for name in pair), time)]
    left, right, times = ([row[place] for row in asked] for place in range(3))
    mention_unseen(fitted, [*left, *right])
    chances = fitted.score(left, right, times).tolist()
    rows = [(*row, chance) for row, chance in zip(asked, chances, strict=True)]
    header = ("src", "dst", "time", "probability")
    _answer(header, rows, {"scores": _objects(header, rows)}, asking.out, json)


@grouped
def rank(
    model: ModelArgument,
    src: Annotated[str, typer.Argument(metavar="SRC", help="Id of the source.", show_default=False)],
    asking: QueryOptions,
    k: Annotated[int, typer.Option("-k", "--k", metavar="N", help="How many.")] = 10,
    json: Json = False,
    config: ConfigFile = None,
) -> None:
    """Print the likeliest destinations of a source, best first."""
    from tapgnn.cli.query_input import as_id, mention_unseen

    if k < 1:
        raise QueryError(f"-k must be at least 1, not {k}")
    fitted, time = asking.open(model)
    source = as_id(src, fitted.model_.vocabulary)
    mention_unseen(fitted, [source])
    best = fitted.rank(source, time, k)
    found = {"src": source, "time": time, "destinations": _objects(("dst", "probability"), best)}
    rows = ((place + 1, *row) for place, row in enumerate(best))
    _answer(("rank", "dst", "probability"), rows, found, asking.out, json)


@grouped
def classify(
    model: ModelArgument,
    events: Annotated[
        Path, typer.Argument(metavar="EVENTS", help="A file of later events, read as in 'fit'.", show_default=False)
    ],
    opening: ModelOptions,
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
    later = _events(fitted, model, events)
    chances = fitted.classify(later).tolist()
    names = later.vocabulary.ids
    header = ("src", "dst", "time", "probability")
    ends = ([names[row] for row in column] for column in (later.src, later.dst))
    rows = [*zip(*ends, later.time.tolist(), chances, strict=True)]
    _answer(header, rows, {"events": _objects(header, rows)}, opening.out, json)


def _answer(header: Sequence[str], rows: Iterable[Sequence[Any]], found: Any, out: Path | None, as_json: bool) -> None:
    """Rows as CSV in a file or on standard output, the latter unless one JSON object is to stand there."""
    if out is not None or not as_json:
        write_csv(header, rows, out)
    if as_json:
        print_json(found)


def _objects(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """Each row as an object."""
    return [dict(zip(header, row, strict=True)) for row in rows]


def _one_of(what: str, given: bool, queries: Path | None, whole: bool = True) -> None:
    if given == (queries is not None) or not whole:
        raise QueryError(f"pass either {what}, or --queries with a file")
