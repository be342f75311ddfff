"""Encoders: the same numbers in every unit, a place for what is missing, rare or unseen, and the same after saving."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tapgnn.data.encoders import FEWEST, MISSING, OTHER, TableEncoder
from tapgnn.errors import ConfigError

NUMBERS = hnp.arrays(np.float64, st.integers(1, 60), elements=st.integers(-1000, 1000).map(float) | st.just(np.nan))
KINDS = {"amount": "number"}


def encoded(encoder, values):
    return encoder.encode({"amount": np.asarray(values, dtype=np.float64)})


@given(NUMBERS, st.sampled_from([0.01, 100.0, 1e6]))
def test_an_encoding_does_not_depend_on_the_unit(values, unit):
    plain, scaled = (TableEncoder.fit({"amount": cells}, KINDS) for cells in (values, values * unit))
    asked = np.array([-2000.0, -3.5, 12.25, 999.0, 5000.0, np.nan])
    if (values[np.isfinite(values)] != 0).any():  # of a column of zeros the unit cannot be told
        np.testing.assert_allclose(encoded(plain, asked), encoded(scaled, asked * unit), atol=1e-4)


@given(NUMBERS)
def test_order_is_kept_extremes_are_bounded_and_missing_is_a_value_of_its_own(values):
    encoder = TableEncoder.fit({"amount": values}, KINDS)
    asked = np.array([-1e12, -1e3, -1.0, 0.0, 1.0, 1e3, 1e12, np.nan])
    features = encoded(encoder, asked)
    assert (np.diff(features[:-1, 0]) >= 0).all()
    assert (np.abs(features) < 45).all()
    assert features[:, 1].tolist() == [0.0] * 7 + [1.0]
    assert features[-1, 0] == 0.0


@given(NUMBERS, st.randoms())
def test_the_order_of_rows_changes_nothing(values, random):
    mixed = values.copy()
    random.shuffle(mixed)
    kept, other = (TableEncoder.fit({"amount": cells}, KINDS) for cells in (values, mixed))
    np.testing.assert_array_equal(encoded(kept, values), encoded(other, values))


def test_training_values_have_mean_0_and_deviation_1_whatever_their_distribution():
    rng = np.random.default_rng(0)
    for values in (rng.lognormal(3, 2, 5000), rng.integers(0, 3, 5000), rng.standard_cauchy(5000)):
        features = encoded(TableEncoder.fit({"amount": values.astype(float)}, KINDS), values)
        assert abs(features[:, 0].mean()) < 0.01
        assert abs(features[:, 0].std() - 1) < 0.05


def test_categories_have_codes_by_frequency_and_a_place_for_the_rare_the_unseen_and_the_missing():
    column = np.array(["b"] * 9 + ["a"] * 9 + ["c"] * 20 + ["rare"] * (FEWEST - 1) + [None] * 3, dtype=object)
    encoder = TableEncoder.fit({"channel": column}, {"channel": "category"})
    asked = np.array(["c", "a", "b", "rare", "new", None], dtype=object)
    assert encoder.encode({"channel": asked})[:, 0].tolist() == [2, 3, 4, OTHER, OTHER, MISSING]
    assert encoder.widths == (0, (5,))


def test_a_row_is_numbers_then_codes_and_a_column_that_is_not_given_is_missing():
    columns = {"channel": np.array(["x"] * 6, dtype=object), "amount": np.arange(6.0), "new": np.ones(6)}
    encoder = TableEncoder.fit(columns, {"channel": "category", "amount": "number", "new": "boolean"})
    assert encoder.widths == (4, (3,))
    assert encoder.encode({"amount": np.array([1.0])})[0, 1:].tolist() == [0.0, 0.0, 1.0, MISSING]


def test_encoders_survive_their_json():
    rng = np.random.default_rng(1)
    columns = {"amount": rng.lognormal(3, 1, 500), "channel": rng.choice(["a", "b", None], 500)}
    encoder = TableEncoder.fit(columns, {"amount": "number", "channel": "category"})
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    np.testing.assert_array_equal(again.encode(columns), encoder.encode(columns))


@pytest.mark.parametrize(
    "change",
    [
        {"numbers": {"amount": {"knots": [1.0, 0.0], "scores": [0.0, 1.0], "spread": 1.0}}},
        {"numbers": {"amount": {"knots": [], "scores": [], "spread": 1.0}}},
        {"numbers": {"amount": {"knots": [0.0], "scores": [0.0, 1.0], "spread": 1.0}}},
        {"numbers": {"amount": {"knots": [0.0], "scores": [float("nan")], "spread": 1.0}}},
        {"numbers": {"amount": {"knots": [0.0], "scores": [0.0], "spread": 0.0}}},
        {"numbers": {"amount": [1.0]}},
        {"categories": {"channel": ["a", "a"]}},
        {"categories": {"channel": [1]}},
        {"categories": 3},
    ],
)
def test_damaged_encoders_are_refused(change):
    with pytest.raises(ConfigError, match=r"encoders|scale|categories"):
        TableEncoder.from_dict({"numbers": {}, "categories": {}} | change)
