"""Facts: what is known of a node without any weights. When was it last active, how often, in which role.

Per node, in float64, for the roles source and destination:

    count   messages received so far                      last   time of the latest one, -inf for never
    seen    events of the whole graph up to and including that instant: a clock that ticks with activity
    recent  counts that halve with each of the model's half-lives

They fold along the chains like every other state; all columns of one temporal node are one row.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

COUNT, LAST, SEEN, RECENT = 0, 2, 4, 6


def facts_width(half_lives: int) -> int:
    """How many facts a node keeps."""
    return RECENT + 2 * half_lives


def empty_facts(half_lives: int) -> Any:
    """The facts of a node with no history."""
    row = np.zeros(facts_width(half_lives))
    row[LAST : LAST + 2] = -np.inf
    return row


@nb.njit(nogil=True, cache=True, error_model="numpy")
def fold_facts(
    chain: Any, inbox: Any, role: Any, time: Any, seen: Any, rate: Any, carried: Any, facts: Any, elapsed: Any
) -> None:
    """Fill facts [T, F], and elapsed [T] since the node was last active (0 where never), from carried [C, F].

    time and seen [T] are those of the temporal nodes; rate [H] is per unit of time.
    """
    width, rates = carried.shape[1], len(rate)
    for c in range(len(chain) - 1):
        for i in range(chain[c], chain[c + 1]):
            before = carried[c] if i == chain[c] else facts[i - 1]
            last = max(before[LAST], before[LAST + 1])
            elapsed[i] = time[i] - last if last > -np.inf else 0.0
            for j in range(width):
                facts[i, j] = before[j]
            for h in range(rates):
                kept = np.exp(-rate[h] * elapsed[i])
                facts[i, RECENT + 2 * h] *= kept
                facts[i, RECENT + 2 * h + 1] *= kept
            for m in range(inbox[i], inbox[i + 1]):
                facts[i, COUNT + role[m]] += 1.0
                facts[i, LAST + role[m]] = time[i]
                facts[i, SEEN + role[m]] = seen[i]
                for h in range(rates):
                    facts[i, RECENT + 2 * h + role[m]] += 1.0
