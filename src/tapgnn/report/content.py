"""Report: the content of the page. Empty parts are omitted from the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

MODEL = "tapgnn"
# Below this, two numbers look the same in a table.
SMALLEST_GAP = 5e-5
_SHARES = {"auc", "ap", "accuracy", "mrr", "hits", "hits10"}
_nothing = partial(np.empty, 0)


@dataclass(frozen=True, eq=False)
class Report:
    """The results of a run; Q queries of one seed, n embeddings of width d.

    title, subtitle, created   what was run, with which settings, when
    period                     the part of the log that the results are for: 'test' or 'validation'
    simulated                  whether the events are simulated, which the page states at the top
    data                       the table of `tapgnn.data.statistics.describe`; unknown keys are shown unchanged
    metrics                    method -> measure -> value, the model first; `auc_mean` and `auc_std` share a column
    history                    one row per validation: seed, epoch, loss, validation and its metric, events_per_s
    labels, scores, times [Q]  the queries: 0 or 1, score of the link, time
    baseline_scores            method -> scores [Q] of the same queries, on any monotone scale
    embeddings [n, d], embedding_times [n]   a sample of z(v, t) and its t
    embedding_names, embedding_labels, embedding_roles [n]    their nodes, the labels of their events (-1: not known),
                               and whether they are sources (0) or destinations (1) of them; each may be missing
    classification             labels, scores, times of the judged events, figures such as auc and ap, `methods` (method
                               -> measure -> value, the classifier first) and `alerts` (share of events -> precision and
                               recall); each may be missing
    settings                   the configuration and the versions
    """

    title: str
    subtitle: str = ""
    period: str = "test"
    simulated: bool = False
    created: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    labels: NDArray[Any] = field(default_factory=_nothing)
    scores: NDArray[Any] = field(default_factory=_nothing)
    times: NDArray[Any] = field(default_factory=_nothing)
    baseline_scores: dict[str, NDArray[Any]] = field(default_factory=dict)
    embeddings: NDArray[Any] = field(default_factory=_nothing)
    embedding_times: NDArray[Any] = field(default_factory=_nothing)
    embedding_names: Sequence[str] = ()
    embedding_labels: NDArray[Any] = field(default_factory=_nothing)
    embedding_roles: NDArray[Any] = field(default_factory=_nothing)
    classification: dict[str, Any] | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> str:
        """The name of the model's row: `tapgnn`, otherwise the first one."""
        return MODEL if MODEL in self.metrics or not self.metrics else next(iter(self.metrics))

    @property
    def rivals(self) -> list[str]:
        """All other methods, in the order of the table, then those with scores only."""
        return [name for name in dict.fromkeys([*self.metrics, *self.baseline_scores]) if name != self.model]

    def tone(self, method: str) -> int:
        """The colour of a method, the same in every chart: 0 for the model, then 1 to 8 cyclically."""
        return 0 if method == self.model else 1 + self.rivals.index(method) % 8


def stems(rows: dict[str, dict[str, float]]) -> list[str]:
    """The measures of a table, the usual ones first; `auc_mean` and `auc_std` are one measure, `auc`.

    >>> stems({"tapgnn": {"mrr_mean": 0.5, "auc_std": 0.1, "auc_mean": 0.9}})
    ['auc', 'mrr']
    """
    found = dict.fromkeys(key.removesuffix("_mean").removesuffix("_std") for row in rows.values() for key in row)
    usual = [stem for stem in ("auc", "ap", "accuracy", "mrr", "hits10") if stem in found]
    return usual + [stem for stem in found if stem not in usual]


def is_share(stem: str) -> bool:
    """Whether a measure ranges from 0 to 1 and higher is better.

    >>> is_share("valid_auc"), is_share("hits@10"), is_share("map_seconds")
    (True, True, False)
    """
    return not _SHARES.isdisjoint(stem.replace("@", "_").split("_"))


def mean_of(row: Mapping[str, Any], stem: str) -> float:
    """The value of a measure, NaN if it is missing."""
    return as_float(row.get(f"{stem}_mean", row.get(stem)))


def spread_of(row: Mapping[str, Any], stem: str) -> float:
    """The standard deviation of a measure over the seeds, NaN if it is missing."""
    return as_float(row.get(f"{stem}_std"))


def standing(lead: float, *spreads: float) -> tuple[str, bool]:
    """Whether a method with this lead is 'ahead', 'level' or 'behind', and whether its seeds differ.

    A lead smaller than the standard deviation over seeds of either method (NaN: unknown) does not count.
    """
    doubt = float(np.nanmax([SMALLEST_GAP, *spreads]))
    return "level" if abs(lead) < doubt else "ahead" if lead > 0 else "behind", doubt > SMALLEST_GAP


def as_float(value: Any) -> float:
    """A number as a float, NaN for anything else."""
    return float(value) if isinstance(value, int | float | np.integer | np.floating) else float("nan")
