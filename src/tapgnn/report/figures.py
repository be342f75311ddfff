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
from tapgnn.report.charts import SECOND, SHADES, Chart, colour, unit_chart
from tapgnn.report.curves import components, precision_recall, roc
from tapgnn.report.numbers import count, decimal, is_unix, moment, number, percent, span

MAP_POINTS = 4000
# How many dots of a map tell their node: each takes a hundred bytes of the file.
MAP_NAMES = 800
STEADY_BIN = 20
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
    """One method: its value, its standard deviation over seeds (0 if unknown), its colour."""

    name: str
    value: float
    spread: float
    colour: str


def roc_figure(labels: NDArray[Any], curves: Sequence[Curve]) -> Figure:
    """True against false positive rate, one line per method."""
    chart = unit_chart("false positive rate", "true positive rate")
    chart.chance(0, 1, "chance: AUC 0.5")
    words = _draw_curves(chart, labels, curves, roc, metrics.auc, "AUC")
    caption = "Closer to the top left is better; the dotted diagonal is chance level."
    return Figure("ROC", chart.svg(f"ROC curves. {words}"), caption)


def precision_recall_figure(labels: NDArray[Any], curves: Sequence[Curve]) -> Figure:
    """Precision against recall, one line per method."""
    chart = unit_chart("recall", "precision")
    share = float((np.asarray(labels) == 1).mean())
    chart.chance(share, share, f"chance: precision {percent(share)}")
    words = _draw_curves(chart, labels, curves, precision_recall, metrics.average_precision, "AP")
    caption = f"Closer to the top right is better; the dotted line is chance level, {percent(share)} positives."
    return Figure("Precision and recall", chart.svg(f"Precision-recall curves. {words}"), caption)


def _draw_curves(
    chart: Chart, labels: NDArray[Any], curves: Sequence[Curve], points: _OfScores, area: _OfScores, measure: str
) -> str:
    """One line per method, the model last, on top; returns the areas in words."""
    areas = {curve.name: f"{measure} {decimal(area(labels, curve.scores))}" for curve in curves}
    for curve in reversed(curves):
        x, y = points(labels, curve.scores)
        chart.line(x, y, curve.tone, f"{curve.name}: {areas[curve.name]}")
    return ", ".join(f"{name} {words}" for name, words in areas.items()) + "."


def time_figure(labels: NDArray[Any], times: NDArray[Any], curves: Sequence[Curve], period: str) -> Figure:
    """AUC in consecutive parts of the period."""
    if not np.isfinite(times).all():
        raise QueryError("some query times are not finite")
    unix = is_unix(times)
    lines = [metrics.auc_along_time(labels, curve.scores, times) for curve in curves]
    if not np.isfinite(lines[0].auc).any():
        raise QueryError("no part of the period has both positives and negatives")
    chart = Chart("date (UTC)" if unix else "time, in the unit of the log", "AUC")
    for curve, line in reversed(list(zip(curves, lines, strict=True))):
        middle = (line.start + line.stop) / 2 * (SECOND if unix else 1)
        tips = [
            f"{curve.name}: AUC {decimal(area)}, {count(int(size), 'query')}, {moment(a, unix)} to {moment(b, unix)}"
            for a, b, area, size in zip(line.start, line.stop, line.auc, line.count, strict=True)
        ]
        chart.line(middle, line.auc, curve.tone)
        chart.dots(middle, line.auc, curve.tone, tips, 3.5 if curve.tone == 0 else 2.5)
    chart.end_at_one()
    if unix:
        chart.show_dates()
    words = f"AUC over the {period} period. {curves[0].name} {span(lines[0].auc[np.isfinite(lines[0].auc)])}."
    size = count(int(np.median(lines[0].count)), "query")
    caption = f"{len(lines[0].auc)} consecutive parts of about {size} each; a falling line: the model is outdated."
    return Figure(f"AUC over the {period} period", chart.svg(words), caption)


def calibration_figure(labels: NDArray[Any], scores: NDArray[Any], word: str) -> Figure:
    """The observed share of positives against scores from 0 to 1, which the page calls by this word."""
    bins = metrics.calibration(labels, scores)
    chart = unit_chart(word, "observed share of positives")
    share = bins.count / bins.count.sum()
    edges = [f"{a:.1f} to {b:.1f}" for a, b in zip(bins.edges[:-1], bins.edges[1:], strict=True)]
    held = [f"{edge}: {count(int(size), 'query')}" for edge, size in zip(edges, bins.count, strict=True)]
    heights, widths = 0.3 * share / share.max(), 0.95 * np.diff(bins.edges)
    columns = chart.axes.bar(bins.edges[:-1], heights, widths, align="edge", color=colour("mass"))
    for column, tip in zip(columns, held, strict=True):
        column.set_url(tip)
    chart.chance(0, 1, "perfect calibration")
    # The share of a few queries is mostly noise: such bins keep their dot, but the line skips them.
    steady = bins.count >= STEADY_BIN
    chart.line(bins.predicted[steady], bins.observed[steady], 0)
    rows = zip(held, bins.predicted, bins.observed, strict=True)
    tips = [f"{where}; predicted {decimal(p)}, observed {decimal(o)}" for where, p, o in rows]
    chart.dots(bins.predicted, bins.observed, 0, tips, 3 + 4 * np.sqrt(share))
    words = f"Calibration. Expected calibration error {decimal(bins.error)}."
    caption = (
        f"On the dotted diagonal, the {word} and the observed share agree. "
        f"Expected calibration error {decimal(bins.error)}. "
        f"Grey: number of queries; the line connects bins with at least {STEADY_BIN}."
    )
    return Figure("Calibration", chart.svg(words), caption)


