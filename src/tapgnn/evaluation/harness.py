"""Harness: every method, TAP-GNN included, under one protocol and over several seeds.

    compare(events, methods)      any methods, each run in a process of its own, with the same number of threads
    evaluate(events, estimator)   TAP-GNN as configured and the trivial methods, in this process, so that training
                                  progress can be shown; keeps what a report draws

For every seed all methods get the same `Questions`, and `measure` treats them alike: the harness uses nothing but the
interface `Method`. docs/comparison.md says how each method uses the validation events. The columns of a table come with
`features` made of them for methods that take numbers only: scaled numbers, and a column of zeros and ones for every
category, both fitted to the training part; TAP-GNN encodes the columns itself.

In `compare` the training time of a first run includes the compilation of loops. `memory_mb` is the peak resident size
of the process (ru_maxrss) minus its peak just before the fit, when library and data are loaded. A run that fails, or
whose process dies, is a run with `error`, and the others continue. Ctrl-C keeps the finished runs (in `evaluate` the
completed seeds); before the first there is nothing to keep, and the KeyboardInterrupt is raised.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray

from tapgnn.baselines import METHODS, Method
from tapgnn.baselines.method import Details
from tapgnn.baselines.shared.subprocess_run import peak_mb, run_in_subprocess
from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.data.node_table import NodeTable
from tapgnn.data.schema import Schema
from tapgnn.data.splits import Split
from tapgnn.errors import ConfigError
from tapgnn.estimator import TAPGNN
from tapgnn.evaluation.batches import Batches
from tapgnn.evaluation.protocols import ProtocolName, find_protocol
from tapgnn.evaluation.questions import (
    NAME,
    TRIVIAL,
    WINDOWED,
    Assessment,
    Questions,
    Results,
    TrainedModel,
    make_baseline,
    measure,
    sample_embeddings,
)
from tapgnn.evaluation.ranking import Ranking
from tapgnn.events import Events, Floats, events_fingerprint
from tapgnn.training.classification import Classification, labelled_parts, train_classifier
from tapgnn.training.classification_baselines import measure_baselines
from tapgnn.training.link_prediction import Listener, TrainingProgress

FORMS = {"pairs": Questions, "ranking": Ranking, "batches": Batches}
NAMES = (NAME, *METHODS, WINDOWED)
# Costs, and what is not a number to average. Everything else in a run is a metric, averaged with its deviation.
COSTS = ("train_seconds", "train_cpu_seconds", "query_ms", "memory_mb")
NOT_AVERAGED = ("seed", "sees_history", "details", "alternatives")

Run = dict[str, Any]
Maker = Callable[[str, int], Method]
SeedListener = Callable[[int, TrainingProgress], None]


class TAPGNNMethod(TrainedModel):
    """TAP-GNN as a `Method`; `params` are those of the estimator, the schema explains the columns of the events."""

    def __init__(
        self,
        seed: int = 0,
        listener: Listener | None = None,
        schema: Schema | None = None,
        nodes: NodeTable | None = None,
        **params: Any,
    ) -> None:
        self.estimator = TAPGNN(seed=seed, **params)
        self.listener, self.schema, self.nodes = listener, schema, nodes

    def fit(self, train: Events, valid: Events) -> None:
        """Train, and observe the training events; an interrupted training is discarded."""
        self.estimator.fit(train, valid, schema=self.schema, nodes=self.nodes, listener=self.listener)
        if self.estimator.history_.interrupted:
            raise KeyboardInterrupt
        self.model, self.state, self.table = self.estimator.model_, self.estimator.state_, self.estimator.table_
        super().fit(train, valid)

    def details(self) -> Details:
        """The epoch of the best weights, and their validation AUC."""
        history = self.estimator.history_
        return {"kept_epoch": history.best_epoch, "valid_auc": history.best_auc}


class SampledTAPGNN(TAPGNNMethod):
    """Also gives a sample of its embeddings along events after the training."""

    def fit(self, train: Events, valid: Events) -> None:
        """Train, and keep a copy of the state at the end of the training events."""
        super().fit(train, valid)
        self.trained = self.state.copy()

    def sample(self, before: Events, events: Events) -> tuple[NDArray[np.float32], Floats]:
        """z [n, d] of sources of these events and its times [n]; `before` lies between them and the training."""
        state = self.trained.copy()
        with torch.no_grad():
            for piece in self.encoded(before).chunks(4_096):
                _, state = self.model.advance(piece, state)
        return sample_embeddings(self.model, state, self.encoded(events))


def make_method(name: str, seed: int, window: float = 1.0, schema: Schema | None = None, lag: int = 0) -> Method:
    """A new method by its name, TAP-GNN included; `window` is that of windowed EdgeBank."""
    return TAPGNNMethod(seed, schema=schema, lag=lag) if name == NAME else make_baseline(name, seed, window)


def with_dense_features(split: Split, schema: Schema | None = None) -> Split:
    """The same split, whose events have features [E, f] made of their columns, fitted to the training part."""
    if not split.train.columns:
        return split
    encoder = FittedSchema.fit(split.train, schema).encoder
    parts = {name: getattr(split, name) for name in ("train", "valid", "test")}
    return replace(split, **{name: replace(part, features=encoder.dense(part.columns)) for name, part in parts.items()})


@dataclass(frozen=True)
class RunProgress:
    """The run of a method with a seed starts (`run` is None), or has finished."""

    method: str
    seed: int
    place: int
    total: int
    run: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Evaluation:
    """The output of `evaluate`.

    results    all metrics, as plain values
    history    one row per validation of every training
    first      the results of each method with the first seed
    sample     z [n, d] of some sources of the test events with that seed, each just before its time [n]
    classified the classifier of event labels with that seed, where one was asked for
    """

    results: dict[str, Any]
    history: list[dict[str, Any]]
    first: dict[str, Results]
    sample: tuple[NDArray[np.float32], Floats]
    classified: Classification | None = None


def compare(
    events: Events,
    methods: Sequence[str] = ("all",),
    protocol: ProtocolName = "strict",
    seeds: int = 5,
    threads: int = 1,
    listener: Callable[[RunProgress], None] | None = None,
    make: Maker | None = None,
    schema: Schema | None = None,
    lag: int = 0,
) -> dict[str, Any]:
    """Run every method under one protocol; metrics and costs by method, with protocol, seeds, versions and data.

    With a lag, the history of a query is stale by up to so many events (`tapgnn.evaluation.lag`).

    New processes import the calling script, which must keep its own work under `if __name__ == "__main__"`. `make`
    builds your own methods from name and seed, and must be importable.
    """
    names = chosen_methods(methods) if make is None else methods
    rules = find_protocol(protocol).for_any_method()
    if seeds < 1 or threads < 1:
        raise ConfigError(f"seeds and threads must be at least 1, not {seeds} and {threads}")

    def run(name: str, questions: Assessment) -> Run:
        build = make or partial(make_method, window=questions.window, schema=schema, lag=lag)
        return run_in_subprocess(measured, build, name, questions, threads=threads, preload=__name__)

    split = with_dense_features(rules.split(events), schema)
    assessments = partial(FORMS[rules.form], split, rules, lag=lag)
    runs, interrupted = _run_all(assessments, names, range(seeds), run, listener)
    return {
        "methods": {name: summary(found) for name, found in runs.items()},
        "protocol": protocol,
        "lag": lag,
        "seeds": sorted({run["seed"] for found in runs.values() for run in found}),
        "interrupted": interrupted,
        "versions": {**versions(), "threads": str(threads)},
        "data": {
            "sha256": events_fingerprint(events),
            "events": len(events),
            "nodes": len(events.vocabulary),
            **{f"{part}_events": len(getattr(split, part)) for part in ("train", "valid", "test")},
        },
    }


def measured(make: Maker, name: str, questions: Assessment) -> Run:
    """The work of a subprocess: build the method, measure it, and add its memory."""
    method = make(name, questions.seed)
    before = peak_mb()
    found = measure(method, questions).plain()
    return {**found, "memory_mb": peak_mb() - before, "sees_history": method.sees_history}


def evaluate(
    events: Events,
    estimator: TAPGNN,
    protocol: ProtocolName = "strict",
    seeds: int = 5,
    listener: SeedListener | None = None,
    schema: Schema | None = None,
    nodes: NodeTable | None = None,
    lag: int = 0,
    test: bool = True,
    classify: bool = False,
) -> Evaluation:
    """Train and test once per seed; mean and standard deviation of every metric, for the model and trivial methods.

    With a lag, the history of a query is stale by up to so many events (`tapgnn.evaluation.lag`), in training as well.
    Without `test`, the test events are left alone; only protocols with results on the validation events allow it.
    With `classify` each model also gets a classifier of event labels on the same parts, which learns from facts of the
    events, or under the paper's protocol from representations; simple rules and boosted trees stand beside the first.
    """
    rules = find_protocol(protocol)
    if seeds < 1:
        raise ConfigError(f"seeds must be at least 1, not {seeds}")
    if classify:
        labelled_parts(events, rules.split)  # refuses, before a long training, a log that no classifier can learn from
    first: dict[str, Results] = {}
    history: list[dict[str, Any]] = []
    classified: list[Classification] = []
    references: dict[str, dict[str, float]] = {}
    samples: list[tuple[NDArray[np.float32], Floats]] = []

    def run(name: str, questions: Assessment) -> Run:
        seed = questions.seed
        told = None if listener is None else partial(listener, seed)
        params = {**estimator.get_params(), "seed": seed, "lag": lag}
        model = SampledTAPGNN(**params, listener=told, schema=schema, nodes=nodes) if name == NAME else None
        found = measure(model or make_baseline(name, seed, questions.window), questions)
        first.setdefault(name, found)
        if model is None:
            return found.metrics
        if not samples:
            before, last = (split.valid, split.test) if test else (split.valid.slice(0, 0), split.valid)
            samples.append(model.sample(before, last))
        history.extend({"seed": seed, **point} for point in model.estimator.history_.points)
        if classify:
            encoded = model.encoded(events)
            classified.append(train_classifier(model.model, encoded, seed, rules.labels_from, rules.split))
            if not references:
                measured = measure_baselines(model.model, encoded, seed, rules.split)
                references.update({name: asdict(reference) for name, reference in measured.items()})
        return {**found.metrics, "valid_auc": found.details["valid_auc"]}

    split, names = rules.split(events), (NAME, *TRIVIAL)
    assessments = partial(FORMS[rules.form], split, rules, lag=lag, test=test)
    runs, interrupted = _run_all(assessments, names, range(estimator.seed, estimator.seed + seeds), run)
    complete = min(len(runs.get(name, [])) for name in names)
    if not complete:
        raise KeyboardInterrupt
    rows = {name: averages(runs[name][:complete]) for name in names}
    own = runs[NAME][:complete]
    done = [run["seed"] for run in own]
    results = {
        "protocol": protocol,
        "lag": lag,
        "seeds": done,
        "interrupted": interrupted,
        **rows.pop(NAME),
        "baselines": rows,
        "runs": own,
        "classification": _classification(classified[:complete], done, references) if classify else None,
        "train_events": len(split.train),
        "valid_events": len(split.valid),
        "test_events": len(split.test) if test else 0,
        "params": estimator.get_params(),
        "versions": versions(),
        "data_sha256": events_fingerprint(events),
    }
    kept = [point for point in history if point["seed"] in done]
    return Evaluation(results, kept, first, samples[0], classified[0] if classify else None)


def _classification(
    found: Sequence[Classification], seeds: Sequence[int], references: Mapping[str, Any]
) -> dict[str, Any]:
    """The classifiers of all seeds, and what they are compared with, as plain values."""
    runs = [{"seed": seed, **each.metrics()} for seed, each in zip(seeds, found, strict=True)]
    first = found[0]
    return {"protocol": first.protocol, **averages(runs), **first.counts, "baselines": dict(references), "runs": runs}


def _run_all(
    assessments: Callable[..., Assessment],
    names: Sequence[str],
    seeds: range,
    run: Callable[[str, Assessment], Run],
    listener: Callable[[RunProgress], None] | None = None,
) -> tuple[dict[str, list[Run]], bool]:
    """The runs of every method, seed by seed, and whether Ctrl-C interrupted them; `run` performs one."""
    tell = listener or (lambda progress: None)
    runs: dict[str, list[Run]] = {}
    place, total = 0, len(seeds) * len(names)
    try:
        for seed in seeds:
            questions = assessments(seed=seed)
            for name in names:
                place += 1
                tell(RunProgress(name, seed, place, total))
                finished = {"seed": seed, **run(name, questions)}
                runs.setdefault(name, []).append(finished)
                tell(RunProgress(name, seed, place, total, finished))
    except KeyboardInterrupt:
        if not runs:
            raise
        return runs, True
    return runs, False


def chosen_methods(names: Sequence[str]) -> list[str]:
    """The names in order without duplicates; 'all' stands for every method, and an unknown name is an error."""
    chosen = list(dict.fromkeys(NAMES if "all" in names else names))
    unknown = [name for name in chosen if name not in NAMES]
    if unknown or not chosen:
        what = f"there is no method {unknown[0]!r}" if unknown else "no method was given"
        raise ConfigError(f"{what}; the methods are {', '.join(NAMES)}, or all")
    return chosen


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """The row of a method from its runs, one per seed: averages of those that finished, how many failed, and the runs.

    `error` is the message of the first failed run; `alternatives` have averages of their own.
    """
    errors = [run["error"] for run in runs if "error" in run]
    finished = [run for run in runs if "error" not in run]
    row: dict[str, Any] = {}
    if finished:
        row = {**averages(finished), "sees_history": bool(finished[0]["sees_history"])}
        if names := finished[0].get("alternatives"):
            row["alternatives"] = {name: averages([run["alternatives"][name] for run in finished]) for name in names}
    if errors:
        row["error"] = errors[0]
    return {**row, "failed": len(errors), "runs": list(runs)}


def averages(runs: Sequence[Run]) -> dict[str, float]:
    """Mean and standard deviation of every metric (0 for a single run), mean of every cost, maximum of the memory."""
    row: dict[str, float] = {}
    for name in runs[0]:
        if name in NOT_AVERAGED:
            continue
        values = np.array([run[name] for run in runs if name in run], dtype=np.float64)
        if name in COSTS:
            row[name] = float(values.max() if name == "memory_mb" else values.mean())
        else:
            row[f"{name}_mean"] = float(values.mean())
            row[f"{name}_std"] = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return row


def versions() -> dict[str, str]:
    """The versions of the libraries, and the number of threads."""
    from tapgnn import __version__

    libraries = {library.__name__: str(library.__version__) for library in (torch, np, numba)}
    threads = str(torch.get_num_threads())
    return {"tapgnn": __version__, **libraries, "python": platform.python_version(), "threads": threads}
