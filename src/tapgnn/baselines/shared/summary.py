"""Summary: the row of a method in a comparison, from its runs, one per seed.

    a metric, such as auc    auc_mean and auc_std: its mean and its standard deviation (0 for a single run)
    a cost                   its mean; of memory, the largest
    failed                   how many runs failed, and `error`, the message of the first

Failed runs are left out of the averages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# Costs, and what is not a number to average. Everything else in a run is a metric, averaged with its deviation.
COSTS = ("train_seconds", "train_cpu_seconds", "query_ms", "memory_mb")
NOT_AVERAGED = ("seed", "sees_history", "details", "alternatives")


def summary(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The row of a method; `alternatives` by name have averages of their own, and `runs` holds every run."""
    errors = [run["error"] for run in runs if "error" in run]
    finished = [run for run in runs if "error" not in run]
    row: dict[str, Any] = {}
    if finished:
        row = {**_averages(finished), "sees_history": bool(finished[0]["sees_history"])}
        if "alternatives" in finished[0]:
            names = finished[0]["alternatives"]
            row["alternatives"] = {name: _averages([run["alternatives"][name] for run in finished]) for name in names}
    if errors:
        row["error"] = errors[0]
    return {**row, "failed": len(errors), "runs": list(runs)}


def _averages(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in runs[0]:
        if name in NOT_AVERAGED:
            continue
        values = np.array([run[name] for run in runs if name in run], dtype=np.float64)
        if name in COSTS:
            row[name] = float(values.max() if name == "memory_mb" else values.mean())
        else:
            row[f"{name}_mean"] = float(values.mean())
            row[f"{name}_std"] = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return row