def history_figure(title: str, runs: Mapping[Any, Floats], label: str, best: bool) -> Figure:
    """A quantity over the epochs, one line per seed; `best` marks the highest point of each."""
    chart = Chart("epoch", label)
    for seed, (epoch, value) in runs.items():
        chart.axes.plot(epoch, value, color=colour("own"), linewidth=1.6, alpha=0.6, url=f"seed {seed}")
        if len(epoch) == 1:  # no line has only one end
            chart.dots(epoch, value, 0, [f"seed {seed}: {label} {decimal(value[0], 4)}"])
    if best:
        for seed, (epoch, value) in runs.items():
            top = int(np.argmax(value))
            tip = f"seed {seed}: best {label} {decimal(value[top], 4)} at epoch {epoch[top]:g}"
            chart.dots(epoch[top], value[top], 0, [tip], 3.5)
        chart.end_at_one()
    chart.axes.set_xlim(left=min(0.0, chart.axes.get_xlim()[0]))
    note = "The dot marks the best point, whose weights are kept." if best else "Lower is better."
    last = span(value.max() if best else value[-1] for _, value in runs.values())
    words = f"{title}, {count(len(runs), 'seed')}, {'best' if best else 'last'} value {last}."
    return Figure(title, chart.svg(words), f"One line per seed. {note}")


def bar_figure(bars: Sequence[Bar], label: str, origin: float, rival: float | None) -> Figure:
    """One bar per method from chance level, with the standard deviation over seeds and a line at the best baseline."""
    values, spreads = np.array([(bar.value, bar.spread) for bar in bars]).T
    chart = Chart(f"{label}; {origin:g} is chance level" if origin else label, "", height=39 * len(bars) + 52)
    axes, rows, colours = chart.axes, range(len(bars)), [colour(bar.colour) for bar in bars]
    axes.set(yticks=[], ylim=(len(bars) - 0.6, -0.9))
    axes.spines.bottom.set_visible(False)
    axes.grid(axis="x")
    # The edge keeps a bar at chance level visible.
    drawn = axes.barh(rows, values - origin, 0.34, origin, color=colours, edgecolor=colours, linewidth=1)
    whiskers = np.where(spreads > 0, spreads, np.nan)
    axes.errorbar(values, rows, xerr=whiskers, fmt="none", ecolor=colour("ink"), elinewidth=1.6)
    shares = min(values) >= 0 and max(values) <= 1
    if shares:
        axes.set_xlim(min(origin, np.floor(min(values) * 10) / 10), 1)
    beside = axes.get_yaxis_transform()
    for row, bar, box in zip(rows, bars, drawn, strict=True):
        box.set_url(f"{bar.name}: {label} {decimal(bar.value, 4)}")
        look: dict[str, Any] = {"color": colours[row], "weight": "bold"} if bar.colour == "own" else {}
        name = bar.name if len(bar.name) <= 44 else f"{bar.name[:43]}…"
        value = decimal(bar.value) if shares else number(bar.value)
        axes.text(0, row - 0.34, name, transform=beside, **look)
        axes.text(1.14, row, value, transform=beside, ha="right", va="center", **look)
    caption = []
    if rival is not None:
        axes.axvline(rival, color=colour("ink"), dashes=(3, 3), linewidth=1, url="the best baseline")
        caption.append("The dashed line marks the best baseline.")
    if any(spreads > 0):
        caption.append("The thin line at the end of a bar shows ± one standard deviation over seeds.")
    words = f"{label} of every method: " + ", ".join(f"{bar.name} {decimal(bar.value)}" for bar in bars) + "."
    return Figure(f"{label} of model and baselines", chart.svg(words, "chart bars"), " ".join(caption))


