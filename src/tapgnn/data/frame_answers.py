"""Answers in the kind of table that the question was: pandas with its index, polars, or plain arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tapgnn.events import Ints


def in_row_order(answer: NDArray[Any], order: Ints | None) -> NDArray[Any]:
    """Answers [E, ...] about events in the order of the rows they came from; `order` is the row of each event."""
    if order is None:
        return answer
    placed = np.empty_like(answer)
    placed[order] = answer
    return placed


def answer_like(given: Any, answer: NDArray[Any], names: Sequence[str]) -> Any:
    """An answer [E] or [E, w], its columns named: pandas or polars where that was given, otherwise the array itself.

    >>> answer_like(pl.Series(["ann", "bob"]), np.array([0.5, 0.25]), ["score"]).to_list()
    [0.5, 0.25]
    """
    if isinstance(given, pl.DataFrame | pl.LazyFrame | pl.Series):
        return pl.Series(names[0], answer) if answer.ndim == 1 else pl.DataFrame(answer, schema=list(names))
    if hasattr(given, "iloc") and hasattr(given, "index"):
        import pandas as pd  # type: ignore[import-untyped]

        if answer.ndim == 1:
            return pd.Series(answer, given.index, name=names[0])
        return pd.DataFrame(answer, given.index, list(names))
    return answer


def is_column(given: Any) -> bool:
    """Whether this is one column of values, such as labels, rather than a table of events."""
    if isinstance(given, list | tuple):
        return not (given and isinstance(given[0], Mapping))
    return getattr(given, "ndim", 0) == 1 or isinstance(given, pl.Series)
