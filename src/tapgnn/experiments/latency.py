"""latency: milliseconds to score and then absorb a batch of events, against TGAT (Section 4.4, the table of times).

Every run is one process with one thread, and measures all methods in turns, so that a slow moment hits them alike; a
time is the median of its rounds. The weights are next to untrained: time does not depend on them. Everyone first
observes the log up to its validation events (with size-S: the share S of that), then takes the events after them.

tgat     2 layers, 20 latest neighbours, numba sampler, every (node, time) computed once, d = 128
paper    the preset `paper` with the attention kernel, d = 128, as many layers: what the paper compares TGAT with
tapgnn   the default
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tapgnn.baselines import Method
from tapgnn.baselines.sampled.tgat import TGAT
from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.data.splits import split_strict
from tapgnn.evaluation.harness import with_dense_features
from tapgnn.evaluation.questions import TrainedModel
from tapgnn.evaluation.runner import Run
from tapgnn.events import Events
from tapgnn.experiments.experiment import Experiment, FinishedRun
from tapgnn.experiments.figures import Panel, ResultFigure
from tapgnn.experiments.link_training import read_log
from tapgnn.experiments.printed import PRINTED_LATENCY
from tapgnn.experiments.tables import ResultTable, Value
from tapgnn.model import Config, Model

WIDTH, BATCH, LAYERS, ROUNDS, QUICK_ROUNDS = 128, 200, 2, 15, 3
METHODS = ("tgat", "paper", "tapgnn")
# The runs: what is varied, and its values.
VARIED: dict[str, tuple[float, ...]] = {
    "batch": (100, 200, 300, 400, 500),
    "layers": (1, 2, 3),
    "size": (0.125, 0.25, 0.5, 1.0),
}
TITLES = {"batch": "batch size", "layers": "layers", "size": "events observed before"}


def take_turns(jobs: Mapping[str, Callable[..., Any]], work: Iterable[Any], turn: int = 1) -> dict[str, float]:
    """Median seconds of each job over the pieces of work, `turn` of them in a row; the first fifth does not count."""
    spent: dict[str, list[float]] = {name: [] for name in jobs}
    pieces = list(work)
    for start in range(0, len(pieces), turn):
        for name, job in jobs.items():
            for piece in pieces[start : start + turn]:
                begin = time.perf_counter()
                job(*piece)
                spent[name].append(time.perf_counter() - begin)
    return {name: float(np.median(seconds[len(seconds) // 5 :])) for name, seconds in spent.items()}


def live_model(preset: str, log: Events, **changes: Any) -> TrainedModel:
    """A model that has observed the log."""
    model = Model(Config.preset(preset, **changes).fitted_to(log), log.vocabulary).eval()
    live = TrainedModel(model, model.empty_state())
    live.forget()
    live.observe(log)
    return live


def score_and_absorb(method: Method, events: Events) -> None:
    """Score the events of a batch from what is known before it, then absorb them."""
    method.score(events.src, events.dst, np.full(len(events), events.time[0]))
    method.observe(events)


@torch.no_grad()
def perform(run: Run) -> dict[str, Any]:
    """Milliseconds a batch of each method, all in turns."""
    varied, value = run.method.split("-")
    batch = int(value) if varied == "batch" else BATCH
    layers = int(value) if varied == "layers" else LAYERS
    rounds = QUICK_ROUNDS if run.quick else ROUNDS
    split = with_dense_features(split_strict(read_log(run)))
    log = split.train.append(split.valid)
    before = log.slice(0, int(len(log) * float(value))) if varied == "size" else log
    later, encoded = map(FittedSchema.fit(log).encode, (split.test, before))
    torch.manual_seed(run.seed)
    paper = live_model("paper", encoded, kernel="attention", width=WIDTH, layers=layers)
    default = live_model("adaptive", encoded, layers=layers)
    tgat = TGAT(seed=run.seed, layers=layers, neighbours=20, width=WIDTH, epochs=1)
    with torch.enable_grad():
        tgat.fit(before.slice(0, 400), before.slice(400, 600))
    tgat.observe(before.slice(400, len(before)))
    jobs = {
        "tgat": lambda plain, own: score_and_absorb(tgat, plain),
        "paper": lambda plain, own: score_and_absorb(paper, own),
        "tapgnn": lambda plain, own: score_and_absorb(default, own),
    }
    pieces = zip(split.test.chunks(batch), later.chunks(batch), strict=True)
    seconds = take_turns(jobs, itertools.islice(pieces, rounds))
    found = {name: 1e3 * seconds[name] for name in METHODS}
    return {**found, "events": len(before), "batch": batch, "layers": layers, "threads": torch.get_num_threads()}


def settings(run: Run) -> dict[str, Any]:
    """How it is measured."""
    return {"width": WIDTH, "batch": BATCH, "layers": LAYERS, "rounds": QUICK_ROUNDS if run.quick else ROUNDS}


def tables(finished: Sequence[FinishedRun]) -> list[ResultTable]:
    """Milliseconds a batch, and how many times faster than TGAT, a table for each thing that is varied."""
    note = f"One process, one thread. Where it is not varied: batches of {BATCH} events, {LAYERS} layers. "
    note += "In brackets what the paper prints, on a Quadro P6000."
    return [_table(finished, varied, note) for varied in VARIED]


def _table(finished: Sequence[FinishedRun], varied: str, note: str) -> ResultTable:
    """A row for each method and each ratio, a column for each value."""
    runs = {
        value: [each.found for each in finished if each.run.method == f"{varied}-{value:g}"] for value in VARIED[varied]
    }
    # A size is a number of events, where it is known.
    heads = [f"{found[0]['events']:,}" if varied == "size" and found else f"{value:g}" for value, found in runs.items()]
    rows = []
    for name in METHODS:
        printed = PRINTED_LATENCY.get(varied, {}).get(name, {})
        cells = [Value.of([each[name] for each in found], printed.get(value), ",.2f") for value, found in runs.items()]
        rows.append((f"{name}, ms", tuple(cells)))
    for name in METHODS[1:]:
        ratios = [Value.of([each["tgat"] / each[name] for each in found], form=",.1f") for found in runs.values()]
        rows.append((f"tgat over {name}", tuple(ratios)))
    title = f"Time of a batch on Wikipedia, by {TITLES[varied]}"
    return ResultTable(f"latency-{varied}", title, (TITLES[varied], *heads), rows, note=note)


def figures(finished: Sequence[FinishedRun]) -> list[ResultFigure]:
    """A panel for each thing that is varied, a line for each method."""
    panels = []
    for varied, table in zip(VARIED, tables(finished), strict=True):
        rows = dict(table.rows)
        lines = {name: [cell for cell in rows[f"{name}, ms"] if isinstance(cell, Value)] for name in METHODS}
        panels.append(Panel(f"by {TITLES[varied]}", table.header[1:], lines, TITLES[varied], "ms a batch", log_y=True))
    return [ResultFigure("latency", panels)]


EXPERIMENT = Experiment(
    name="latency",
    title="Time of a batch against TGAT",
    datasets=("wikipedia",),
    methods=tuple(f"{varied}-{value:g}" for varied, values in VARIED.items() for value in values),
    perform=perform,
    tables=tables,
    settings=settings,
    figures=figures,
    seeds=1,
    timed=True,
)
