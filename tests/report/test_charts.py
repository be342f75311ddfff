import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tapgnn.errors import QueryError
from tapgnn.evaluation import metrics
from tapgnn.report.charts import SECOND, Chart, chart_style, unit_chart
from tapgnn.report.curves import components, precision_recall, roc
from tapgnn.report.figures import MAP_NAMES, MAP_POINTS, Bar, bar_figure, map_figure
from tests.report.document import Document

QUERIES = st.integers(2, 60).flatmap(
    lambda size: st.tuples(
        arrays.arrays(np.int64, size, elements=st.integers(0, 1)).filter(lambda marks: 0 < marks.sum() < len(marks)),
        # Few distinct scores, so that most of them tie, and 'never seen' among them.
        arrays.arrays(np.float64, size, elements=st.sampled_from([-np.inf, -2.5, 0.0, 0.1, 0.7, 3.0])),
    )
)


@pytest.fixture(scope="module", autouse=True)
def styled() -> Iterator[None]:
    """All charts in the style of the page."""
    with chart_style():
        yield


def drawn_line(chart: Chart, tip: str) -> str:
    """The path of the line with the tooltip."""
    found = re.search(rf'<title>{tip}</title>\s*<path d="([^"]*)"', chart.svg("a chart with a line"))
    assert found is not None
    return found[1]


def shown_ticks(chart: Chart) -> list[tuple[str, float, float]]:
    """The labels on the horizontal axis, from where to where each stands, in pixels."""
    figure = chart.axes.get_figure(root=True)
    figure.draw_without_rendering()
    low, high = chart.axes.get_xlim()
    labels = [tick.label1 for tick in chart.axes.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [(label.get_text(), *label.get_window_extent().intervalx) for label in labels if label.get_text()]


@given(QUERIES)
def test_the_area_under_the_roc_curve_is_the_auc(queries: tuple[np.ndarray, np.ndarray]) -> None:
    false, true = roc(*queries)
    assert np.trapezoid(true, false) == pytest.approx(metrics.auc(*queries), abs=1e-12)
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)


@given(QUERIES)
def test_the_area_under_precision_and_recall_is_the_average_precision(queries: tuple[np.ndarray, np.ndarray]) -> None:
    recall, precision = precision_recall(*queries)
    area = (np.diff(recall) * precision[1:]).sum()
    assert area == pytest.approx(metrics.average_precision(*queries), abs=1e-12)


def test_a_drawn_curve_is_short_and_keeps_its_ends_and_its_area() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 50_000)
    false, true = roc(labels, labels + rng.standard_normal(50_000))
    chart = unit_chart("false positive rate", "true positive rate")
    chart.line([0, 1], [0, 1], 1, "diagonal")
    chart.line(false, true, 0, "curve")
    corners, curve = (
        np.array(re.findall(r"[ML] (\S+) (\S+)", drawn_line(chart, tip)), dtype=np.float64)
        for tip in ("diagonal", "curve")
    )
    x, y = ((curve - corners[0]) / (corners[-1] - corners[0])).T
    assert len(x) <= 400
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
    assert np.trapezoid(y, x) == pytest.approx(np.trapezoid(true, false), abs=1e-4)


def test_components_are_those_of_the_covariance() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 6)) * [5, 3, 1, 1, 0.5, 0.1] @ np.linalg.qr(rng.standard_normal((6, 6)))[0]
    points, share = components(rows)
    spectrum = np.linalg.eigvalsh(np.cov(rows.T))[::-1]
    np.testing.assert_allclose(points.var(axis=0, ddof=1), spectrum[:2], rtol=1e-10)
    np.testing.assert_allclose(share, spectrum[:2] / spectrum.sum(), rtol=1e-10)
    mirrored, _ = components(-rows)
    np.testing.assert_allclose(mirrored, points * np.sign((mirrored * points).sum(axis=0)), atol=1e-9)


def test_one_embedding_or_one_dimension_is_a_map_too() -> None:
    assert components(np.ones((1, 4)))[0].tolist() == [[0.0, 0.0]]
    assert components(np.arange(3.0)[:, None])[0][:, 1].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(QueryError, match="finite embeddings"):
        components(np.full((2, 2), np.nan))


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=5))
def test_an_axis_holds_its_values_and_names_its_ticks_apart(values: list[float]) -> None:
    chart = Chart("value", "")
    chart.line(values, values, 0)
    low, high = chart.axes.get_xlim()
    assert low <= min(values) <= max(values) <= high
    names = [name for name, _, _ in shown_ticks(chart)]
    assert 2 <= len(names) == len(set(names)) <= 9


