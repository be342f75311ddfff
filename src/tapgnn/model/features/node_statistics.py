"""Node statistics: what is known of a node without any weights. When was it last active, how often, in which role.

Per node, in float64, two columns each, for the roles source and destination:

    COUNT   messages received so far                      LAST   time of the latest one, -inf for never
    SEEN    events of the whole graph up to and including that instant: a clock that ticks with activity
    RECENT  counts that halve with each of the model's half-lives on that clock, two columns a half-life

They are scanned along the chains like every other state; all columns of one temporal node are one row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from tapgnn.compiled.jit import compiled
from tapgnn.model.features.row_layout import StatisticColumns as Statistic

COUNT, LAST, SEEN, RECENT = (
    Statistic.COUNT,
    Statistic.LAST,
    Statistic.SEEN,
    Statistic.RECENT,
)


def both_roles(rows: Any, column: int) -> Any:
    """[..., 2] one statistic, as source and as destination, of rows [..., F]."""
    return rows[..., column : column + 2]


def recent_counts(rows: Any) -> Any:
    """[..., 2 H] the decayed counts of rows [..., F]."""
    return rows[..., RECENT:]


def never_active(rows: Tensor) -> Tensor:
    """[...] whether there was never an event."""
    last: Tensor = both_roles(rows, LAST)
    return last.amax(dim=-1).isinf()


def empty_statistics(rates: int) -> Any:
    """The row of a node with no history, with `rates` decaying counts a role."""
    row = np.zeros(RECENT + 2 * rates)
    row[LAST : LAST + 2] = -np.inf
    return row


@compiled
def last_active(row: Any) -> Any:
    """When a node was last active, in any role; -inf for never."""
    return max(row[LAST], row[LAST + 1])


@compiled
def last_seen(row: Any) -> Any:
    """How many events there had been when a node was last active."""
    return max(row[SEEN], row[SEEN + 1])


@compiled
def update_statistics(view: Any, seen: Any, rate: Any, carried: Any, rows: Any, elapsed: Any) -> None:
    """Fill rows [T, F], and elapsed [T, 2] since the node was last active (0 where never), from carried [C, F].

    seen [T] counts the events of the graph up to each temporal node; rate [H] is per event.
    """
    chain, inbox, role, time = view.chain, view.inbox, view.role, view.time
    width, rates = carried.shape[1], len(rate)
    for c in range(len(chain) - 1):
        for i in range(chain[c], chain[c + 1]):
            before = carried[c] if i == chain[c] else rows[i - 1]
            known = last_active(before) > -np.inf
            elapsed[i, 0] = time[i] - last_active(before) if known else 0.0
            elapsed[i, 1] = seen[i] - last_seen(before) if known else 0.0
            for j in range(width):
                rows[i, j] = before[j]
            for h in range(rates):
                kept = np.exp(-rate[h] * elapsed[i, 1])
                rows[i, RECENT + 2 * h] *= kept
                rows[i, RECENT + 2 * h + 1] *= kept
            for m in range(inbox[i], inbox[i + 1]):
                rows[i, COUNT + role[m]] += 1.0
                rows[i, LAST + role[m]] = time[i]
                rows[i, SEEN + role[m]] = seen[i]
                for h in range(rates):
                    rows[i, RECENT + 2 * h + role[m]] += 1.0


@compiled
def read_clocks(spans: Any, view: Any, seen: Any, rows: Any, elapsed: Any, clocks: Any, degree: Any) -> None:
    """Bring elapsed [T, 2] to spans; fill clocks [T, 2], time and events in spans, and degree [T], all messages.

    spans has the origin of time, and the span of either clock.
    """
    origin, span, events = spans
    for i in range(len(seen)):
        elapsed[i, 0] /= span
        elapsed[i, 1] /= events
        clocks[i, 0] = (view.time[i] - origin) / span
        clocks[i, 1] = seen[i] / events
        degree[i] = rows[i, COUNT] + rows[i, COUNT + 1]
