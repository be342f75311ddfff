"""Results of fit and evaluate: metrics, tables, and report.html.

`evaluate` tests on events that took no part in training. `fit` holds nothing out: its results come from the validation
events, on which the weights were selected, and are labelled as validation results.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from tapgnn.cli.events_argument import Log
from tapgnn.data import describe
from tapgnn.data.splits import split_strict
from tapgnn.estimator import TAPGNN
from tapgnn.evaluation.harness import Evaluation
from tapgnn.evaluation.metrics import sigmoid
from tapgnn.evaluation.protocols import find_protocol
from tapgnn.evaluation.questions import NAME, measure_trained, sample_embeddings
from tapgnn.events import Events
from tapgnn.report import Report, write_report
from tapgnn.report.content import is_share, mean_of, spread_of, standing
from tapgnn.training.classification import BUDGETS, Classification

MOST_EVENTS = 50_000
# The results that a report shows as the settings of the run.
SETTINGS = ("protocol", "lag", "seeds", "settings", "versions", "data_sha256")
Rows = Mapping[str, Mapping[str, Any]]
Columns = Mapping[str, tuple[str, str]]
COLUMNS = {
    "auc": ("AUC", ".4f"),
    "ap": ("AP", ".4f"),
    "mrr": ("MRR", ".4f"),
    "hits10": ("hits@10", ".4f"),
    "valid_mrr": ("validation MRR", ".4f"),
    "valid_hits10": ("validation hits@10", ".4f"),
}
BY_TYPE = {
    "transductive_auc": ("seen nodes", ".4f"),
    "inductive_auc": ("unseen nodes", ".4f"),
    "historical_auc": ("historical", ".4f"),
    "inductive_negatives_auc": ("inductive", ".4f"),
}
# Shown with their standard deviation.
SPREAD = ("auc", "mrr", "valid_mrr")
# The tests of the protocol of DyGLib: the events, and the negatives.
BY_TEST = {
    "transductive_random": "random",
    "transductive_historical": "historical",
    "transductive_inductive": "inductive",
    "inductive_random": "unseen: random",
    "inductive_historical": "unseen: hist.",
}
TESTS = "random, historical, inductive: all events by the type of negatives; unseen: events with an unseen node alone"
EXPLAINED = (
    "seen nodes: both nodes occur in training (transductive); unseen nodes: at least one does not (inductive); both "
    "with random negatives. historical: destinations of the source in training; inductive: those that occur only later"
)


def cut_for_validation(events: Events) -> tuple[Events, Events]:
    """The first 85 % of a log for training, and the rest for selecting the weights."""
    test = split_strict(events).test
    return events.slice(0, len(events) - len(test)), test


def measure_fit(model: TAPGNN, train: Events, valid: Events) -> Evaluation:
    """The model, which has observed `train`, and the trivial methods on a sample of the validation events."""
    train, valid = model.table_.encode(train), model.table_.encode(valid)
    found = measure_trained(model.model_, model.state_, train, valid, "paper", model.seed, MOST_EVENTS)
    metrics = {name: results.metrics for name, results in found.items()}
    history = [{"seed": model.seed, **point} for point in model.history_.points]
    return Evaluation(metrics, history, found, sample_embeddings(model.model_, model.state_, valid))


def summaries(results: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The rows of an evaluation by method, the model first."""
    own = {key: value for key, value in results.items() if key.endswith(("_mean", "_std"))}
    return {NAME: own, **results["baselines"]}


def result_tables(title: str, rows: Rows) -> dict[str, Table]:
    """The tables of an evaluation by title: all events, and AUC by negative type if the protocol has several."""
    tables = {title: method_table(rows, COLUMNS), "AUC by negative type": method_table(rows, BY_TYPE, EXPLAINED)}
    for metric in ("AP", "AUC"):
        for prefix, part in (("", "test"), ("valid_", "validation")):
            columns = {f"{prefix}{test}_{metric.lower()}": (words, ".4f") for test, words in BY_TEST.items()}
            tables[f"{title}: {metric} by negative type, {part} events"] = method_table(rows, columns, TESTS)
    return {name: table for name, table in tables.items() if len(table.columns) > 1}


def method_table(
    rows: Rows, columns: Columns, caption: str | None = None, notes: tuple[str, Mapping[str, str]] | None = None
) -> Table:
    """One row per method, with the best value of each metric in bold.

    `columns` maps a metric or cost to its title and format; those that no method has are left out. `notes` is a last
    column: its title, and its text by method.
    """
    shown = {key: how for key, how in columns.items() if any(math.isfinite(mean_of(row, key)) for row in rows.values())}
    best = {key: np.nanmax([mean_of(row, key) for row in rows.values()]) for key in shown if is_share(key)}
    padding = (0, 1) if notes is None else (0, 1, 0, 0)
    table = Table(caption=caption, caption_justify="left", box=None, pad_edge=False, padding=padding)
    table.add_column("method", no_wrap=True)
    for title, _ in shown.values():
        table.add_column(title, justify="right", no_wrap=notes is None)
    if notes is not None:
        table.add_column(notes[0], min_width=7)
    for method, row in rows.items():
        cells = []
        for key, (_, form) in shown.items():
            value, spread = mean_of(row, key), spread_of(row, key) if key in SPREAD else 0.0
            text = f"{value:{form}}" + (f" ±{spread:.4f}" if spread > 0 else "") if math.isfinite(value) else ""
            cells.append(f"[bold]{text}[/bold]" if value == best.get(key) else text)
        table.add_row(method, *cells, *([] if notes is None else [notes[1][method]]))
    return table


