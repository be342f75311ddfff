"""Recent partners: with whom a node had events lately, how often in each role, and when: an exact memory of pairs.

A row of a node is its own key, then a number of slots, one a partner, each of six columns:

    KEY    of the partner, a hash of its id; 0 for a free slot
    LAST   time of the latest event of the two            SEEN   events of the whole graph up to and including then
    OWN    messages that the node itself had received by then
    OUT    events with it as source towards the partner   IN     as destination

An event is noted at both of its ends. When all slots are taken, the partner that was silent longest gives way: a pair
is remembered as long as one of its ends remembers it, and a hub does not erase what its customers know. The rows fold
along the chains like every other state.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapgnn.compiled.jit import compiled
from tapgnn.model.features.node_statistics import COUNT

KEY, LAST, SEEN, OWN, OUT, SLOT = 0, 1, 2, 3, 4, 6
# What is known of a pair at a query, see `pair_facts`.
MET, PAUSE, TICKS, OWN_EVENTS, COUNTS, PAIR_FACTS = 0, 1, 2, 3, 5, 7
# A node that nobody knows has met nobody, not even another one of its kind.
NOBODY = -1.0


def partners_width(slots: int) -> int:
    """Numbers in a row."""
    return 1 + SLOT * slots if slots else 0


def empty_partners(slots: int) -> Any:
    """The row of a node that nobody knows."""
    row = np.zeros(partners_width(slots))
    row[:1] = NOBODY
    row[1 + LAST :: SLOT] = -np.inf
    return row


def partner_keys(hashes: NDArray[np.uint64]) -> Any:
    """[n] keys of nodes from the hashes of their ids: whole numbers from 1 on that float64 holds exactly."""
    return ((hashes >> np.uint64(12)) + np.uint64(1)).astype(np.float64)


@compiled
def fold_partners(view: Any, owner: Any, seen: Any, statistics: Any, carried: Any, rows: Any) -> None:
    """Fill rows [T, .] from those carried into the chains [C, .].

    seen [T] counts the events of the graph up to each temporal node, statistics [T, F] are its node statistics.
    """
    chain, inbox, sender, role, time = view.chain, view.inbox, view.sender, view.role, view.time
    width = carried.shape[1]
    for c in range(len(chain) - 1):
        for i in range(chain[c], chain[c + 1]):
            before = carried[c] if i == chain[c] else rows[i - 1]
            for j in range(width):
                rows[i, j] = before[j]
            own = statistics[i, COUNT] + statistics[i, COUNT + 1]
            for m in range(inbox[i], inbox[i + 1]):
                key = carried[owner[sender[m]], 0]
                slot, silent = -1, 1
                for start in range(1, width, SLOT):
                    if rows[i, start + KEY] == key:
                        slot = start
                    if rows[i, start + LAST] < rows[i, silent + LAST]:
                        silent = start
                if slot < 0:
                    slot = silent
                    rows[i, slot + KEY], rows[i, slot + OUT], rows[i, slot + OUT + 1] = key, 0.0, 0.0
                rows[i, slot + LAST], rows[i, slot + SEEN], rows[i, slot + OWN] = time[i], seen[i], own
                rows[i, slot + OUT + role[m]] += 1.0


@compiled
def _slot_of(row: Any, key: Any) -> Any:
    """Where the slot of a partner starts in a row, 0 where it is not remembered."""
    found = 0
    for start in range(1, len(row), SLOT):
        if row[start + KEY] == key:
            found = start
    return found


@compiled
def pair_facts(partners: Any, statistics: Any, time: Any, seen: Any, unit: Any, facts: Any) -> None:
    """Fill facts [Q, PAIR_FACTS] of pairs: the rows [2Q, .] of their sources, then those of their destinations.

    MET         1 where the two are known to have met, else 0; all others are 0 then
    PAUSE       log(1 + time since they last met / unit)          TICKS   log(1 + events of the graph since)
    OWN_EVENTS  log(1 + events of the source since), then of the destination; all of them where only the other end
                remembers
    COUNTS      log(1 + events from source to destination), then of the other direction
    """
    size = len(facts)
    for q in range(size):
        left, right = partners[q], partners[size + q]
        ours, theirs = _slot_of(left, right[0]), _slot_of(right, left[0])
        for j in range(PAIR_FACTS):
            facts[q, j] = 0.0
        if right[0] > 0 and left[0] > 0 and (ours > 0 or theirs > 0):
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
                facts[q, OWN_EVENTS + end] = np.log1p(own)
            facts[q, MET] = 1.0
            facts[q, PAUSE] = np.log1p((time[q] - last) / unit)
            facts[q, TICKS] = np.log1p(ticks)
            facts[q, COUNTS], facts[q, COUNTS + 1] = np.log1p(out), np.log1p(back)
