"""Facts: what is known of a node without any weights. When was it last active, how often, in which role.

Per node, in float64, for the roles source and destination:

    count   messages received so far                      last   time of the latest one, -inf for never
    seen    events of the whole graph up to and including that instant: a clock that ticks with activity
    recent  counts that halve with each of the model's half-lives on that clock

They fold along the chains like every other state; all columns of one temporal node are one row.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

COUNT, LAST, SEEN, RECENT = slice(0, 2), slice(2, 4), slice(4, 6), slice(6, None)


def empty_facts(rates: int) -> Any:
    """The facts of a node with no history, with `rates` decaying counts a role."""
    row = np.zeros(RECENT.start + 2 * rates)
    row[LAST] = -np.inf
    return row


@nb.njit(nogil=True, cache=True, error_model="numpy")
def fold_facts(
    chain: Any, inbox: Any, role: Any, time: Any, seen: Any, rate: Any, carried: Any, facts: Any, elapsed: Any
) -> None:
    """Fill facts [T, F], and elapsed [T, 2] since the node was last active (0 where never), from carried [C, F].

    time and seen [T] are those of the temporal nodes; rate [H] is per event.
    """
    width, rates = carried.shape[1], len(rate)
    for c in range(len(chain) - 1):
        for i in range(chain[c], chain[c + 1]):
            before = carried[c] if i == chain[c] else facts[i - 1]
            last = max(before[2], before[3])
            elapsed[i, 0] = time[i] - last if last > -np.inf else 0.0
            elapsed[i, 1] = seen[i] - max(before[4], before[5]) if last > -np.inf else 0.0
            for j in range(width):
                facts[i, j] = before[j]
            for h in range(rates):
                kept = np.exp(-rate[h] * elapsed[i, 1])
                facts[i, 6 + 2 * h] *= kept
                facts[i, 7 + 2 * h] *= kept
            for m in range(inbox[i], inbox[i + 1]):
                facts[i, role[m]] += 1.0
                facts[i, 2 + role[m]] = time[i]
                facts[i, 4 + role[m]] = seen[i]
                for h in range(rates):
                    facts[i, 6 + 2 * h + role[m]] += 1.0


@nb.njit(nogil=True, cache=True, error_model="numpy")
def read_clocks(
    origin: Any, span: Any, events: Any, time: Any, seen: Any, facts: Any, elapsed: Any, clocks: Any, degree: Any
) -> None:
    """Bring elapsed [T, 2] to spans; fill clocks [T, 2], time and events in spans, and degree [T], all messages."""
    for i in range(len(time)):
        elapsed[i, 0] /= span
        elapsed[i, 1] /= events
        clocks[i, 0] = (time[i] - origin) / span
        clocks[i, 1] = seen[i] / events
        degree[i] = facts[i, 0] + facts[i, 1]


@nb.njit(nogil=True, cache=True)
def find_active(place: Any, row: Any, here: Any, carried: Any, arena: Any, active: Any) -> None:
    """Fill active [Q] from tables of facts, as in `Rows`: whether there was ever an event."""
    for q in range(len(place)):
        if place[q] < 0:
            active[q] = max(arena[row[q], 2], arena[row[q], 3]) > -np.inf
        elif place[q] < len(here):
            active[q] = True
        else:
            chain = place[q] - len(here)
            active[q] = max(carried[chain, 2], carried[chain, 3]) > -np.inf
