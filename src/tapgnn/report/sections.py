"""The sections of the page; empty input omits its section, unusable input leaves a note."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.errors import QueryError
from tapgnn.evaluation import metrics
from tapgnn.events import Floats
from tapgnn.report import figures
from tapgnn.report.content import Report, as_float
from tapgnn.report.figures import Curve
from tapgnn.report.headline import seeds
from tapgnn.report.layout import Section
from tapgnn.report.numbers import UNKNOWN, count, decimal, label, percent, span
from tapgnn.report.tables import comparison, data, measure_table, negative_types, settings


def sections(report: Report) -> list[Section]:
    """The sections with content, in the order of the page."""
    parts = (classification, comparison, negative_types, ranking, steadiness, training, embedding_map, data, settings)
    return [section for part in parts if (section := part(report)) is not None]


def ranking(report: Report) -> Section | None:
    """ROC and precision-recall of the model and the baselines."""
    if not len(report.labels) or not len(report.scores):
        return None
    curves, notes = _curves(report)
    size = count(len(report.labels), f"{report.period} query")
    words = [f"One seed, {size}: how well the scores separate true events from false ones."]
    section = Section("ranking", "ROC and precision-recall", words, legend_head=["Method", "AUC", "AP"], notes=notes)
    _draw_discrimination(section, report.labels, curves)
    if section.figures:
        section.legend += [(curve, _areas(report.labels, curve.scores)) for curve in curves]
    return section


def steadiness(report: Report) -> Section | None:
    """AUC over the period, and calibration."""
    labels, scores, times = report.labels, report.scores, report.times
    if not len(labels) or not len(scores):
        return None
    section = Section("steadiness", "Accuracy over time and calibration")
    curves, _ = _curves(report)
    given = (labels, times, curves, report.period)
    if len(times) and curves and section.draw("AUC over time", figures.time_figure, *given):
        section.words.append("Whether the model stays accurate over time.")
        section.legend += [(curve, []) for curve in curves]
    if section.draw("Calibration", figures.calibration_figure, labels, scores, "score"):
        share = percent((np.asarray(labels) == 1).mean())
        section.words.append(
            "Whether scores are calibrated: a score is the chance that an event has this destination rather than a "
            f"random one. It refers to the {report.period} queries, of which {share} are true events."
        )
    return section


def training(report: Report) -> Section | None:
    """Loss and the metric of the validations over the epochs, every seed."""
    losses, found, speeds = (_runs(report.history, key) for key in ("loss", "validation", "events_per_s"))
    if not losses and not found:
        return None
    longest = max(as_float(row.get("epoch")) for row in report.history)
    size = count(len(report.history), "validation point")
    section = Section("training", "Training", [f"{count(seeds(report), 'seed')}, {size}, up to epoch {longest:g}."])
    if losses:
        epochs = {seed: _by_epoch(*run) for seed, run in losses.items()}
        section.figures.append(figures.history_figure("Training loss", epochs, "loss", best=False))
    if found:
        metric = label(report.history[0].get("metric", "metric"))
        section.figures.append(figures.history_figure(f"Validation {metric}", found, metric, best=True))
        best = span((max(values) for _, values in found.values()), 4)
        section.words.append(f"Best validation {metric} per seed: {best}. It chose the weights.")
    if speeds:
        # The last point of a seed is about its whole training.
        speed = np.median([values[-1] for _, values in speeds.values()])
        median = " (median of the seeds)" if len(speeds) > 1 else ""
        section.words.append(f"Training throughput: {speed:,.0f} events/s{median}.")
    return section


def embedding_map(report: Report) -> Section | None:
    """The embeddings in two dimensions, coloured by time, by role and by label."""
    rows, times = np.asarray(report.embeddings), np.asarray(report.embedding_times, dtype=np.float64)
    if not rows.size or not times.size:
        return None
    section = Section("map", "Embedding map")
    names, labels, roles = report.embedding_names, np.asarray(report.embedding_labels), report.embedding_roles
    if section.draw("The map", figures.map_figure, rows, times, names):
        if len(roles) == len(rows):
            section.draw("The map by role", figures.role_map_figure, rows, roles, names)
            # An event has its label once, at its source.
            labels = np.where(roles == 0, labels, -1) if len(labels) == len(rows) else labels
        if len(labels) == len(rows) and (labels == 1).any():
            section.draw("The map by label", figures.label_map_figure, rows, labels, names)
        section.words += [
            f"A sample of {count(min(len(rows), figures.MAP_POINTS), 'embedding')} z(v, t), one dot per node and time,"
            " projected by principal component analysis.",
            "Separated colours mean that embeddings change over time; mixed colours, that they are stable.",
        ]
    return section


def classification(report: Report) -> Section | None:
    """The event classification: alert budgets, ROC, precision-recall, calibration, and beside other methods."""
    if not report.classification:
        return None
    found = dict(report.classification)
    labels, scores, times = (np.asarray(found.pop(key, ())) for key in ("labels", "scores", "times"))
    words = [
        "Which events are positive (fraud, a ban, ...), predicted at the time of the event from the history of both "
        "nodes and of the pair, and from the event's own columns."
    ]
    section = Section("classification", "Event classification", words)
    section.tables += [
        measure_table(title, first, rows)
        for key, title, first in (
            ("methods", "Classifier and reference methods", "Method"),
            ("alerts", "Alert budgets", "Alerts on the riskiest"),
        )
        if (rows := found.pop(key, None))
    ]
    values = {key: as_float(value) for key, value in found.items()}
    stated = [f"{label(key)} {decimal(value, 4)}" for key, value in values.items() if math.isfinite(value)]
    if stated:
        words.append(", ".join(stated) + ".")
    if len(labels) and len(scores):
        _draw_discrimination(section, labels, [Curve("classifier", scores, 0)])
        if len(times):
            curves = [Curve("classifier", scores, 0)]
            section.draw("AUC over time", figures.time_figure, labels, times, curves, report.period)
        if np.all((scores >= 0) & (scores <= 1)):
            section.draw("Calibration", figures.calibration_figure, labels, scores, "risk")
        words.append(
            f"{count(int((labels == 1).sum()), 'positive')} among the last {count(len(labels), 'event')} of the log, "
            "whose labels were not used in training."
        )
    return section


def _curves(report: Report) -> tuple[list[Curve], list[str]]:
    """The curves of the methods, the model first, and a note for each method that cannot be drawn."""
    curves, notes = [], []
    for name, scores in {report.model: report.scores, **report.baseline_scores}.items():
        values = np.asarray(scores, dtype=np.float64)
        if values.shape != np.shape(report.labels):
            notes.append(f"{name} is not drawn: {len(values):,} scores for {count(len(report.labels), 'query')}.")
        elif np.isnan(values).any():
            notes.append(f"{name} is not drawn: {int(np.isnan(values).sum()):,} of its scores are NaN.")
        else:
            curves.append(Curve(name, values, report.tone(name)))
    return curves, notes


def _draw_discrimination(section: Section, labels: NDArray[Any], curves: list[Curve]) -> None:
    """The ROC and precision-recall figures of some methods."""
    if curves:
        section.draw("The ROC curve", figures.roc_figure, labels, curves)
        section.draw("Precision and recall", figures.precision_recall_figure, labels, curves)


def _areas(labels: NDArray[Any], scores: NDArray[Any]) -> list[str]:
    areas = []
    for area in (metrics.auc, metrics.average_precision):
        try:
            areas.append(decimal(area(labels, scores)))
        except QueryError:
            areas.append(UNKNOWN)
    return areas


def _by_epoch(epoch: Floats, value: Floats) -> Floats:
    """[2, n] the epochs and the mean of the points of each: those within one epoch are about other parts of the log."""
    whole = np.ceil(epoch - 1e-9)
    ends = np.unique(whole)
    return np.array([ends, [value[whole == end].mean() for end in ends]])


def _runs(history: list[dict[str, Any]], key: str) -> dict[Any, Floats]:
    """Seed -> epochs and values [2, n], in order, without incomplete points."""
    runs: dict[Any, list[tuple[float, float]]] = {}
    for row in history:
        point = (as_float(row.get("epoch")), as_float(row.get(key)))
        if all(map(math.isfinite, point)):
            runs.setdefault(row.get("seed", 0), []).append(point)
    return {seed: np.array(sorted(points)).T for seed, points in runs.items()}
