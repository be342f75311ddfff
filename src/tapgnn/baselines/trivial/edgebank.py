"""EdgeBank: a pair that met before meets again (Poursafaei et al., "Towards Better Evaluation for Dynamic Link
Prediction", NeurIPS 2022, section 4).

    score(u, v, t) = 1 if u -> v occurred before t (unlimited), or within [t - window, t) (windowed), else 0

The pair is directed, as in the reference, which suggests the length of the test period as the window. Difference: there
the window ends at the batch; here it ends at the query itself, and the memory grows event by event, never by batch.
"""

from __future__ import annotations

import numpy as np

from tapgnn.baselines.trivial.key_history import KeyHistory
from tapgnn.errors import ConfigError
from tapgnn.events import Floats, Ints


class EdgeBank(KeyHistory):
    """Whether the directed pair was seen before, ever or within a time window."""

    def __init__(self, window: float | None = None) -> None:
        if window is not None and not window > 0:
            raise ConfigError(f"the window must be a positive length of time, or None for all time, not {window}")
        super().__init__()
        self.window = window
        self.name = "edgebank" if window is None else "edgebank-window"

    def _query_keys(self, src: Ints, dst: Ints) -> Ints:
        # One integer per directed pair; rows stay below 2^31.
        return (src << 32) | dst

    def _rate(self, count: Ints, latest: Floats, time: Floats) -> Floats:
        start = -np.inf if self.window is None else time - self.window
        return ((count > 0) & (latest >= start)).astype(np.float64)
