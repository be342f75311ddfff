"""Popularity: a destination that was chosen often will be chosen again.

score(u, v, t) = the number of events before t in which v was the destination
"""

from __future__ import annotations

import numpy as np

from tapgnn.baselines.trivial.key_history import KeyHistory
from tapgnn.events import Floats, Ints


class Popularity(KeyHistory):
    """How often the destination was one so far."""

    name = "popularity"

    def _rate(self, count: Ints, latest: Floats, time: Floats) -> Floats:
        return count.astype(np.float64)
