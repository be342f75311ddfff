from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tapgnn.errors import QueryError
from tapgnn.evaluation import metrics
from tapgnn.report.axes import Plot, linear_axis, time_axis, unit_axis
from tapgnn.report.curves import components, precision_recall, roc, thin

QUERIES = st.integers(2, 60).flatmap(
    lambda size: st.tuples(
        arrays.arrays(np.int64, size, elements=st.integers(0, 1)).filter(lambda marks: 0 < marks.sum() < len(marks)),
        # Few distinct scores, so that most of them tie, and 'never seen' among them.
        arrays.arrays(np.float64, size, elements=st.sampled_from([-np.inf, -2.5, 0.0, 0.1, 0.7, 3.0])),
    )
)


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


def test_a_thinned_curve_keeps_its_ends_and_its_area() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 50_000)
    false, true = roc(labels, labels + rng.standard_normal(50_000))
    x, y = thin(false, true)
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


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=5), st.booleans())
def test_an_axis_holds_its_values_and_names_its_ticks_apart(values: list[float], tight: bool) -> None:
    axis = linear_axis(values, "value", tight=tight)
    assert axis.low <= min(values) + 1e-6 * abs(min(values))
    assert axis.high >= max(values) - 1e-6 * abs(max(values))
    names = [name for _, name in axis.ticks]
    assert len(set(names)) == len(names) <= 9
    slack = 1e-6 * (axis.high - axis.low)
    assert all(axis.low - slack <= place <= axis.high + slack for place, _ in axis.ticks)


@given(st.floats(3.2e8, 4e9), st.floats(1, 3e9))
def test_dates_keep_apart_on_a_time_axis(start: float, length: float) -> None:
    axis = time_axis([start, start + length], unix=True)
    width = Plot(axis, unit_axis("share")).width
    places = [axis.share(place) * width for place, _ in axis.ticks]
    longest = max((len(name) for _, name in axis.ticks), default=0)
    assert all(after - before > longest * 5.5 for before, after in pairwise(places))
    assert all(axis.low <= place <= axis.high for place, _ in axis.ticks)


def test_a_gap_breaks_a_line() -> None:
    plot = Plot(unit_axis("x"), unit_axis("y"))
    plot.line([0, 0.2, 0.4, 0.6], [0.1, 0.2, np.nan, 0.3], "tone-0")
    drawn = plot.svg("a line with a gap").split('class="line tone-0" d="')[1].split('"')[0]
    assert drawn.count("M") == 2
    assert "nan" not in drawn
