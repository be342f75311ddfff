"""LocalGlobal: how lately and how often this source met the destination; failing that, how lately and how often anyone
did (F. Cornell, O. Smirnov, G. Zarzar Gandler and L. Cao, "On the Power of Heuristics in Temporal Graphs", arXiv
2502.04910, 2025). Nothing is trained.

    LR, LP      when u -> v last occurred before t, and how often: local recency and popularity
    GR, GP      when v was last a destination before t, and how often: global recency and popularity
    s(r, p)     = 1 / (1 + log(1 + t - r)) + tie p / (1 + p), and 0 where p = 0
    score       = 1 + s(LR, LP) where u met v before, s(GR, GP) elsewhere

A pair that met comes before all that did not, pairs that met are ranked by LR, the others by GR, and popularity decides
between equal recencies: tie = 1e-12 is less than what one second makes to an age of a year.

Differences: the paper defines the four heuristics and combines them in several ways; this is the one that its entry on
tgbl-wiki is named after, as far as the public descriptions tell. It ranks the destinations of one query by the times
themselves; here a score falls with the age, which ranks them alike and lets scores be compared across queries, as AUC
does (see `Recency`).

fb-forum, protocol 'paper', seed 0: test AUC 0.979.
"""

from __future__ import annotations

import numpy as np

from tapgnn.baselines.method import Method
from tapgnn.baselines.trivial import KeyHistory
from tapgnn.events import Events, Floats, Ints

TIE = 1e-12


class GlobalStrength(KeyHistory):
    """How lately, and then how often, the destination was one: s(GR, GP)."""

    name = "global"

    def _rate(self, count: Ints, latest: Floats, time: Floats) -> Floats:
        known = count > 0
        age = time - np.where(known, latest, time)
        strength: Floats = known * (1.0 / (1.0 + np.log1p(age)) + TIE * count / (1.0 + count))
        return strength


class LocalStrength(GlobalStrength):
    """How lately, and then how often, the pair met in this direction: s(LR, LP)."""

    name = "local"

    def _query_keys(self, src: Ints, dst: Ints) -> Ints:
        return (src << 32) | dst


class LocalGlobal(Method):
    """Local recency first, global recency for pairs that never met, popularity for ties."""

    name = "local-global"
    sees_history = True

    def __init__(self) -> None:
        self._local, self._global = LocalStrength(), GlobalStrength()

    def fit(self, train: Events, valid: Events) -> None:
        """Forget everything, then observe the training events."""
        for part in (self._local, self._global):
            part.fit(train, valid)

    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] from everything observed."""
        return _combined(*(part.score(src, dst, time) for part in (self._local, self._global)))

    def observe(self, events: Events) -> None:
        """Count the pairs and the destinations of the events, and keep their latest times."""
        for part in (self._local, self._global):
            part.observe(events)

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] the same scores as the reference, in one pass."""
        return _combined(*(part.replay(events, src, dst, time) for part in (self._local, self._global)))


def _combined(local: Floats, everywhere: Floats) -> Floats:
    """[Q] the local strength where there is one, before the global one elsewhere."""
    return np.where(local > 0.0, 1.0 + local, everywhere)
