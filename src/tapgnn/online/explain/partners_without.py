"""The memory of partners (`recent_partners`) of a node, as it would be had one event not reached the node.

Everything is known of the partners with whom the node had all its remembered meetings within the history. Where a
meeting before the history would be needed, the row is only close, and `exact` says so. That a partner was forgotten for
lack of a slot stays as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tapgnn.events import Floats, Ints
from tapgnn.model.features.recent_partners import (
    AT,
    BEGAN,
    BLOCKS,
    FIRST,
    KEY,
    LAST,
    NEW,
    OUT,
    OWN,
    RECENT,
    SEEN,
    partner_keys,
)
from tapgnn.vocabulary import hash_ids

# What has decayed by more than exp of this is rounding: it is not made larger again.
FORGOTTEN = 14.0


class ReceivedMessages(NamedTuple):
    """M messages that a node received, oldest first: event, role, time, events seen, and key of the partner [M]."""

    event: Ints
    role: Ints
    time: Floats
    seen: Floats
    key: Floats

    @classmethod
    def of(cls, event: Ints, role: Ints, time: Floats, seen: Floats, partners: NDArray[Any]) -> ReceivedMessages:
        """With partners by their ids [M]."""
        return cls(event, role, time, seen, partner_keys(hash_ids(partners.tolist())))

    def take(self, chosen: Any) -> ReceivedMessages:
        """Some of them."""
        return ReceivedMessages(*(column[chosen] for column in self))

    def first_role(self) -> int:
        """The role in which the partner of all of these was new: as source, where both are of one instant."""
        return int(self.role[self.time == self.time[0]].min())


def partners_without(
    row: Floats, meetings: ReceivedMessages, event: int, count: int, rate: Floats
) -> tuple[Floats, bool]:
    """The row without the messages of an event, and whether it is exact.

    `count` are the messages that the node received in all; rate [H] of the decaying counts is per event of the graph.
    """
    row, gone = row.copy(), meetings.take(meetings.event == event)
    rest = meetings.take(meetings.event != event)
    left = count - len(gone.event)
    if not len(gone.event):
        return row, True
    slots = row[RECENT + len(rate) :].reshape(BLOCKS, -1).T
    slots[(slots[:, KEY] != 0) & (slots[:, SEEN] >= gone.seen[0]), OWN] -= len(gone.event)
    exact = _forget_meeting(row, slots, meetings, event, left, rate)
    if left == len(rest.event):
        row[FIRST], row[BEGAN] = (rest.time[0], rest.seen[0]) if left else (-np.inf, 0.0)
    latest = rest.seen[-1] if len(rest.seen) else row[AT] if left else 0.0
    kept, growth = row[RECENT : RECENT + len(rate)], rate * (row[AT] - latest)
    if not left:
        kept[:] = 0.0
    elif growth.max(initial=0.0) < FORGOTTEN:
        kept *= np.exp(growth)
    else:
        _, first = np.unique(rest.key, return_index=True)
        kept[:] = np.exp(-np.outer(latest - rest.seen[first], rate)).sum(axis=0)
        exact = exact and left == len(rest.event) and len(first) <= len(slots)
    row[AT] = latest
    return row, exact and (len(rest.event) > 0 or left == 0)


def _forget_meeting(row: Floats, slots: Any, meetings: ReceivedMessages, event: int, left: int, rate: Floats) -> bool:
    """Take the event out of the slot of its partner; False where an older meeting would have to be known."""
    rest = meetings.take(meetings.event != event)
    met = meetings.take(meetings.key == meetings.key[meetings.event == event][0])
    place = np.flatnonzero(slots[:, KEY] == met.key[0])
    if not len(place):
        return True
    slot, again = slots[place[0]], met.take(met.event != event)
    np.subtract.at(slot, OUT + met.role[met.event == event], 1.0)
    if slot[OUT] + slot[OUT + 1] == len(again.event):
        # New at their first meeting, which may be another one without this event.
        recent = row[RECENT : RECENT + len(rate)]
        row[NEW + met.first_role()] -= 1.0
        recent -= np.exp(-rate * (row[AT] - met.seen[0]))
        if not len(again.event):
            slot[:], slot[LAST] = 0.0, -np.inf
            return True
        row[NEW + again.first_role()] += 1.0
        recent += np.exp(-rate * (row[AT] - again.seen[0]))
    if not len(again.event):
        return False
    slot[LAST], slot[SEEN] = again.time[-1], again.seen[-1]
    slot[OWN] = left - np.count_nonzero(rest.seen > again.seen[-1])
    return True
