"""Encoders: columns of a table -> numbers that a model takes, fitted on the training events and saved with the model.

    number, boolean   two numbers: the value on a robust scale, and 1 where it is missing (the value is 0 then)
    category          one code: MISSING, OTHER for a rare or unseen one, then the categories of the training events

The scale of a number is the normal score of its rank among the training values: linear between KNOTS quantiles, and
logarithmic in units of the spread beyond them. It keeps order, bounds outliers, and is the same in every unit: dollars
and cents give one encoding. A row of features is [value, missing] of every number, then the codes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.compiled.jit import compiled, whole
from tapgnn.errors import ConfigError
from tapgnn.events import Columns, Floats

MISSING, OTHER = 0, 1
# A category with a code of its own occurs at least so often in training, and is among the most frequent ones.
FEWEST, MOST_CATEGORIES = 5, 1_000
KNOTS, EXTREME = 129, 3.5


@dataclass(frozen=True)
class NumberScale:
    """Knots [k] of a number, ascending, their scores [k], and the spread that measures what lies beyond them."""

    knots: Floats
    scores: Floats
    spread: float

    @classmethod
    def fit(cls, values: Floats) -> NumberScale:
        """The scale of the values that are not missing."""
        from scipy.special import ndtr, ndtri  # type: ignore[import-untyped]

        known = np.sort(values[np.isfinite(values)])
        if not len(known):
            return cls(np.zeros(1), np.zeros(1), 1.0)
        knots = np.unique(np.quantile(known, ndtr(np.linspace(-EXTREME, EXTREME, KNOTS))))
        # Equal values share the middle of their ranks, so that ties do not depend on the order of rows.
        ranks = (np.searchsorted(known, knots, "left") + np.searchsorted(known, knots, "right")) / (2 * len(known))
        scores = ndtri(np.clip(ranks, ndtr(-EXTREME), ndtr(EXTREME)))
        low, high = np.quantile(known, [0.25, 0.75])
        spread = float(high - low) or float(known[-1] - known[0]) or abs(float(known[0])) or 1.0
        own = np.interp(known, knots, scores)
        return cls(knots, (scores - float(own.mean())) / (float(own.std()) or 1.0), spread)


@dataclass(frozen=True)
class TableEncoder:
    """The encoders of the columns of a table, numbers by name and categories by name."""

    numbers: Mapping[str, NumberScale]
    categories: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        scales = list(self.numbers.values())
        starts = np.cumsum([0, *(len(scale.knots) for scale in scales)])
        knots = np.concatenate([np.empty(0), *(scale.knots for scale in scales)])
        scores = np.concatenate([np.empty(0), *(scale.scores for scale in scales)])
        object.__setattr__(self, "_scales", (knots, scores, starts, np.array([scale.spread for scale in scales])))
        codes = {
            name: {value: code for code, value in enumerate(known, start=OTHER + 1)} | {None: MISSING}
            for name, known in self.categories.items()
        }
        object.__setattr__(self, "_codes", codes)

    @classmethod
    def fit(cls, columns: Columns, kinds: Mapping[str, str]) -> TableEncoder:
        """Encoders of the columns that `kinds` names: number, boolean or category.

        >>> encoder = TableEncoder.fit({"amount": np.array([1.0, 2.0, np.nan])}, {"amount": "number"})
        >>> encoder.encode({"amount": np.array([np.nan])})
        array([[0., 1.]], dtype=float32)
        """
        numbers = {name: NumberScale.fit(columns[name]) for name, kind in kinds.items() if kind != "category"}
        categories = {name: _frequent(columns[name]) for name, kind in kinds.items() if kind == "category"}
        return cls(numbers, categories)

    @property
    def widths(self) -> tuple[int, tuple[int, ...]]:
        """How many numbers a row of features has, and how many codes each category."""
        return 2 * len(self.numbers), tuple(OTHER + 1 + len(known) for known in self.categories.values())

    def fits(self, kinds: Mapping[str, str]) -> bool:
        """Whether these are the encoders of columns of these kinds."""
        numbers, categories = dict.fromkeys(self.numbers, False), dict.fromkeys(self.categories, True)
        return numbers | categories == {name: kind == "category" for name, kind in kinds.items()}

    def encode(self, columns: Columns) -> NDArray[np.float32]:
        """Features [E, f]; a column that is not given is missing in every row."""
        size = len(next(iter(columns.values()))) if columns else 0
        values = np.full((len(self.numbers), size), np.nan)
        for place, name in enumerate(self.numbers):
            # A column of gaps alone may hold None.
            if name in columns and columns[name].dtype != object:
                values[place] = columns[name]
        features = np.empty((size, 2 * len(self.numbers) + len(self.categories)), dtype=np.float32)
        _encode_numbers(values, *self._scales, features)  # type: ignore[attr-defined]
        for place, (name, codes) in enumerate(self._codes.items(), start=2 * len(self.numbers)):  # type: ignore[attr-defined]
            given = columns.get(name)
            features[:, place] = MISSING if given is None else [codes.get(value, OTHER) for value in given.tolist()]
        return features

    def dense(self, columns: Columns) -> NDArray[np.float32]:
        """Features [E, .] for methods that take numbers only: a column of zeros and ones for every code."""
        features = self.encode(columns)
        numbers, sizes = self.widths
        codes = features[:, numbers:].astype(np.int64)
        return np.concatenate(
            [features[:, :numbers], *(np.eye(size, dtype=np.float32)[codes[:, c]] for c, size in enumerate(sizes))],
            axis=1,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        scales = {
            name: {"knots": scale.knots.tolist(), "scores": scale.scores.tolist(), "spread": scale.spread}
            for name, scale in self.numbers.items()
        }
        return {"numbers": scales, "categories": {name: list(known) for name, known in self.categories.items()}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableEncoder:
        """What `to_dict` gave; every size, order and kind is checked."""
        try:
            numbers = {name: _checked_scale(name, **scale) for name, scale in values["numbers"].items()}
            categories = {name: tuple(known) for name, known in values["categories"].items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"the encoders cannot be read ({error})") from None
        for name, known in categories.items():
            if len(set(known)) != len(known) or not all(isinstance(value, str) for value in known):
                raise ConfigError(f"the categories of {name!r} are not distinct strings")
        return cls(numbers, categories)


def _checked_scale(name: str, knots: Any, scores: Any, spread: Any) -> NumberScale:
    known, given = np.array(knots, dtype=np.float64), np.array(scores, dtype=np.float64)
    fits = known.ndim == 1 and 0 < len(known) == len(given) and given.shape == known.shape
    finite = fits and bool(np.isfinite(known).all() and np.isfinite(given).all()) and 0 < float(spread) < np.inf
    if not finite or (np.diff(known) <= 0).any() or (np.diff(given) < 0).any():
        raise ConfigError(f"the scale of {name!r} is not one of ascending knots")
    return NumberScale(known, given, float(spread))


def _frequent(column: NDArray[Any]) -> tuple[str, ...]:
    """The categories that get a code of their own, most frequent first; ties by name."""
    counts = Counter(value for value in column.tolist() if value is not None)
    often = sorted((-count, value) for value, count in counts.items() if count >= FEWEST)
    return tuple(value for _, value in often[:MOST_CATEGORIES])


@whole
def _encode_numbers(values: Any, knots: Any, scores: Any, starts: Any, spread: Any, features: Any) -> None:
    """Fill the first 2 n columns of features [E, .] from values [n, E]."""
    for n in range(len(values)):
        first, last = starts[n], starts[n + 1] - 1
        for e in range(values.shape[1]):
            value = values[n, e]
            missing = np.isnan(value)
            features[e, 2 * n + 1] = 1.0 if missing else 0.0
            features[e, 2 * n] = 0.0 if missing else _score(value, knots, scores, first, last, spread[n])


@compiled
def _score(value: Any, knots: Any, scores: Any, first: Any, last: Any, spread: Any) -> Any:
    """The score of a value: linear between knots, logarithmic beyond them."""
    if value <= knots[first]:
        return scores[first] - np.log1p((knots[first] - value) / spread)
    if value >= knots[last]:
        return scores[last] + np.log1p((value - knots[last]) / spread)
    low, high = first, last
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= value:
            low = middle
        else:
            high = middle
    share = (value - knots[low]) / (knots[high] - knots[low])
    return scores[low] + share * (scores[high] - scores[low])
