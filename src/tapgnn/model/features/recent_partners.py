"""Recent partners: with whom a node had events lately, how often in each role, and when: an exact memory of pairs.

A row of a node begins with what is known of its partners as a whole:

    KEY    of the node itself                             FIRST  time of its first event, -inf for never
    BEGAN  events of the whole graph up to and including then, and AT, up to and including its latest event
    NEW    partners that were new when it met them, as source and as destination
    RECENT such partners in any role, counts that halve with each of the model's half-lives on the clock of events

Then follows a number of slots, one a partner, each of six columns:

    KEY    of the partner, a hash of its id; 0 for a free slot
    LAST   time of the latest event of the two            SEEN   events of the whole graph up to and including then
    OWN    messages that the node itself had received by then
    OUT    events with it as source towards the partner   IN     as destination

An event is noted at both of its ends. When all slots are taken, the partner that was silent longest gives way: a pair
is remembered as long as one of its ends remembers it, and a hub does not erase what its customers know. A partner that
was forgotten is new again. The rows fold along the chains like every other state.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.compiled.jit import compiled
from tapgnn.model.features.node_statistics import COUNT

FIRST, BEGAN, AT, NEW, RECENT = 1, 2, 3, 4, 6
KEY, LAST, SEEN, OWN, OUT, SLOT = 0, 1, 2, 3, 4, 6
# What is known of a pair at a query, see `pair_facts`.
MET, PAUSE, TICKS, OWN_EVENTS, COUNTS, PAIR_FACTS = 0, 1, 2, 3, 5, 7
# A node that nobody knows has met nobody, not even another one of its kind.
NOBODY = -1.0


def partners_width(slots: int, rates: int) -> int:
    """Numbers in a row, with `rates` decaying counts."""
    return RECENT + rates + SLOT * slots if slots else 0


def empty_partners(slots: int, rates: int) -> Any:
    """The row of a node that nobody knows."""
    row = np.zeros(partners_width(slots, rates))
    row[KEY : KEY + 1] = NOBODY
    row[FIRST : FIRST + 1] = -np.inf
    row[RECENT + rates + LAST :: SLOT] = -np.inf
    return row


def partner_keys(hashes: NDArray[np.uint64]) -> Any:
    """[n] keys of nodes from the hashes of their ids: whole numbers from 1 on that float64 holds exactly."""
    return ((hashes >> np.uint64(12)) + np.uint64(1)).astype(np.float64)


@compiled
def fold_partners(view: Any, owner: Any, seen: Any, rate: Any, statistics: Any, carried: Any, rows: Any) -> None:
    """Fill rows [T, .] from those carried into the chains [C, .].

    seen [T] counts the events of the graph up to each temporal node, statistics [T, F] are its node statistics; rate
    [H] is per event.
    """
    chain, inbox, sender, role, time = view.chain, view.inbox, view.sender, view.role, view.time
    width, begin = carried.shape[1], RECENT + len(rate)
    for c in range(len(chain) - 1):
        for i in range(chain[c], chain[c + 1]):
            before = carried[c] if i == chain[c] else rows[i - 1]
            for j in range(width):
                rows[i, j] = before[j]
            if rows[i, FIRST] == -np.inf:
                rows[i, FIRST], rows[i, BEGAN], rows[i, AT] = time[i], seen[i], seen[i]
            for h in range(len(rate)):
                rows[i, RECENT + h] *= np.exp(-rate[h] * (seen[i] - rows[i, AT]))
            rows[i, AT] = seen[i]
            own = statistics[i, COUNT] + statistics[i, COUNT + 1]
            for m in range(inbox[i], inbox[i + 1]):
                key = carried[owner[sender[m]], KEY]
                slot, silent = -1, begin
                for start in range(begin, width, SLOT):
                    if rows[i, start + KEY] == key:
                        slot = start
                    if rows[i, start + LAST] < rows[i, silent + LAST]:
                        silent = start
                if slot < 0:
                    slot = silent
                    rows[i, slot + KEY], rows[i, slot + OUT], rows[i, slot + OUT + 1] = key, 0.0, 0.0
                    rows[i, NEW + role[m]] += 1.0
                    for h in range(len(rate)):
                        rows[i, RECENT + h] += 1.0
                rows[i, slot + LAST], rows[i, slot + SEEN], rows[i, slot + OWN] = time[i], seen[i], own
                rows[i, slot + OUT + role[m]] += 1.0


@compiled
def _slot_of(row: Any, key: Any, begin: Any) -> Any:
    """Where the slot of a partner starts in a row, 0 where it is not remembered; the first slot starts at `begin`."""
    found = 0
    for start in range(begin, len(row), SLOT):
        if row[start + KEY] == key:
            found = start
    return found


@compiled
def pair_facts(partners: Any, statistics: Any, time: Any, seen: Any, unit: Any, rates: Any, facts: Any) -> None:
    """Fill facts [Q, PAIR_FACTS] of pairs: the rows [2Q, .] of their sources, then those of their destinations.

    MET         1 where the two are known to have met, else 0
    PAUSE       log(1 + time since they last met / unit)          TICKS   log(1 + events of the graph since)
    OWN_EVENTS  log(1 + events of the source since), then of the destination; all of them where only the other end
                remembers
    COUNTS      log(1 + events from source to destination), then of the other direction

    Of two that never met the counts are 0, and what is since they met is NaN. A row has `rates` decaying counts.
    """
    size, begin = len(facts), RECENT + rates
    for q in range(size):
        left, right = partners[q], partners[size + q]
        known = left[KEY] > 0 and right[KEY] > 0
        ours = _slot_of(left, right[KEY], begin) if known else 0
        theirs = _slot_of(right, left[KEY], begin) if known else 0
        for j in range(PAIR_FACTS):
            facts[q, j] = np.nan
        last, ticks, out, back = -np.inf, 0.0, 0.0, 0.0
        for end in range(2):
            row, slot = (left, ours) if end == 0 else (right, theirs)
            node = statistics[q] if end == 0 else statistics[size + q]
            own = node[COUNT] + node[COUNT + 1]
            if slot > 0:
                last, ticks = row[slot + LAST], seen[q] - row[slot + SEEN]
                out = max(out, row[slot + OUT + end])
                back = max(back, row[slot + OUT + 1 - end])
                own -= row[slot + OWN]
            if ours > 0 or theirs > 0:
                facts[q, OWN_EVENTS + end] = np.log1p(own)
        facts[q, MET] = 1.0 if last > -np.inf else 0.0
        facts[q, COUNTS], facts[q, COUNTS + 1] = np.log1p(out), np.log1p(back)
        if last > -np.inf:
            facts[q, PAUSE], facts[q, TICKS] = np.log1p((time[q] - last) / unit), np.log1p(ticks)