@given(st.floats(3.2e8, 4e9), st.floats(1, 3e9))
def test_dates_keep_apart_on_a_time_axis(start: float, length: float) -> None:
    chart = Chart("date (UTC)", "AUC")
    chart.line(np.array([start, start + length]) * SECOND, [0.5, 1], 0)
    chart.show_dates()
    low, high = chart.axes.get_xlim()
    assert low <= start * SECOND <= (start + length) * SECOND <= high
    ticks = shown_ticks(chart)
    assert len(ticks) >= 2
    assert all(stop < following for (_, _, stop), (_, following, _) in pairwise(ticks))


def test_an_accuracy_axis_has_no_tick_above_one() -> None:
    chart = Chart("epoch", "AUC")
    chart.line([0, 1], [0.99, 1.0], 0)
    chart.end_at_one()
    assert chart.axes.get_ylim()[1] == 1.0


def test_a_gap_breaks_a_line() -> None:
    chart = unit_chart("x", "y")
    chart.line([0, 0.2, 0.4, 0.6, 0.8], [0.1, 0.2, np.nan, 0.3, 0.4], 0, "gap")
    drawn = drawn_line(chart, "gap")
    assert drawn.count("M") == 2
    assert "nan" not in drawn


def test_every_dot_and_bar_has_its_own_tooltip_and_a_point_without_a_value_has_none() -> None:
    chart = unit_chart("x", "y")
    chart.dots([0, 0.5, 1], [0.1, np.nan, 0.3], 0, ["first & <b>", "missing", "last"])
    titles = [title.text for title in Document(chart.svg("two dots")).all("title")]
    assert titles == ["first & <b>", "last"]
    bars = [Bar("$own$", 0.9, 0.01, "own"), Bar("at chance", 0.5, 0.0, "best")]
    drawing = Document(bar_figure(bars, "AUC", 0.5, 0.5).drawing)
    titles = [title.text for title in drawing.all("title")]
    assert titles == ["$own$: AUC 0.9000", "at chance: AUC 0.5000", "the best baseline"]
    assert {"$own$", "0.900", "at chance", "0.500"} <= {text.text for text in drawing.all("text")}


def test_every_colour_of_a_chart_is_one_of_the_page() -> None:
    chart = unit_chart("x", "y")
    chart.chance(0, 1, "chance")
    chart.dots([0.5], [0.5], 3, ["dot"])
    drawing = chart.svg("a dot and a line of chance")
    assert not re.search(r"(fill|stroke): (?!none|var\(--)", drawing)
    assert {"var(--edge)", "var(--tone-3)", "var(--card)", "var(--soft)"} <= set(
        re.findall(r"var\(--[\w-]+\)", drawing)
    )


@pytest.mark.parametrize("size", [1, 37, 6000])
def test_every_embedding_of_the_map_is_drawn_or_counted_as_an_outlier(size: int) -> None:
    rng = np.random.default_rng(0)
    figure = map_figure(rng.standard_t(3, (size, 5)), np.arange(float(size)))
    dots = sum(len(re.findall("M ", path.attributes["d"] or "")) for path in Document(figure.drawing).all("path")[1:])
    outliers = re.search(r"(\d+) outliers? not shown", figure.caption)
    assert dots + int(outliers[1] if outliers else 0) == min(size, MAP_POINTS)


@pytest.mark.parametrize("size", [37, 3000])
def test_the_caption_of_the_map_says_how_many_dots_tell_their_node(size: int) -> None:
    rows = np.random.default_rng(0).standard_normal((size, 5))
    figure = map_figure(rows, np.arange(float(size)), [f"node-{row}" for row in range(size)])
    told = len(set(re.findall(r"node-\d+", figure.drawing)))
    said = re.search(r"([\d,]+) of the ([\d,]+) dots tell their node", figure.caption)
    if said:
        assert told == int(said[1].replace(",", "")) == MAP_NAMES < int(said[2].replace(",", ""))
    else:
        outliers = re.search(r"(\d+) outliers? not shown", figure.caption)
        assert told == size - int(outliers[1] if outliers else 0) < MAP_NAMES
