"""Summary: the row of a method from its runs, one a seed.

    a mark, such as auc    auc_mean and auc_std: its mean and its deviation (0 for a single run)
    a cost                 its mean; of memory, the largest
    failed                 how many runs failed, and `error`, what the first of them says

Runs that failed take no part in the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# What a run holds that is no mark: costs, and what is no figure. Everything else is averaged with its deviation.
COSTS = ("train_seconds", "train_cpu_seconds", "query_ms", "memory_mb")
BESIDE = ("seed", "sees_history", "details", "alternatives")


def summary(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The row of a method; `alternatives` by name have figures of their own, and `runs` holds all that was found."""
    errors = [run["error"] for run in runs if "error" in run]
    ended = [run for run in runs if "error" not in run]
    row: dict[str, Any] = {}
    if ended:
        row = {**_averages(ended), "sees_history": bool(ended[0]["sees_history"])}
    if ended and "alternatives" in ended[0]:
        named = ended[0]["alternatives"]
        row["alternatives"] = {name: _averages([run["alternatives"][name] for run in ended]) for name in named}
    if errors:
        row["error"] = errors[0]
    return {**row, "failed": len(errors), "runs": list(runs)}


def _averages(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for figure in runs[0]:
        if figure in BESIDE:
            continue
        values = np.array([run[figure] for run in runs if figure in run], dtype=np.float64)
        if figure in COSTS:
            row[figure] = float(values.max() if figure == "memory_mb" else values.mean())
        else:
            row[f"{figure}_mean"] = float(values.mean())
            row[f"{figure}_std"] = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return row
