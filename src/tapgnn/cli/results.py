"""What a model is worth, as numbers, as a table, and as report.html.

`evaluate` tests on events that played no part in training. `fit` keeps nothing back: its numbers come from the
validation events, which also chose the weights, and are called so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from tapgnn.cli.events_argument import Log
from tapgnn.data import describe
from tapgnn.data.splits import Split, split_strict, touches_unseen
from tapgnn.errors import EventError
from tapgnn.estimator import TAPGNN
from tapgnn.evaluation.harness import NAME, Evaluation, examine, versions
from tapgnn.events import Events, events_fingerprint
from tapgnn.report import Report, write_report
from tapgnn.report.headline import standing
from tapgnn.training.classification import Classification

LARGEST_EXAM = 50_000
COLUMNS = {"auc": "AUC", "ap": "AP", "mrr": "MRR", "hits10": "hits@10"}
KINDS = {
    "transductive_auc": "known nodes",
    "inductive_auc": "new nodes",
    "historical_auc": "historical",
    "inductive_negatives_auc": "inductive",
}
EXPLAINED = (
    "known nodes: both ends occur in training (transductive); new nodes: one does not (inductive); both against random "
    "false destinations. historical: false destinations that the source met in training; inductive: such as it meets "
    "only later"
)


def cut_for_validation(events: Events) -> tuple[Events, Events]:
    """The first 85 % of a log to learn from, and the rest to choose the weights on."""
    test = split_strict(events).test
    return events.slice(0, len(events) - len(test)), test


def check_labels(events: Events, simulated: bool = False) -> None:
    """Refuse, before a long training, a log whose labels cannot be learnt."""
    if events.labels is None:
        raise EventError("there is no label to learn; name its column with --label, or leave --classify out")
    parts = split_strict(events)
    longer = "simulate more events, or more fraud with --fraud 0.05" if simulated else "take a longer log"
    for part, name in ((parts.train, "first 70 %"), (parts.valid, "next 15 %"), (parts.test, "last 15 %")):
        if part.labels is not None and len(np.unique(part.labels > 0)) < 2:
            raise EventError(
                f"the {name} of the events have only one kind of label, and both are needed there to learn them; "
                f"{longer}, or leave --classify and --label out"
            )


def examine_fit(model: TAPGNN, train: Events, valid: Events) -> Evaluation:
    """The model, which has observed `train`, and the trivial methods on the validation events (a sample of many)."""
    nothing = valid.slice(0, 0)
    split = Split(train, nothing, valid, np.zeros(0, dtype=bool), touches_unseen(valid, train))
    seen = examine(model.model_, model.state_, split, "paper", model.seed, LARGEST_EXAM)
    found = Evaluation(dict(seen.marks), [{"seed": model.seed, **point} for point in model.history_.points])
    found.keep(seen, model, valid)
    return found


def summaries(results: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The rows of an evaluation by method, the model first."""
    own = {key: value for key, value in results.items() if key.endswith(("_mean", "_std"))}
    return {NAME: own, **results["baselines"]}


def result_table(rows: Mapping[str, Mapping[str, float]]) -> Table:
    """Methods and their figures side by side; the best of a column is bold."""
    return _table(rows, COLUMNS, None)


def kind_table(rows: Mapping[str, Mapping[str, float]]) -> Table | None:
    """AUC by kind of node and of false destination, where the protocol tells them apart."""
    return _table(rows, KINDS, EXPLAINED) if any(_figure(rows[NAME], stem) is not None for stem in KINDS) else None


def _table(rows: Mapping[str, Mapping[str, float]], columns: Mapping[str, str], caption: str | None) -> Table:
    shown = {stem: name for stem, name in columns.items() if _figure(rows[NAME], stem) is not None}
    best = {stem: max(_figure(row, stem) or 0.0 for row in rows.values()) for stem in shown}
    table = Table(caption=caption, caption_justify="left", box=None, pad_edge=False)
    table.add_column("method", no_wrap=True)
    for name in shown.values():
        table.add_column(name, justify="right", no_wrap=True)
    for method, row in rows.items():
        cells = []
        for stem in shown:
            value, spread = _figure(row, stem), row.get("auc_std", 0.0) if stem == "auc" else 0.0
            text = "" if value is None else f"{value:.4f}" + (f" ±{spread:.4f}" if spread else "")
            cells.append(f"[bold]{text}[/bold]" if value == best[stem] else text)
        table.add_row(method, *cells)
    return table


def verdict(rows: Mapping[str, Mapping[str, float]]) -> str:
    """The AUC of the model beside the best trivial method, in one sentence."""
    own = _figure(rows[NAME], "auc") or 0.0
    trivial = {name: _figure(row, "auc") or 0.0 for name, row in rows.items() if name != NAME}
    rival = max(trivial, key=lambda name: trivial[name])
    gap = own - trivial[rival]
    state, doubtful = standing(gap, *(row.get("auc_std", 0.0) for row in (rows[NAME], rows[rival])))
    if state == "level":
        cause = ": the difference is within the spread over seeds" if doubtful else ""
        return f"AUC {own:.4f}, level with the best trivial method, {rival} ({trivial[rival]:.4f}){cause}"
    word = "above" if gap > 0 else "below"
    end = "" if gap > 0 else ": here the model has learnt nothing that is not simpler to have"
    return f"AUC {own:.4f}, {abs(gap):.4f} {word} the best trivial method, {rival} ({trivial[rival]:.4f}){end}"


def _figure(row: Mapping[str, float], stem: str) -> float | None:
    return row.get(f"{stem}_mean", row.get(stem))


def report_evaluation(path: Path, log: Log, found: Evaluation) -> Path:
    """report.html of an evaluation."""
    results = found.results
    count = len(results["seeds"])
    subtitle = (
        f"Link prediction, protocol {results['protocol']}, tested on {results['test_events']:,} later events, "
        f"{count} seed{'s' * (count > 1)}{', stopped before the others' if results['interrupted'] else ''}"
    )
    kept = ("protocol", "seeds", "params", "versions", "data_sha256")
    settings = {key: results[key] for key in kept}
    return write_report(path, _report(log, found, subtitle, metrics=summaries(results), settings=settings))


def report_fit(path: Path, log: Log, model: TAPGNN, found: Evaluation, learnt: Classification | None) -> Path:
    """report.html of a fitted model."""
    marked = None
    if learnt is not None:
        marked = {"labels": learnt.labels, "scores": learnt.scores, "auc": learnt.test_auc, "ap": learnt.test_ap}
    subtitle = (
        "A fitted model on its validation events, the last 15 % of the log. They also chose the weights, so "
        "this flatters a little; 'tapgnn evaluate' tests on events that were kept apart"
    )
    settings = {"params": model.get_params(), "versions": versions(), "data_sha256": events_fingerprint(log.events)}
    report = _report(
        log,
        found,
        subtitle,
        period="validation",
        metrics=found.results,
        classification=marked,
        settings=settings,
    )
    return write_report(path, report)


def _report(log: Log, found: Evaluation, subtitle: str, **more: Any) -> Report:
    """What both reports show of a log and of what was found on it."""
    return Report(
        title=log.name,
        subtitle=subtitle,
        simulated=log.simulated,
        created=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        data=describe(log.events, was_sorted=log.report.sorted),
        history=found.history,
        labels=found.labels,
        scores=found.scores,
        times=found.times,
        baseline_scores=found.baseline_scores,
        embeddings=found.embeddings,
        embedding_times=found.embedding_times,
        **more,
    )
