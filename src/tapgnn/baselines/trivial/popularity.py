"""Popularity: a destination that was chosen often will be chosen again.

score(u, v, t) = the number of events before t in which v was the destination (or took part, with role 'any')
"""

from __future__ import annotations

import numpy as np

from tapgnn.baselines.method import ROLES, Clock, Method, Role, ends, grown, history_before, look_up
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints


class Popularity(Method):
    """How often the destination was one so far; a self-loop counts twice with role 'any'."""

    sees_history = True

    def __init__(self, role: Role = "destination") -> None:
        if role not in ROLES:
            raise ConfigError(f"the role is {' or '.join(ROLES)}, not {role!r}")
        self.role = role
        self.name = "popularity" if role == "destination" else "popularity-any"
        self._forget()

    def _forget(self) -> None:
        self._clock = Clock()
        self._count = np.empty(0)

    def fit(self, train: Events, valid: Events) -> None:
        """Forget everything, then observe the training events."""
        self._forget()
        self.observe(train)

    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] how often each destination was active."""
        self._clock.check(time)
        return look_up(self._count, dst, 0.0)

    def observe(self, events: Events) -> None:
        """Count the nodes that were active."""
        self._clock.advance(events)
        nodes, _ = ends(events, self.role)
        self._count = grown(self._count, int(nodes.max(initial=-1)) + 1, 0.0)
        np.add.at(self._count, nodes, 1.0)

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] as the reference, in one pass."""
        earlier = self.score(src, dst, time)
        count, _ = history_before(*ends(events, self.role), dst, time)
        self.observe(events)
        return earlier + count
