"""Harness: every method, TAP-GNN included, under one protocol.

    evaluate(events, estimator)   TAP-GNN as configured and the trivial methods over several seeds, in this process, so
                                  that training progress can be shown; keeps what a report draws
    measured(make, name, ...)     one method in a process of its own, for `tapgnn.evaluation.comparison` and experiments

For every seed all methods get the same `Questions`, and `measure` treats them alike: the harness uses nothing but the
interface `Method`. The columns of a table come with `features` made of them for methods that take numbers only: scaled
numbers, and a column of zeros and ones for every category, both fitted to the training part; TAP-GNN encodes the
columns itself.

Ctrl-C keeps the completed seeds of `evaluate`; before the first there is nothing to keep, and the KeyboardInterrupt is
raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tapgnn.baselines import METHODS, TRIVIAL, WINDOWED, Method, make_baseline
from tapgnn.baselines.method import Details
from tapgnn.baselines.shared.subprocess_run import peak_mb
from tapgnn.data.datasets.tgb_negatives import BoardNegatives
from tapgnn.data.fitted_schema import FittedSchema
from tapgnn.data.node_table import NodeTable
from tapgnn.data.schema import Schema
from tapgnn.data.splits import Split
from tapgnn.errors import ConfigError
from tapgnn.estimator import TAPGNN
from tapgnn.evaluation.batches import Batches
from tapgnn.evaluation.protocols import Protocol, ProtocolName, find_protocol
from tapgnn.evaluation.questions import (
    NAME,
    Assessment,
    EmbeddingSample,
    Questions,
    Results,
    TrainedModel,
    measure,
    sample_embeddings,
)
from tapgnn.evaluation.ranking import Ranking
from tapgnn.evaluation.runner import versions
from tapgnn.events import Events, events_fingerprint
from tapgnn.html_display import table
from tapgnn.training.classification import Classification, labelled_parts, train_classifier
from tapgnn.training.classification_baselines import measure_baselines
from tapgnn.training.link_prediction import Listener, TrainingProgress

FORMS = {"pairs": Questions, "ranking": Ranking, "batches": Batches}
NAMES = (NAME, *METHODS, WINDOWED)
# Costs, and what is not a number to average. Everything else in a run is a metric, averaged with its deviation.
COSTS = ("train_seconds", "train_cpu_seconds", "query_ms", "memory_mb")
NOT_AVERAGED = ("seed", "sees_history", "details", "alternatives")
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
        """The epoch of the best weights, and the metric that chose them."""
        history = self.estimator.history_
        return {"kept_epoch": history.best_epoch, f"selection_{self.estimator.select}": history.best}


def given_to(rules: Protocol, split: Split, negatives: BoardNegatives | None, test: bool = True) -> dict[str, Any]:
    """What an assessment gets of the negatives of a board: those of its parts."""
    if negatives is None:
        return {}
    if rules.form != "ranking":
        raise ConfigError("only the protocol tgb takes negatives; leave them out, or take that protocol")
    return {"given": {part: negatives(part, getattr(split, part)) for part in ("valid", "test")[: 1 + test]}}


def make_method(name: str, seed: int, window: float = 1.0, **params: Any) -> Method:
    """A new method by its name; `window` is that of windowed EdgeBank, `params` are those of TAP-GNN."""
    return TAPGNNMethod(seed, **params) if name == NAME else make_baseline(name, seed, window)


def with_dense_features(split: Split, schema: Schema | None = None) -> Split:
    """The same split, whose events have features [E, f] made of their columns, fitted to the training part."""
    if not split.train.columns:
        return split
    encoder = FittedSchema.fit(split.train, schema).encoder
    parts = {name: getattr(split, name) for name in ("train", "valid", "test", "history")}
    # The history is often the training part itself.
    made = {id(part): replace(part, features=encoder.dense(part.columns)) for part in parts.values()}
    return replace(split, **{name: made[id(part)] for name, part in parts.items()})


@dataclass(frozen=True)
class Evaluation:
    """The output of `evaluate`.

    results    all metrics, as plain values
    history    one row per validation of every training
    first      the results of each method with the first seed
    sample     representations of some sources of the test events with that seed
    classified the classifier of event labels with that seed, where one was asked for
    """

    results: dict[str, Any]
    history: list[dict[str, Any]]
    first: dict[str, Results]
    sample: EmbeddingSample
    classified: Classification | None = None

    def _repr_html_(self) -> str:
        """The metrics of every method, for a notebook."""
        found = self.results
        names = [name for name in ("auc", "ap", "historical_auc", "mrr", "hits10") if f"{name}_mean" in found]
        methods = {"tapgnn": found, **found["baselines"]}
        rows = [[name, *(of.get(f"{each}_mean", "") for each in names)] for name, of in methods.items()]
        return table(f"protocol {found['protocol']}, seeds {found['seeds']}", ["method", *names], rows)


def measured(make: Maker, name: str, questions: Assessment) -> dict[str, Any]:
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
    negatives: BoardNegatives | None = None,
) -> Evaluation:
    """Train and test once per seed; mean and standard deviation of every metric, for the model and trivial methods.

    With a lag, the history of a query is stale by up to so many events (`tapgnn.baselines.lag`), in training as well.
    Without `test`, the test events are left alone; only protocols with results on the validation events allow it.
    `negatives` gives those of a part under the protocol tgb (`tgb_negatives`); by default they are all destinations.
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
    samples: list[EmbeddingSample] = []
    configs: list[dict[str, Any]] = []

    def run(name: str, questions: Assessment) -> dict[str, Any]:
        if name != NAME and name in first and not questions.drawn_by_seed:
            return first[name].metrics
        seed = questions.seed
        told = None if listener is None else partial(listener, seed)
        params = {**estimator.get_params(), "seed": seed, "lag": lag}
        model = TAPGNNMethod(**params, listener=told, schema=schema, nodes=nodes) if name == NAME else None
        found = measure(model or make_baseline(name, seed, questions.window), questions)
        first.setdefault(name, found)
        if model is None:
            return found.metrics
        configs.append(model.model.config.to_dict())
        if not samples:
            before, last = (split.history.append(split.valid), split.test) if test else (split.history, split.valid)
            model.forget()
            model.observe(before)
            samples.append(sample_embeddings(model.model, model.state, model.encoded(last)))
        history.extend({"seed": seed, **point} for point in model.estimator.history_.points)
        if classify:
            encoded = model.encoded(events)
            classified.append(train_classifier(model.model, encoded, seed, rules.labels_from, rules.split))
            if not references:
                measured = measure_baselines(model.model, encoded, seed, rules.split)
                references.update({name: asdict(reference) for name, reference in measured.items()})
        chosen_by = f"selection_{estimator.select}"
        return {**found.metrics, chosen_by: found.details[chosen_by]}

    split, names = rules.split(events), (NAME, *TRIVIAL)
    given = given_to(rules, split, negatives, test)
    assessments = partial(FORMS[rules.form], split, rules, lag=lag, test=test, **given)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    interrupted = False
    try:
        for seed in range(estimator.seed, estimator.seed + seeds):
            questions = assessments(seed=seed)
            for name in names:
                runs[name].append({"seed": seed, **run(name, questions)})
    except KeyboardInterrupt:
        interrupted = True
    complete = min(map(len, runs.values()))
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
        "settings": {**estimator.resolved(), "model": configs[0]},
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


def averages(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
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
