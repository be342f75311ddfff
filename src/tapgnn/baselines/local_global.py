"""LocalGlobal: how lately and how often this source met the destination; failing that, how lately and how often anyone
did (F. Cornell, O. Smirnov, G. Zarzar Gandler and L. Cao, "On the Power of Heuristics in Temporal Graphs", arXiv
2502.04910, 2025). Nothing is trained.

    LR, LP      when u -> v last occurred before t, and how often: local recency and popularity
    GR, GP      when v was last a destination before t, and how often: global recency and popularity
    s(r, p)     = 1 / (1 + log(1 + t - r)) + tie p / (1 + p), and 0 where p = 0
    score       = 1 + s(LR, LP) where u met v before, s(GR, GP) elsewhere

A pair that met comes before every pair that did not; pairs that met are ranked by LR, the others by GR, and popularity
decides between equal recencies: tie = 1e-12 is less than what one second makes to an age of a year.

Differences: the paper defines the four heuristics and combines them in several ways; this is the one that its entry on
tgbl-wiki is named after, as far as the public descriptions tell. It ranks the destinations of one query by the times
themselves; here a score falls with the age, which ranks them alike and lets scores be compared across queries, as AUC
does (see `Recency`).

fb-forum, protocol 'paper', seed 0: test AUC 0.979.
"""

from __future__ import annotations

import numpy as np

from tapgnn.baselines.trivial import KeyHistory, Keys, Occurrences, destination, directed_pair
from tapgnn.events import Floats, Ints

TIE = 1e-12


class LocalGlobal(KeyHistory):
    """Local recency first, global recency for pairs that never met, popularity for ties."""

    name = "local-global"

    def __init__(self) -> None:
        super().__init__(Keys(directed_pair), Keys(destination))

    def _rate(self, time: Floats, *history: Occurrences) -> Floats:
        local, anywhere = (_strength(time, *found) for found in history)
        return np.where(local > 0.0, 1.0 + local, anywhere)


def _strength(time: Floats, count: Ints, latest: Floats) -> Floats:
    """[Q] s(r, p): how lately, and then how often."""
    known = count > 0
    age = time - np.where(known, latest, time)
    strength: Floats = known * (1.0 / (1.0 + np.log1p(age)) + TIE * count / (1.0 + count))
    return strength
