"""The headline: the accuracy of the model against the best baseline, in numbers and in words.

Where the log has labels, it is about the event classification, by average precision; otherwise about link prediction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tapgnn.errors import QueryError
from tapgnn.evaluation import metrics
from tapgnn.report.content import Report, is_share, mean_of, spread_of, standing, stems
from tapgnn.report.figures import Bar, Figure, bar_figure
from tapgnn.report.numbers import count, decimal, label, number

TRIVIAL = ("recency", "popularity", "edgebank", "pair-", "local-global")
Rows = dict[str, dict[str, float]]


def headline(report: Report) -> dict[str, Any] | None:
    """The measure, its value, the verdict ('ahead', 'level', 'behind', 'alone') in words; None without results."""
    model, table = leading(report)
    row, labelled = table.get(model, {}), bool(classified(report))
    order = sorted(stems(table), key=lambda stem: stem != "ap") if labelled else stems(table)
    stem = next((stem for stem in order if is_share(stem) and math.isfinite(mean_of(row, stem))), None)
    if stem is None:
        return None
    own, spread = mean_of(row, stem), spread_of(row, stem)
    rival, other = best_rival(model, table, stem)
    lead = own - other
    state, doubtful = standing(lead, spread, spread_of(table[rival], stem)) if rival else ("alone", False)
    digits = 4 if abs(lead) < 0.005 else 3
    names = table if labelled else [report.model, *report.rivals]
    values = {name: (mean_of(table[name], stem), spread_of(table[name], stem)) for name in names if name in table}
    return {
        "measure": f"{label(stem)}, event classification" if labelled else label(stem),
        "value": decimal(own, digits),
        "spread": f"± {decimal(spread, digits)}" if math.isfinite(spread) and spread > 0 else "",
        "state": state,
        "verdict": _verdict(state, rival, lead, digits, doubtful),
        "sentence": _of_labels(report) if labelled else _sentence(stem, own, rival, other, state),
        "figure": method_bars(model, values, label(stem)),
    }


def method_bars(model: str, values: Mapping[str, tuple[float, float]], measure: str) -> Figure | None:
    """A measure of the methods that have it, with its deviation; the best of the others is marked."""
    finite = {name: pair for name, pair in values.items() if math.isfinite(pair[0])}
    others = {name: value for name, (value, _) in finite.items() if name != model}
    rival = max(others, key=lambda name: others[name], default=None)
    colours = {rival: "best", model: "own"}
    bars = [
        Bar(name, value, float(np.nan_to_num(spread)), colours.get(name, "other"))
        for name, (value, spread) in finite.items()
    ]
    origin = 0.5 if measure == "AUC" else 0.0
    return bar_figure(bars, measure, origin, others[rival] if rival else None) if bars else None


def tiles(report: Report) -> list[tuple[str, str, str]]:
    """Other measures of the model and of the best baseline, and the size of the run: name, value, more."""
    model, table = leading(report)
    row, labelled = table.get(model, {}), bool(classified(report))
    shown = [stem for stem in stems(table) if is_share(stem)]
    found = []
    for stem in [stem for stem in shown if stem != "ap"] if labelled else shown[1:4]:
        if math.isfinite(mean_of(row, stem)):
            rival, other = best_rival(model, table, stem)
            found.append((label(stem), decimal(mean_of(row, stem)), f"{rival} {decimal(other)}" if rival else ""))
    if labelled:
        alerts = (report.classification or {}).get("alerts") or {}
        found += [
            (f"Precision, riskiest {budget}", decimal(mean_of(alert, "precision")), _recall(alert))
            for budget, alert in list(alerts.items())[-1:]
        ]
    elif len(report.labels):
        positives = int((np.asarray(report.labels) == 1).sum())
        found.append((label(f"{report.period}_queries"), number(len(report.labels)), f"{positives:,} positives"))
    if "events" in report.data:
        nodes = f"{number(report.data['nodes'])} nodes" if "nodes" in report.data else ""
        found.append(("Events in the log", number(report.data["events"]), nodes))
    return found


def leading(report: Report) -> tuple[str, Rows]:
    """The model and the table that the headline is about: the event classification if there is one, else the links."""
    methods = classified(report)
    return (next(iter(methods)), methods) if methods else (report.model, results(report))


def classified(report: Report) -> Rows:
    """The methods of the event classification, the classifier first."""
    return (report.classification or {}).get("methods") or {}


def results(report: Report) -> Rows:
    """The table of results; if it is empty, the AUC of the scores."""
    if report.metrics or not len(report.labels):
        return report.metrics
    table = {}
    for name, scores in {report.model: report.scores, **report.baseline_scores}.items():
        try:
            table[name] = {"auc": metrics.auc(report.labels, scores)}
        except QueryError:
            continue
    return table


def best_rival(model: str, table: Rows, stem: str) -> tuple[str, float]:
    """The best other method in a measure and its value; an empty name if there is none."""
    others = [(name, mean_of(row, stem)) for name, row in table.items() if name != model]
    finite = [(name, value) for name, value in others if math.isfinite(value)]
    return max(finite, key=lambda other: other[1], default=("", math.nan))


def seeds(report: Report) -> int:
    """The number of seeds in the history."""
    return len({row.get("seed") for row in report.history})


def _verdict(state: str, rival: str, lead: float, digits: int, spread: bool) -> str:
    if state == "alone":
        return "No baseline to compare with"
    gap = decimal(abs(lead), digits)
    cause = f": the difference of {gap} is within the standard deviation over seeds" if spread else ""
    place = {"ahead": f"{gap} above", "level": "On par with", "behind": f"{gap} below"}[state]
    kind = "trivial baseline" if rival.startswith(TRIVIAL) else "other method"
    return f"{place} the best {kind}, {rival}{cause if state == 'level' else ''}"


def _of_labels(report: Report) -> str:
    labels = np.asarray((report.classification or {}).get("labels", ()))
    if not len(labels):
        return ""
    positives = int((labels == 1).sum())
    return (
        f"{count(positives, 'positive')} among {count(len(labels), 'event')}: random scores have an average precision "
        f"(AP) of {decimal(positives / len(labels))}."
    )


def _recall(alert: dict[str, float]) -> str:
    return f"recall {decimal(mean_of(alert, 'recall'))}"


def _sentence(stem: str, own: float, rival: str, other: float, state: str) -> str:
    if stem != "auc":
        return ""
    words = f"Given a true event and a false one, the model ranks the true one higher in {100 * own:.1f} % of cases"
    if state == "alone":
        return words + "."
    words += f"; {rival} does in {100 * other:.1f} %."
    if state == "ahead" and other < 1:
        words += f" This is {100 * (own - other) / (1 - other):.0f} % fewer errors than {rival}."
    if state == "behind":
        words += f" On this log, {rival} is the better choice."
    return words