def classifier_rows(found: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """AUC and AP of a classifier, and of what it is compared with."""
    own = {name[5:]: value for name, value in found.items() if name.startswith(("test_auc", "test_ap"))}
    others = {name: {"auc": row["test_auc"], "ap": row["test_ap"]} for name, row in found["baselines"].items()}
    return {"classifier": own, **others}


def alert_rows(found: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Precision and recall of a classifier at each alert budget."""
    measures = ("precision", "recall")
    return {f"{budget:.1%}": {name: mean_of(found, f"{name}_{budget:g}") for name in measures} for budget in BUDGETS}


def classifier_verdict(found: Mapping[str, Any]) -> str:
    """What a classifier is worth at each alert budget, in one sentence."""
    alerts = [
        f"{budget}: precision {row['precision']:.3f}, recall {row['recall']:.3f}"
        for budget, row in alert_rows(found).items()
    ]
    share, error = found["test_positives"] / found["test_events"], mean_of(found, "calibration_error")
    return (
        f"classifier: alerts on the riskiest {'; '.join(alerts)}; calibration error {error:.4f} (random scores have "
        f"AUC 0.5 and AP {share:.4f})"
    )


def verdict(rows: Rows, metric: str = "auc") -> str:
    """A metric of the model against the best trivial method, in one sentence."""
    own = mean_of(rows[NAME], metric)
    trivial = {name: mean_of(row, metric) for name, row in rows.items() if name != NAME}
    rival = max(trivial, key=lambda name: trivial[name])
    gap = own - trivial[rival]
    state, doubtful = standing(gap, *(spread_of(row, metric) for row in (rows[NAME], rows[rival])))
    found = f"{titled(metric)} {own:.4f}"
    if state == "level":
        cause = ": the difference is within the standard deviation over seeds" if doubtful else ""
        return f"{found}, level with the best trivial method, {rival} ({trivial[rival]:.4f}){cause}"
    word = "above" if gap > 0 else "below"
    end = "" if gap > 0 else ": on this log the trivial method is the better choice"
    return f"{found}, {abs(gap):.4f} {word} the best trivial method, {rival} ({trivial[rival]:.4f}){end}"


def main_metric(results: Mapping[str, Any]) -> str:
    """The metric that methods are compared by: of the test events, if there are any."""
    main = find_protocol(results["protocol"]).main
    return main if results["test_events"] else f"valid_{main}"


def titled(metric: str) -> str:
    """A metric in a sentence.

    >>> titled("auc"), titled("valid_mrr"), titled("transductive_random_ap")
    ('AUC', 'validation MRR', 'transductive random AP')
    """
    words = metric.replace("valid_", "validation_").split("_")
    return " ".join(word.upper() if word in ("auc", "ap", "mrr") else word for word in words)


def described(results: Mapping[str, Any]) -> str:
    """The protocol of some results, with its lag and the number of events."""
    part = "test" if results["test_events"] else "validation"
    size = results["test_events"] or results["valid_events"]
    lag = f", lag {results['lag']}" if results["lag"] else ""
    return f"protocol {results['protocol']}{lag}, {size:,} {part} events"


def report_evaluation(path: Path, log: Log, found: Evaluation, rows: Rows) -> None:
    """report.html of an evaluation."""
    results = found.results
    count = len(results["seeds"])
    subtitle = (
        f"Link prediction, {described(results)}, "
        f"{count} seed{'s' * (count > 1)}{' (interrupted before the others)' if results['interrupted'] else ''}"
    )
    period = "test" if results["test_events"] else "validation"
    labelled = _classification(results["classification"], found.classified)
    _report(path, log, found, results, subtitle=subtitle, metrics=rows, period=period, classification=labelled)


def report_fit(
    path: Path, log: Log, found: Evaluation, results: Mapping[str, Any], classified: Classification | None
) -> None:
    """report.html of a fitted model."""
    subtitle = (
        "Results on the validation events, the last 15 % of the log. The weights were selected on them, so the results "
        "are slightly optimistic; 'tapgnn evaluate' tests on held-out events"
    )
    labelled = _classification(results["classification"], classified)
    more = {"subtitle": subtitle, "period": "validation", "metrics": found.results, "classification": labelled}
    _report(path, log, found, results, **more)


def _classification(found: Mapping[str, Any] | None, first: Classification | None) -> dict[str, Any] | None:
    """The part of a report that tells of a classifier: results of all seeds, and what is drawn of the first."""
    if found is None or first is None:
        return None
    figures = {"log_loss": "test_log_loss", "log_loss_of_the_base_rate": "base_log_loss"}
    return {
        "labels": first.labels,
        "scores": first.scores,
        "times": first.times,
        **{name: mean_of(found, key) for name, key in figures.items()},
        "calibration_error": mean_of(found, "calibration_error"),
        "methods": classifier_rows(found),
        "alerts": {f"{budget} of events": row for budget, row in alert_rows(found).items()},
    }


def _report(path: Path, log: Log, found: Evaluation, results: Mapping[str, Any], **more: Any) -> None:
    """Write the report, with what those of fit and evaluate have in common."""
    own = found.first[NAME]
    report = Report(
        title=log.name,
        simulated=log.simulated,
        created=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        data=describe(log.events, was_sorted=log.report.sorted, unit=log.unit),
        history=found.history,
        labels=own.labels,
        scores=sigmoid(own.scores),
        times=own.times,
        baseline_scores={name: given.scores for name, given in found.first.items() if name != NAME},
        embeddings=found.sample.z,
        embedding_times=found.sample.times,
        embedding_names=found.sample.names,
        embedding_labels=found.sample.labels,
        embedding_roles=found.sample.roles,
        settings={key: results[key] for key in SETTINGS if key in results},
        **more,
    )
    write_report(path, report)