def map_figure(embeddings: NDArray[Any], times: Floats, names: Sequence[str] = ()) -> Figure:
    """The first two components as dots, coloured by the order of time; some of them tell their node."""
    if len(times) != len(embeddings) or not np.isfinite(times).all():
        raise QueryError(
            f"expected one finite time per embedding, not {len(times):,} times and {len(embeddings):,} rows"
        )
    points, variance = components(embeddings)
    inside = _inside(points)
    order = np.argsort(times, kind="stable")
    shades = np.empty(len(times), dtype=np.int64)
    shades[order] = np.arange(len(times)) * SHADES // len(times)
    chosen = np.random.default_rng(0).permutation(len(times))[:MAP_POINTS]
    chart = Chart("", "", 760, 460)
    chart.axes.set_axis_off()
    # Several layers, each with every colour, so that the last colour does not hide the others.
    for layer in np.array_split(chosen[inside[chosen]], 8):
        for shade in range(SHADES):
            # A dot is a line of no length with round ends, far shorter in the file than a marker.
            dots = np.repeat(points[layer[shades[layer] == shade]], 3, axis=0)
            dots[2::3] = np.nan
            chart.axes.plot(*dots.T, color=colour(f"shade-{shade}"), linewidth=5, solid_capstyle="round", alpha=0.65)
    drawn = chosen[inside[chosen]]
    if len(names) == len(points):
        told = drawn[:MAP_NAMES]
        # Seen by the pointer alone.
        chart.axes.scatter(
            points[told, 0], points[told, 1], 40, colour("ink"), alpha=0.0, urls=[names[row] for row in told.tolist()]
        )
    first, second = map(percent, variance)
    caption = f"Horizontal: first principal component ({first} of the variance). Vertical: second ({second})."
    if outside := int((~inside[chosen]).sum()):
        caption += f" {count(outside, 'outlier')} not shown."
    if len(names) == len(points) and len(drawn) > MAP_NAMES:
        caption += f" {MAP_NAMES:,} of the {len(drawn):,} dots tell their node."
    words = f"Map of {len(chosen):,} embeddings by their first two principal components, coloured by time."
    unix = is_unix(times)
    # Over more than a few days the hour does not matter.
    length = 10 if unix and np.ptp(times) > 3 / SECOND else None
    ramp = [moment(times[order[round(share * (len(order) - 1))]], unix)[:length] for share in (0, 0.5, 1)]
    return Figure("Embeddings by time", chart.svg(words, "chart map"), caption, wide=True, ramp=ramp)


def label_map_figure(embeddings: NDArray[Any], labels: NDArray[Any], names: Sequence[str]) -> Figure:
    """The same map with the sources of events of the rare label in a colour of their own, on top."""
    groups = {"other events": (labels == 0, "other", 25.0), "positive events": (labels == 1, "tone-1", 64.0)}
    caption = "Large dots: the source of a positive event, just before it; small ones: that of another event."
    return _group_map_figure("label", embeddings, groups, names, caption)


def role_map_figure(embeddings: NDArray[Any], roles: NDArray[Any], names: Sequence[str]) -> Figure:
    """The same map with sources and destinations in two colours."""
    groups = {"sources": (roles == 0, "tone-0", 25.0), "destinations": (roles == 1, "tone-1", 25.0)}
    return _group_map_figure("role", embeddings, groups, names, "A node that is both has a dot of either colour.")


def _group_map_figure(
    by: str, embeddings: NDArray[Any], groups: Mapping[str, tuple[Any, str, float]], names: Sequence[str], more: str
) -> Figure:
    """The map with the rows of each group in a colour and a size of its own; every dot drawn tells its node."""
    points, _ = components(embeddings)
    inside, known = _inside(points), list(names) if len(names) == len(points) else [""] * len(points)
    chart, shown = Chart("", "", 760, 460), []
    chart.axes.set_axis_off()
    for place, (group, (chosen, shade, area)) in enumerate(groups.items()):
        rows = np.random.default_rng(0).permutation(np.flatnonzero(inside & chosen))[:MAP_NAMES]
        given: dict[str, Any] = {"color": colour(shade), "edgecolors": colour("card"), "linewidths": 1}
        chart.axes.scatter(points[rows, 0], points[rows, 1], area, urls=[known[row] for row in rows.tolist()], **given)
        shown.append(f"{group} ({len(rows):,})")
        # The dot of the key stands apart from its words, which keep the colour of text.
        corner: dict[str, Any] = {"transform": chart.axes.transAxes, "va": "center"}
        chart.axes.text(0.78, 1.0 - 0.055 * place, "\N{BLACK CIRCLE}", color=colour(shade), ha="right", **corner)
        chart.axes.text(0.79, 1.0 - 0.055 * place, shown[-1], **corner)
    words = f"Map of embeddings by {by}: {', '.join(shown)}."
    return Figure(f"Embeddings by {by}", chart.svg(words, "chart map"), more, wide=True)


def _inside(points: Floats) -> NDArray[np.bool_]:
    """[n] which points lie where nearly all of them do."""
    low, high = np.quantile(points, [0.005, 0.995], axis=0)
    margin = np.maximum(0.12 * (high - low), 1e-9)
    found: NDArray[np.bool_] = ((points >= low - margin) & (points <= high + margin)).all(axis=1)
    return found
