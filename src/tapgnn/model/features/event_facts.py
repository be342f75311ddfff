"""What is known of an event (u, v, t) without weights, from what came strictly before t: plain counts and pauses.

Of either end, first the source u and then the destination v:

    pause, ticks      log(1 + time / unit), log(1 + events of the graph) since its latest event, by role and in any
    count             log(1 + events so far), by role
    recent            log(decayed count + floor) at each half-life, by role
    partners          log(1 + new partners so far), by role; log(decayed new partners + floor) at each half-life
    age               log(1 + time / unit), log(1 + events of the graph) since its first event

Then of the pair (`recent_partners.pair_facts`). NaN stands for what never was. A model without a memory of partners
knows neither those, nor the age, nor the pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapgnn.compiled.jit import compiled, program
from tapgnn.model.features.node_statistics import COUNT, LAST, SEEN, last_active, last_seen
from tapgnn.model.features.node_statistics import RECENT as RECENT_COUNTS
from tapgnn.model.features.recent_partners import BEGAN, FIRST, NEW, RECENT
from tapgnn.model.features.row_layout import COUNT_FLOOR

# Columns of an end before its decayed counts.
PLAIN = 8


def fact_names(rates: int, slots: int) -> tuple[str, ...]:
    """The columns of `event_facts`, for a model with `rates` half-lives and so many slots for partners."""
    roles = ("as_source", "as_destination")
    names = [f"{kind}_{role}" for kind in ("pause", "ticks") for role in (*roles, "any")]
    names += [f"count_{role}" for role in roles]
    names += [f"recent_{half}_{role}" for half in range(rates) for role in roles]
    pair: tuple[str, ...] = ()
    if slots:
        names += [f"partners_{role}" for role in roles]
        names += [f"new_partners_{half}" for half in range(rates)] + ["age", "age_in_events"]
        own = ("own_events_source", "own_events_destination")
        pair = ("met", "pause", "ticks", *own, "count_forth", "count_back")
    ends = [f"{end}_{name}" for end in ("source", "destination") for name in names]
    return (*ends, *(f"pair_{name}" for name in pair))


@program
def event_facts(past, partners, pairs, time, seen, unit, rate, facts):  # type: ignore[no-untyped-def]
    """Fill facts [Q, .] from the statistics past [2Q, F] and partners [2Q, .] of the sources, then destinations.

    pairs [Q, .] are the facts of the pairs.
    """
    width = (facts.shape[1] - pairs.shape[1]) // 2
    _count_ends(past, partners, time, seen, unit, rate, width, facts)
    ends = facts[:, : 2 * width]
    np.log(ends, ends)
    facts[:, 2 * width :] = pairs


@compiled
def _count_ends(past: Any, partners: Any, time: Any, seen: Any, unit: Any, rate: Any, width: Any, facts: Any) -> None:
    """Fill the columns of both ends with the numbers whose logarithms they are."""
    size, rates = len(facts), len(rate)
    for row in range(2 * size):
        node, q, at = past[row], row % size, width * (row // size)
        known = last_active(node) > -np.inf
        for role in range(2):
            never = node[LAST + role] == -np.inf
            facts[q, at + role] = np.nan if never else 1.0 + (time[row] - node[LAST + role]) / unit
            facts[q, at + 3 + role] = np.nan if never else 1.0 + seen[row] - node[SEEN + role]
            facts[q, at + 6 + role] = 1.0 + node[COUNT + role]
        ticks = seen[row] - last_seen(node)
        facts[q, at + 2] = 1.0 + (time[row] - last_active(node)) / unit if known else np.nan
        facts[q, at + 5] = 1.0 + ticks if known else np.nan
        follows = at + PLAIN + 2 * rates
        for h in range(rates):
            kept = np.exp(-ticks * rate[h])
            facts[q, at + PLAIN + 2 * h] = node[RECENT_COUNTS + 2 * h] * kept + COUNT_FLOOR
            facts[q, at + PLAIN + 2 * h + 1] = node[RECENT_COUNTS + 2 * h + 1] * kept + COUNT_FLOOR
            if partners.shape[1] > 0:
                facts[q, follows + 2 + h] = partners[row, RECENT + h] * kept + COUNT_FLOOR
        if partners.shape[1] > 0:
            facts[q, follows], facts[q, follows + 1] = 1.0 + partners[row, NEW], 1.0 + partners[row, NEW + 1]
            follows += 2 + rates
            facts[q, follows] = 1.0 + (time[row] - partners[row, FIRST]) / unit if known else np.nan
            facts[q, follows + 1] = 1.0 + seen[row] - partners[row, BEGAN] if known else np.nan
