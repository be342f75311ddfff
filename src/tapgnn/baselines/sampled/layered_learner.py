"""Layered learner: a stack of layers over sampled temporal neighbourhoods, what TGAT, TDGNN and GraphSAGE* share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from tapgnn.baselines.shared.adjacency import Adjacency, Neighbours
from tapgnn.baselines.shared.learner import NodeLearner
from tapgnn.baselines.shared.neighbourhood import Moment, frontiers
from tapgnn.events import Events, Floats, Ints


@dataclass(eq=False)
class LayeredLearner(NodeLearner):
    """A network that is called with the nodes at the bottom, one frontier per layer, and the state: the log itself."""

    moment: ClassVar[Moment] = "event"

    layers: int = 2
    neighbours: int = 20

    def _empty_state(self) -> Any:
        return Adjacency()

    def _sample(self, node: Ints, time: Floats, depth: int) -> Neighbours:
        """The most recent neighbours."""
        latest: Neighbours = self.state.latest(node, time, self.neighbours)
        return latest

    def _embed(self, events: Events, node: Ints, time: Floats) -> Tensor:
        self.state.append(events)
        h: Tensor = self.network(*frontiers(self._sample, node, time, self.layers, self.moment), self.state)
        return h
