"""EdgeBank: what met before meets again (Poursafaei et al., NeurIPS 2022, "Towards Better Evaluation for Dynamic Link
Prediction", section 4).

    score(u, v, t) = 1 if u -> v occurred before t (unlimited), or within [t - window, t) (windowed), else 0

The pair is directed, as in the reference, which suggests the length of the test period as the window. Departure: there
the window ends at the batch; here it ends at the query itself, and the bank grows event by event, never by batch.
"""

from __future__ import annotations

import numpy as np

from tapgnn.baselines.method import Clock, Method, history_before
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints


class EdgeBank(Method):
    """Whether the directed pair was seen before, ever or within a window of time."""

    sees_history = True

    def __init__(self, window: float | None = None) -> None:
        if window is not None and not window > 0:
            raise ConfigError(f"the window is a positive length of time or None for all time, not {window}")
        self.window = window
        self.name = "edgebank" if window is None else "edgebank-window"
        self._forget()

    def _forget(self) -> None:
        self._clock = Clock()
        self._last: dict[int, float] = {}

    def fit(self, train: Events, valid: Events) -> None:
        """Forget everything, then observe the training events."""
        self._forget()
        self.observe(train)

    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] 1 where the pair is in the bank, else 0."""
        self._clock.check(time)
        return self._within(self._known(_pair(src, dst)), time)

    def observe(self, events: Events) -> None:
        """Put the pairs into the bank, with their latest time."""
        self._clock.advance(events)
        # Events come in order of time, so the last of equal keys is the latest.
        self._last.update(zip(_pair(events.src, events.dst).tolist(), events.time.tolist(), strict=True))

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] as the reference, in one pass."""
        self._clock.check(time)
        asked = _pair(src, dst)
        _, latest = history_before(_pair(events.src, events.dst), events.time, asked, time)
        latest = np.maximum(latest, self._known(asked))
        self.observe(events)
        return self._within(latest, time)

    def _known(self, pairs: Ints) -> Floats:
        return np.array([self._last.get(pair, -np.inf) for pair in pairs.tolist()], dtype=np.float64)

    def _within(self, latest: Floats, time: Floats) -> Floats:
        start = -np.inf if self.window is None else time - self.window
        return (np.isfinite(latest) & (latest >= start)).astype(np.float64)


def _pair(src: Ints, dst: Ints) -> Ints:
    """One integer per directed pair of rows; rows stay below 2^31."""
    return (src << 32) | dst
