"""Recent partners: with whom a node had events lately, how often in each role, and when: an exact memory of pairs.

A row of a node begins with what is known of its partners as a whole:

    KEY    of the node itself                             FIRST  time of its first event, -inf for never
    BEGAN  events of the whole graph up to and including then, and AT, up to and including its latest event
    NEW    partners that were new when it met them, as source and as destination
    RECENT such partners in any role, counts that halve with each of the model's half-lives on the clock of events

Then follow six blocks with a column for each of a number of slots, one a partner:

    KEY    of the partner, a hash of its id; 0 for a free slot
    LAST   time of the latest event of the two            SEEN   events of the whole graph up to and including then
    OWN    messages that the node itself had received by then
    OUT    events with it as source towards the partner   IN     as destination

An event is noted at both of its ends. When all slots are taken, the partner that was silent longest gives way: a pair
is remembered as long as one of its ends remembers it, and a hub does not erase what its customers know. A partner that
was forgotten is new again. The rows are scanned along the chains like every other state.

An instant has no order within: its messages are noted by partner, those as source first, whichever came first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tapgnn.compiled.jit import compiled, program
from tapgnn.compiled.numba_intrinsics import ROWS_AHEAD, row_at
from tapgnn.compiled.parallel import parallel, view
from tapgnn.compiled.row_lookup import Rows, fetch_row, find_address, plain_pick, rows_of
from tapgnn.model.features.node_statistics import COUNT
from tapgnn.model.features.row_layout import PairColumns as Pair
from tapgnn.model.features.row_layout import PartnerColumns as Partner

FIRST, BEGAN, AT, NEW, RECENT = Partner.FIRST, Partner.BEGAN, Partner.AT, Partner.NEW, Partner.RECENT
KEY, LAST, SEEN = Partner.KEY, Partner.LAST, Partner.SEEN
OWN, OUT, BLOCKS = Partner.OWN, Partner.OUT, Partner.BLOCKS
# What is known of a pair at a query, see `pair_facts`.
MET, PAUSE, TICKS = Pair.MET, Pair.PAUSE, Pair.TICKS
OWN_EVENTS, COUNTS, PAIR_FACTS = Pair.OWN_EVENTS, Pair.COUNTS, Pair.WIDTH
# A node that nobody knows has met nobody, not even another one of its kind.
NOBODY = -1.0


def partners_width(slots: int, rates: int) -> int:
    """Numbers in a row, with `rates` decaying counts."""
    return RECENT + rates + BLOCKS * slots if slots else 0


def empty_partners(slots: int, rates: int) -> Any:
    """The row of a node that nobody knows."""
    row = np.zeros(partners_width(slots, rates))
    row[KEY : KEY + 1] = NOBODY
    row[FIRST : FIRST + 1] = -np.inf
    row[RECENT + rates + slots * LAST : RECENT + rates + slots * SEEN] = -np.inf
    return row


def partner_keys(hashes: NDArray[np.uint64]) -> Any:
    """[n] keys of nodes from the hashes of their ids: whole numbers from 1 on that float64 holds exactly."""
    return ((hashes >> np.uint64(12)) + np.uint64(1)).astype(np.float64)


@program
def update_partners(view, owner, seen, rate, statistics, carried, rows):  # type: ignore[no-untyped-def]
    """Fill rows [T, .] from those carried into the chains [C, .].

    seen [T] counts the events of the graph up to each temporal node, statistics [T, F] are its node statistics; rate
    [H] is per event.
    """
    _update_partners(view.chain, carried.shape[1], (view, owner, seen, rate, statistics, carried, rows))


@parallel
@compiled
def _update_partners(first: Any, last: Any, chain: Any, arrays: Any) -> None:
    view, owner, seen, rate, statistics, carried, rows = arrays
    inbox, sender, role, time = view.inbox, view.sender, view.role, view.time
    width, begin = carried.shape[1], RECENT + len(rate)
    slots = (width - begin) // BLOCKS
    for c in range(first, last):
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
            for m in _by_partner(inbox[i], inbox[i + 1], role, owner, sender, carried):
                key = carried[owner[sender[m]], KEY]
                slot = _slot_of(rows[i], key, begin, slots)
                if slot < 0:
                    slot = begin
                    for s in range(begin, begin + slots):
                        if rows[i, s + slots * LAST] < rows[i, slot + slots * LAST]:
                            slot = s
                    rows[i, slot], rows[i, slot + slots * OUT], rows[i, slot + slots * (OUT + 1)] = key, 0.0, 0.0
                    rows[i, NEW + role[m]] += 1.0
                    for h in range(len(rate)):
                        rows[i, RECENT + h] += 1.0
                rows[i, slot + slots * LAST], rows[i, slot + slots * SEEN] = time[i], seen[i]
                rows[i, slot + slots * OWN] = own
                rows[i, slot + slots * (OUT + role[m])] += 1.0


@compiled
def _by_partner(first: Any, last: Any, role: Any, owner: Any, sender: Any, carried: Any) -> Any:
    """The messages from `first` to `last` by the key of the partner, and then by role."""
    order = np.arange(first, last)
    if last - first > 1:
        order = order[np.argsort(role[first:last], kind="mergesort")]
        key = np.empty(last - first)
        for m in range(last - first):
            key[m] = carried[owner[sender[order[m]]], KEY]
        order = order[np.argsort(key, kind="mergesort")]
    return order


@compiled
def _slot_of(row: Any, key: Any, begin: Any, slots: Any) -> Any:
    """The column of the key of a partner in a row, -1 where it is not remembered; keys start at `begin`."""
    found = -1
    for s in range(begin, begin + slots):
        if row[s] == key:
            found = s
    return found


@program
def pair_facts(rows, statistics, time, seen, left, unit, rates):  # type: ignore[no-untyped-def]
    """[Q, PAIR_FACTS] of pairs, from what is known of the left ends and then of the right ends, in blocks as long.

    MET         1 where the two are known to have met, else 0
    PAUSE       log(1 + time since they last met / unit)          TICKS   log(1 + events of the graph since)
    OWN_EVENTS  log(1 + events of the left end since), then of the right end; all of them where only the other end
                remembers
    COUNTS      log(1 + events from left to right), then of the other direction

    Of two that never met the counts are 0, and what is since they met is NaN. rows hold the partners, and `rates`
    decaying counts; statistics [n, F] are those of the ends.
    """
    facts = np.full((len(time) - left, PAIR_FACTS), np.nan)
    _fill_pairs(rows, statistics, time, seen, left, unit, rates, facts)
    return facts


@compiled
def _fill_pairs(rows: Any, statistics: Any, time: Any, seen: Any, left: Any, unit: Any, rates: Any, facts: Any) -> None:
    begin, width = RECENT + rates, rows.arena.shape[1]
    slots = (width - begin) // BLOCKS
    for u in range(left):
        ahead = min(u + ROWS_AHEAD, left - 1)
        for q in range(ahead, len(time), left):
            fetch_row(rows, q)
        ours = row_at(find_address(rows, u), (width,), rows.arena)
        for q in range(u, len(facts), left):
            v = left + q
            theirs = row_at(find_address(rows, v), (width,), rows.arena)
            facts[q, MET] = facts[q, COUNTS] = facts[q, COUNTS + 1] = 0.0
            if ours[KEY] < 0 or theirs[KEY] < 0:
                continue
            mine = _slot_of(ours, theirs[KEY], begin, slots)
            other = _slot_of(theirs, ours[KEY], begin, slots)
            if mine < 0 and other < 0:
                continue
            since, last = statistics[u, COUNT] + statistics[u, COUNT + 1], 0.0
            since_theirs, met = statistics[v, COUNT] + statistics[v, COUNT + 1], 0.0
            out, back = 0.0, 0.0
            if mine >= 0:
                since -= ours[mine + slots * OWN]
                last, met = ours[mine + slots * LAST], ours[mine + slots * SEEN]
                out, back = ours[mine + slots * OUT], ours[mine + slots * (OUT + 1)]
            if other >= 0:
                since_theirs -= theirs[other + slots * OWN]
                last, met = theirs[other + slots * LAST], theirs[other + slots * SEEN]
                out = max(out, theirs[other + slots * (OUT + 1)])
                back = max(back, theirs[other + slots * OUT])
            facts[q, MET] = 1.0
            facts[q, PAUSE], facts[q, TICKS] = np.log1p((time[v] - last) / unit), np.log1p(seen[v] - met)
            facts[q, OWN_EVENTS], facts[q, OWN_EVENTS + 1] = np.log1p(since), np.log1p(since_theirs)
            facts[q, COUNTS], facts[q, COUNTS + 1] = np.log1p(out), np.log1p(back)


def find_pair_facts(
    rows: Rows, statistics: Tensor, time: Tensor, seen: Tensor, left: int, unit: float, rates: int
) -> Tensor:
    """`pair_facts` of tensors, where their rows stand."""
    return torch.from_numpy(pair_facts(Rows(*map(view, rows)), *map(view, (statistics, time, seen)), left, unit, rates))


def plain_pair_facts(
    rows: Rows, statistics: Tensor, time: Tensor, seen: Tensor, left: int, unit: float, rates: int
) -> Tensor:
    """`pair_facts` of tensors on any device."""
    copied = rows_of(plain_pick(rows).cpu())
    found = find_pair_facts(copied, statistics.cpu(), time.cpu(), seen.cpu(), left, unit, rates)
    return found.to(statistics.device)
