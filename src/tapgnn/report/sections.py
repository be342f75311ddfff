"""The sections of the page; empty input omits its section, unusable input leaves a note."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.errors import QueryError
from tapgnn.evaluation import metrics
from tapgnn.events import Floats
from tapgnn.report import figures
from tapgnn.report.content import Report, as_float
from tapgnn.report.figures import Curve, Figure
from tapgnn.report.headline import seeds
from tapgnn.report.layout import Section
from tapgnn.report.numbers import UNKNOWN, count, decimal, label, percent, span
from tapgnn.report.tables import comparison, data, negative_types, settings


def sections(report: Report) -> list[Section]:
    """The sections with content, in the order of the page."""
    parts = (comparison, negative_types, ranking, steadiness, training, embedding_map, classification, data, settings)
    return [section for part in parts if (section := part(report)) is not None]


def ranking(report: Report) -> Section | None:
    """ROC and precision-recall of the model and the baselines."""
    if not len(report.labels) or not len(report.scores):
        return None
    curves, notes = _curves(report)
    drawn = _discrimination(notes, report.labels, curves)
    size = count(len(report.labels), f"{report.period} query")
    words = [f"One seed, {size}: how well the scores separate true events from false ones."]
    legend = [(curve, _areas(report.labels, curve.scores)) for curve in curves] if drawn else []
    head = ["Method", "AUC", "AP"]
    title = "ROC and precision-recall"
    return Section("ranking", title, words, legend_head=head, legend=legend, figures=drawn, notes=notes)


def steadiness(report: Report) -> Section | None:
    """AUC over the period, and calibration."""
    if not len(report.labels) or not len(report.scores):
        return None
    curves, _ = _curves(report)
    notes: list[str] = []
    drawn: list[Figure] = []
    if len(report.times) and curves:
        what = "AUC over time"
        drawn = _drawn(notes, what, lambda: figures.time_figure(report.labels, report.times, curves, report.period))
    legend: list[tuple[Curve, list[str]]] = [(curve, []) for curve in curves] if drawn else []
    probable = _drawn(notes, "Calibration", lambda: figures.calibration_figure(report.labels, report.scores))
    share = percent((np.asarray(report.labels) == 1).mean())
    words = ["Whether the model stays accurate over time."] if drawn else []
    if probable:
        words.append(
            f"Whether its probabilities are reliable. They refer to the {report.period} queries, of which {share} are "
            "true events; in production true events are rarer."
        )
    return Section(
        "steadiness", "Accuracy over time and calibration", words, legend=legend, figures=drawn + probable, notes=notes
    )


def training(report: Report) -> Section | None:
    """Loss and validation AUC over the epochs, every seed."""
    drawn = []
    for title, key, best in (("Training loss", "loss", False), ("Validation AUC", "valid_auc", True)):
        runs = _runs(report.history, key)
        if runs:
            drawn.append(figures.history_figure(title, runs, "AUC" if best else "loss", best))
    if not drawn:
        return None
    longest = max((as_float(row.get("epoch")) for row in report.history), default=math.nan)
    words = [
        f"{count(seeds(report), 'seed')}, {count(len(report.history), 'validation point')}, up to epoch {longest:g}."
    ]
    # The last point of a seed is about its whole training.
    speed = [float(values[-1]) for _, values in _runs(report.history, "events_per_s").values()]
    tops = [float(np.max(values)) for _, values in _runs(report.history, "valid_auc").values()]
    if tops:
        words.append(f"Best validation AUC per seed: {span(tops, 4)}.")
    if speed:
        median = " (median of the seeds)" if len(speed) > 1 else ""
        words.append(f"Training throughput: {np.median(speed):,.0f} events/s{median}.")
    return Section("training", "Training", words, figures=drawn)


def embedding_map(report: Report) -> Section | None:
    """The embeddings in two dimensions, coloured by time."""
    rows, times = np.asarray(report.embeddings), np.asarray(report.embedding_times, dtype=np.float64)
    if not rows.size or not times.size:
        return None
    notes: list[str] = []
    drawn = _drawn(notes, "The map", lambda: figures.map_figure(rows, times))
    words = [
        f"A sample of {count(min(len(rows), figures.MAP_POINTS), 'embedding')} z(v, t), one dot per node and time,"
        " projected by principal component analysis.",
        "Separated colours mean that embeddings change over time; mixed colours, that they are stable.",
    ]
    return Section("map", "Embedding map", words if drawn else [], figures=drawn, notes=notes)


def classification(report: Report) -> Section | None:
    """ROC and precision-recall of the event classification."""
    found = report.classification
    if not found:
        return None
    labels, scores = (np.asarray(found.get(key, ())) for key in ("labels", "scores"))
    values = {key: as_float(value) for key, value in found.items() if key not in ("labels", "scores")}
    words = [
        "Which events are positive (fraud, a ban, ...), predicted from the embeddings of both nodes and the features."
    ]
    stated = [f"{label(key)} {decimal(value, 4)}" for key, value in values.items() if math.isfinite(value)]
    if stated:
        words.append(", ".join(stated) + ".")
    notes: list[str] = []
    drawn: list[Figure] = []
    if len(labels) and len(scores):
        drawn = _discrimination(notes, labels, [Curve("classifier", scores, 0)])
        words.append(
            f"{count(int((labels == 1).sum()), 'positive')} among the last {count(len(labels), 'event')} of the log, "
            "whose labels were not used in training."
        )
    return Section("classification", "Event classification", words, figures=drawn, notes=notes)


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


def _discrimination(notes: list[str], labels: NDArray[Any], curves: list[Curve]) -> list[Figure]:
    """The ROC and precision-recall figures of some methods."""
    if not curves:
        return []
    drawn = _drawn(notes, "The ROC curve", lambda: figures.roc_figure(labels, curves))
    return drawn + _drawn(notes, "Precision and recall", lambda: figures.precision_recall_figure(labels, curves))


def _areas(labels: NDArray[Any], scores: NDArray[Any]) -> list[str]:
    areas = []
    for area in (metrics.auc, metrics.average_precision):
        try:
            areas.append(decimal(area(labels, scores)))
        except QueryError:
            areas.append(UNKNOWN)
    return areas


def _runs(history: list[dict[str, Any]], key: str) -> dict[Any, tuple[Floats, Floats]]:
    """Seed -> epochs and values, in order, without incomplete points."""
    runs: dict[Any, list[tuple[float, float]]] = {}
    for row in history:
        point = (as_float(row.get("epoch")), as_float(row.get(key)))
        if all(map(math.isfinite, point)):
            runs.setdefault(row.get("seed", 0), []).append(point)
    return {seed: (np.array(sorted(points))[:, 0], np.array(sorted(points))[:, 1]) for seed, points in runs.items()}


def _drawn(notes: list[str], what: str, draw: Callable[[], Figure]) -> list[Figure]:
    """The figure, or a note on why there is none."""
    try:
        return [draw()]
    except QueryError as problem:
        notes.append(f"{what} is not shown: {problem}.")
        return []
