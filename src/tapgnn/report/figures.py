"""The charts of the page, each a drawing with a title and a caption."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from tapgnn.errors import QueryError
from tapgnn.evaluation import metrics
from tapgnn.events import Floats
from tapgnn.report.axes import WIDTH, Axis, Plot, frame, linear_axis, mark, text, time_axis, unit_axis
from tapgnn.report.curves import components, precision_recall, roc, thin
from tapgnn.report.numbers import count, decimal, is_unix, moment, percent, span

MAP_WIDTH, MAP_HEIGHT = 760.0, 460.0
MAP_POINTS, MAP_COLOURS = 4000, 10
STEADY_BIN = 20
_BAR_ROW, _BAR_WIDTH = 39.0, WIDTH - 64
_OfScores = Callable[[NDArray[Any], NDArray[Any]], Any]


@dataclass(frozen=True)
class Figure:
    """A title, a drawing and a caption; a `wide` one takes two columns, `ramp` are the times of its colour scale."""

    title: str
    drawing: Markup
    caption: str
    wide: bool = False
    ramp: Sequence[str] = ()


@dataclass(frozen=True)
class Curve:
    """The scores [Q] of one method and its colour."""

    name: str
    scores: NDArray[Any]
    tone: int


@dataclass(frozen=True)
class Bar:
    """One method: its value, its standard deviation over seeds (0 if unknown), its classes."""

    name: str
    value: float
    spread: float
    style: str


def roc_figure(labels: NDArray[Any], curves: Sequence[Curve]) -> Figure:
    """True against false positive rate, one line per method."""
    plot = Plot(unit_axis("false positive rate"), unit_axis("true positive rate"))
    plot.line([0, 1], [0, 1], "chance", "chance: AUC 0.5")
    words = _draw_curves(plot, labels, curves, roc, metrics.auc, "AUC")
    caption = "Closer to the top left is better; the dotted diagonal is chance level."
    return Figure("ROC", plot.svg(f"ROC curves. {words}"), caption)


def precision_recall_figure(labels: NDArray[Any], curves: Sequence[Curve]) -> Figure:
    """Precision against recall, one line per method."""
    plot = Plot(unit_axis("recall"), unit_axis("precision"))
    share = float((np.asarray(labels) == 1).mean())
    plot.line([0, 1], [share, share], "chance", f"chance: precision {percent(share)}")
    words = _draw_curves(plot, labels, curves, precision_recall, metrics.average_precision, "AP")
    caption = f"Closer to the top right is better; the dotted line is chance level, {percent(share)} positives."
    return Figure("Precision and recall", plot.svg(f"Precision-recall curves. {words}"), caption)


def _draw_curves(
    plot: Plot, labels: NDArray[Any], curves: Sequence[Curve], points: _OfScores, area: _OfScores, measure: str
) -> str:
    """One line per method, the model last, on top; returns the areas in words."""
    areas = {curve.name: f"{measure} {decimal(area(labels, curve.scores))}" for curve in curves}
    for curve in reversed(curves):
        plot.line(*thin(*points(labels, curve.scores)), f"tone-{curve.tone}", f"{curve.name}: {areas[curve.name]}")
    return ", ".join(f"{name} {words}" for name, words in areas.items()) + "."


def time_figure(labels: NDArray[Any], times: NDArray[Any], curves: Sequence[Curve], period: str) -> Figure:
    """AUC in consecutive parts of the period."""
    if not np.isfinite(times).all():
        raise QueryError("some query times are not finite")
    unix = is_unix(times)
    lines = [metrics.auc_along_time(labels, curve.scores, times) for curve in curves]
    if not np.isfinite(lines[0].auc).any():
        raise QueryError("no part of the period has both positives and negatives")
    plot = Plot(
        time_axis(np.concatenate([lines[0].start, lines[0].stop]), unix),
        linear_axis(np.concatenate([line.auc for line in lines]), "AUC", ceiling=1.0),
    )
    for curve, line in reversed(list(zip(curves, lines, strict=True))):
        middle = (line.start + line.stop) / 2
        tips = [
            f"{curve.name}: AUC {decimal(area)}, {count(int(size), 'query')}, {moment(a, unix)} to {moment(b, unix)}"
            for a, b, area, size in zip(line.start, line.stop, line.auc, line.count, strict=True)
        ]
        plot.line(middle, line.auc, f"tone-{curve.tone}")
        plot.dots(middle, line.auc, f"tone-{curve.tone}", tips, 3.5 if curve.tone == 0 else 2.5)
    words = f"AUC over the {period} period. {curves[0].name} {span(lines[0].auc[np.isfinite(lines[0].auc)])}."
    size = count(int(np.median(lines[0].count)), "query")
    caption = f"{len(lines[0].auc)} consecutive parts of about {size} each; a falling line is a model that ages."
    return Figure(f"AUC over the {period} period", plot.svg(words), caption)


def calibration_figure(labels: NDArray[Any], probabilities: NDArray[Any]) -> Figure:
    """Observed against predicted probability."""
    bins = metrics.calibration(labels, probabilities)
    plot = Plot(unit_axis("predicted probability"), unit_axis("observed share of positives"))
    share = bins.count / bins.count.sum()
    edges = [f"{a:.1f} to {b:.1f}" for a, b in zip(bins.edges[:-1], bins.edges[1:], strict=True)]
    held = [f"{edge}: {count(int(size), 'query')}" for edge, size in zip(edges, bins.count, strict=True)]
    plot.columns(bins.edges, 0.3 * share / share.max(), "mass", held)
    plot.line([0, 1], [0, 1], "chance", "perfect calibration")
    # The share of a few queries is mostly noise: such bins keep their dot, but the line skips them.
    steady = bins.count >= STEADY_BIN
    plot.line(bins.predicted[steady], bins.observed[steady], "tone-0")
    rows = zip(held, bins.predicted, bins.observed, strict=True)
    tips = [f"{where}; predicted {decimal(p)}, observed {decimal(o)}" for where, p, o in rows]
    plot.dots(bins.predicted, bins.observed, "tone-0", tips, 3 + 4 * np.sqrt(share))
    words = f"Calibration. Expected calibration error {decimal(bins.error)}."
    caption = (
        "On the dotted diagonal, predicted and observed probability agree. "
        f"Expected calibration error {decimal(bins.error)}. "
        f"Grey: number of queries; the line connects bins with at least {STEADY_BIN}."
    )
    return Figure("Calibration", plot.svg(words), caption)


def history_figure(title: str, runs: Mapping[Any, Floats], label: str, best: bool) -> Figure:
    """A quantity over the epochs, one line per seed; `best` marks the highest point of each."""
    epochs, values = np.concatenate(list(runs.values()), axis=1)
    scale = linear_axis(values, label, ceiling=1.0 if best else np.inf)
    plot = Plot(linear_axis(np.append(epochs, 0.0), "epoch", ticks=6, tight=True), scale)
    for seed, (epoch, value) in runs.items():
        plot.line(epoch, value, "tone-0 seed", f"seed {seed}")
    if best:
        for seed, (epoch, value) in runs.items():
            top = int(np.argmax(value))
            tip = f"seed {seed}: best {label} {decimal(value[top], 4)} at epoch {epoch[top]:g}"
            plot.dots([epoch[top]], [value[top]], "tone-0", [tip])
    note = "The dot marks the best point, whose weights are kept." if best else "Lower is better."
    last = span(value.max() if best else value[-1] for _, value in runs.values())
    words = f"{title}, {count(len(runs), 'seed')}, {'best' if best else 'last'} value {last}."
    return Figure(title, plot.svg(words), f"One line per seed. {note}")


def bar_figure(bars: Sequence[Bar], label: str, origin: float, rival: float | None) -> Figure:
    """One bar per method from chance level, with the standard deviation over seeds and a line at the best baseline."""
    axis = _bar_axis([bar.value for bar in bars], origin, label)
    bottom = _BAR_ROW * len(bars) + 6

    def across(value: float) -> float:
        return 4 + _BAR_WIDTH * float(axis.share(value))

    parts = []
    for tick, name in axis.ticks:
        x = across(tick)
        parts.append(mark('<path class="rule" d="M{} 4V{}"/>', x, bottom))
        parts.append(text(x, bottom + 17, name, "tick middle" if x > 12 else "tick"))
    # The names above the bars, and the values to their right, come last, so that no line crosses them.
    names = []
    box = '<rect class="bar {}" x="{}" y="{}" width="{}" height="13" rx="2"><title>{}</title></rect>'
    for row, bar in enumerate(bars):
        y = _BAR_ROW * row
        start, stop = sorted([across(origin), across(bar.value)])
        tip = f"{bar.name}: {label} {decimal(bar.value, 4)}"
        parts.append(mark(box, bar.style, start, y + 24, max(stop - start, 1), tip))
        if bar.spread > 0:
            low, high = across(bar.value - bar.spread), across(bar.value + bar.spread)
            parts.append(mark('<path class="whisker" d="M{} {}H{}"/>', low, y + 30.5, high))
        name = bar.name if len(bar.name) <= 44 else f"{bar.name[:43]}…"
        names.append(text(4, y + 19, name, f"bar-name {bar.style}"))
        names.append(text(WIDTH - 2, y + 35, decimal(bar.value), f"bar-value end {bar.style}"))
    caption = []
    if rival is not None:
        drawn = '<path class="rival" d="M{} 22V{}"><title>the best baseline</title></path>'
        parts.append(mark(drawn, across(rival), bottom))
        caption.append("The dashed line marks the best baseline.")
    if any(bar.spread > 0 for bar in bars):
        caption.append("The thin line at the end of a bar shows ± one standard deviation over seeds.")
    parts.append(text(across(axis.high), bottom + 36, axis.label, "axis-label end"))
    words = f"{label} of every method: " + ", ".join(f"{bar.name} {decimal(bar.value)}" for bar in bars) + "."
    drawing = frame(words, Markup("").join(parts + names), WIDTH, bottom + 44)
    return Figure(f"{label} of model and baselines", drawing, " ".join(caption))


def map_figure(embeddings: NDArray[Any], times: Floats) -> Figure:
    """The first two components as dots, coloured by the order of time."""
    if len(times) != len(embeddings) or not np.isfinite(times).all():
        raise QueryError(
            f"expected one finite time per embedding, not {len(times):,} times and {len(embeddings):,} rows"
        )
    points, variance = components(embeddings)
    order = np.argsort(times, kind="stable")
    colour = np.empty(len(times), dtype=np.int64)
    colour[order] = np.arange(len(times)) * MAP_COLOURS // len(times)
    chosen = np.random.default_rng(0).permutation(len(times))[:MAP_POINTS]
    low, high = np.quantile(points, [0.005, 0.995], axis=0)
    margin = np.maximum(0.12 * (high - low), 1e-9)
    place = (points - low + margin) / (high - low + 2 * margin)
    inside = ((place >= 0) & (place <= 1)).all(axis=1)
    across, down = place[:, 0] * MAP_WIDTH, (1 - place[:, 1]) * MAP_HEIGHT
    parts = []
    # Several layers, each with every colour, so that the last colour does not hide the others.
    for layer in np.array_split(chosen[inside[chosen]], 8):
        for shade in range(MAP_COLOURS):
            rows = layer[colour[layer] == shade]
            path = "".join(f"M{across[row]:.0f} {down[row]:.0f}h0" for row in rows)
            if path:
                parts.append(Markup('<path class="shade-{}" d="{}"/>').format(shade, path))
    first, second = map(percent, variance)
    caption = f"Horizontal: first principal component ({first} of the variance). Vertical: second ({second})."
    if outside := int((~inside[chosen]).sum()):
        caption += f" {count(outside, 'outlier')} not shown."
    words = f"Map of {len(chosen):,} embeddings by their first two principal components, coloured by time."
    drawing = frame(words, Markup("").join(parts), MAP_WIDTH, MAP_HEIGHT, "chart map")
    unix = is_unix(times)
    # Over more than a few days the hour does not matter.
    length = 10 if unix and np.ptp(times) > 3 * 86_400 else None
    ramp = [moment(times[order[round(share * (len(order) - 1))]], unix)[:length] for share in (0, 0.5, 1)]
    return Figure("Embeddings", drawing, caption, wide=True, ramp=ramp)


def _bar_axis(values: Sequence[float], origin: float, label: str) -> Axis:
    named = f"{label}; {origin:g} is chance level" if origin else label
    if min(values) >= 0 and max(values) <= 1:
        low = min(origin, np.floor(min(values) * 10) / 10)
        ticks = [tick / 10 for tick in range(11) if tick / 10 >= low - 1e-9]
        return Axis(low, 1.0, [(tick, f"{tick:.1f}") for tick in ticks], named)
    return linear_axis([*values, origin], named)
