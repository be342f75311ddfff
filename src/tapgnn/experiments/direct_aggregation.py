"""TAP-GNN*: the trained weights on embeddings aggregated directly from the whole neighbourhood (Section 4.2).

    h(v, t) of every temporal node from all links of G_MP that reach it, layer by layer (`Kernel.reference`)

The rest is the same, so that its scores are those of the trained model to the rounding of sums.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from tapgnn.baselines import Method
from tapgnn.evaluation.harness import TAPGNNMethod
from tapgnn.evaluation.questions import TrainedModel
from tapgnn.events import Events, Floats, Ints


class DirectAggregation(TrainedModel):
    """A trained model that has observed some events, and aggregates directly from all of them for every answer."""

    def __init__(self, trained: TrainedModel, observed: Events) -> None:
        super().__init__(trained.model, trained.model.empty_state())
        self.table, self.log = trained.table, trained.encoded(observed)

    def forget(self) -> None:
        """Go back to before the first event."""
        self.log = self.log.slice(0, 0)

    def observe(self, events: Events) -> None:
        """Add events to those that are aggregated from."""
        self.log = self.log.append(self.encoded(events))

    def score(self, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] logits; queries within the log see what came strictly before them."""
        with torch.no_grad():
            trace, _ = self.model.advance(self.log, self.model.empty_state())
            trace.reached = trace.reached._replace(embedding=self.model.advance_directly(self.log))
            logits = self.model.score(trace, self._rows(src), self._rows(dst), time, self.question)
        return np.asarray(logits.double().numpy(force=True))

    def replay(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Floats:
        """[Q] as the reference, in one pass."""
        self.observe(events)
        return self.score(src, dst, time)


class WithDirectAggregation(TAPGNNMethod):
    """TAP-GNN, with direct aggregation as its other score."""

    def fit(self, train: Events, valid: Events) -> None:
        """Train, and observe the training events."""
        super().fit(train, valid)
        self.observed = train

    def alternatives(self) -> Mapping[str, Method]:
        """TAP-GNN*, by the name of `direct`."""
        return {"direct": DirectAggregation(self, self.observed)}
