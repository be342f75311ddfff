"""GraphSAGE: W. L. Hamilton, R. Ying and J. Leskovec, "Inductive Representation Learning on Large Graphs", NIPS 2017.

    h_1(v) = ReLU(W_1 [x_v, mean of x_u over 10 drawn neighbours u])
    z_v    = W_2 [h_1(v), mean of h_1(u) over 25 drawn neighbours u], scaled to length 1
    loss   = -log s(z_u . z_v) - sum over 20 drawn n of log s(-z_u . z_n),   v within 4 steps of u on a walk

with s the logistic function and n drawn by degree^0.75. The graph is the static one of the training events: undirected,
each pair once; later queries see only this graph too. There are two scores, and the one with the higher validation AUC
is used (`head` fixes one). Both are reported: `details` has their validation AUC, `alternatives` gives each of them:

    dot        z_u . z_v
    logistic   logistic regression on [z_u, z_v]

Defaults: d = 128, 50 walks of 5 nodes from every node, batches of 512 pairs, 20 negatives, as in the reference.
fb-forum, paper's protocol, seed 0: 0.813 logistic, 0.692 dot (the TAP-GNN paper gives 0.724).

Differences:
- x_v is a learned vector, since the logs have no node features (the TAP-GNN paper does the same); for these the
  reference's learning rates are too small, so Adam runs with 0.003 for three epochs.
- A node that occurs several times in a batch draws its neighbours once.
- Neighbours are drawn without replacement, and all are taken where there are fewer.
- At most a million pairs, so that large graphs do not take hours.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, normalize

from tapgnn.baselines.method import Details
from tapgnn.baselines.shared.adjacency import Adjacency, Neighbours
from tapgnn.baselines.shared.labelled_pairs import PairClassifier, Pairs, Table
from tapgnn.baselines.shared.link_network import SageLayer
from tapgnn.baselines.shared.neighbourhood import frontiers
from tapgnn.baselines.shared.row_table import look_up
from tapgnn.baselines.static.embedding_method import EmbeddingMethod, Scorer, validation_auc
from tapgnn.baselines.static.walks import StaticGraph, second_order_walks
from tapgnn.data.negatives import rng_for
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints

Head = Literal["best", "logistic", "dot"]


class SageNetwork(nn.Module):
    """Learned node vectors and two layers of means over a static graph."""

    def __init__(self, graph: StaticGraph, width: int, samples: tuple[int, int]) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(len(graph), width) / width**0.5)
        self.first, self.second = SageLayer(width, width), SageLayer(width, width)
        self.samples = samples
        owner = np.repeat(np.arange(len(graph)), np.diff(graph.border))
        once = owner <= graph.partner
        # A static graph is one instant, seen from any later one.
        self._graph = Adjacency(Events(owner[once], graph.partner[once], np.zeros(int(once.sum()))))

    def forward(self, nodes: Ints, seed: int) -> Tensor:
        """z [R, d] of distinct nodes [R]."""

        def sample(node: Ints, time: Floats, depth: int) -> Neighbours:
            return self._graph.uniform(node, time, self.samples[depth], seed + depth)

        bottom, (first, second) = frontiers(sample, nodes, np.ones(len(nodes)), 2, "query")
        hidden = torch.relu(self.first(self.vectors[torch.from_numpy(bottom)], first.own, first.index))
        return normalize(self.second(hidden, second.own, second.index), dim=1)


def dot_scores(table: Table, src: Ints, dst: Ints) -> Floats:
    """[Q] z_u . z_v, 0 for a node that training did not see."""
    left, right = (look_up(table, rows, 0.0) for rows in (src, dst))
    return np.asarray((left * right).sum(axis=1, dtype=np.float64))


@dataclass(eq=False)
class GraphSAGE(EmbeddingMethod):
    """Two mean layers over the static graph of the training events, trained without labels."""

    name = "graphsage"

    width: int = 128
    samples: tuple[int, int] = (25, 10)
    walks: int = 50
    length: int = 5
    negatives: int = 20
    batch: int = 512
    epochs: int = 3
    learning_rate: float = 3e-3
    max_pairs: int = 1_000_000
    head: Head = "best"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head not in get_args(Head):
            raise ConfigError(f"the head must be one of {', '.join(get_args(Head))}, not {self.head!r}")
        if min(self.samples) < 1:
            raise ConfigError(f"the numbers of neighbours must be at least 1, not {self.samples}")
        self._scorers: dict[str, Scorer] = {}

    def _learn(self, train: Events, train_pairs: Pairs, valid_pairs: Pairs) -> tuple[Scorer, Details]:
        torch.manual_seed(self.seed)
        table = self._table(StaticGraph.from_events(train))
        self._scorers = {"logistic": PairClassifier(table, train_pairs), "dot": partial(dot_scores, table)}
        auc = {name: validation_auc(scorer, valid_pairs) for name, scorer in self._scorers.items()}
        head = max(auc, key=auc.__getitem__) if self.head == "best" else self.head
        aucs = {f"{name}_valid_auc": value for name, value in auc.items()}
        return self._scorers[head], {"head": head, "valid_auc": auc[head], **aucs}

    def alternatives(self) -> Mapping[str, GraphSAGE]:
        """The fit with each of the two scores, and a clock of its own."""
        others = {name: copy.copy(self) for name in self._scorers}
        for name, other in others.items():
            other._scorer, other._clock = self._scorers[name], copy.copy(self._clock)
        return others

    def _table(self, graph: StaticGraph) -> Table:
        """[N, d] the vectors of all nodes; zero for rows of the vocabulary that have no neighbour."""
        network = SageNetwork(graph, self.width, self.samples)
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, fused=True)
        rng = rng_for(self.seed, "training")
        near, far = self._pairs(graph, rng)
        weight = np.diff(graph.border) ** 0.75
        for _ in range(self.epochs):
            for start in range(0, len(near), self.batch):
                rows = slice(start, start + self.batch)
                negatives = rng.choice(len(graph), self.negatives, p=weight / weight.sum())
                nodes, place = np.unique(np.concatenate([near[rows], far[rows], negatives]), return_inverse=True)
                z = network(nodes, int(rng.integers(2**62)))[torch.from_numpy(place)]
                left, right, others = z.tensor_split([len(near[rows]), 2 * len(near[rows])])
                likely, unlikely = logsigmoid((left * right).sum(dim=1)), logsigmoid(-left @ others.T).sum(dim=1)
                loss = -(likely + unlikely).mean()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            order = rng.permutation(len(near))
            near, far = near[order], far[order]
        table = np.zeros((len(graph), self.width), dtype=np.float32)
        with torch.no_grad():
            for nodes in np.array_split(graph.nodes(), len(graph) // 4_096 + 1):
                table[nodes] = network(nodes, self.seed).numpy()
        return table

    def _pairs(self, graph: StaticGraph, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """[P] nodes and [P] others that walks from them reach, shuffled."""
        starts = np.repeat(graph.nodes(), self.walks)
        walks = second_order_walks(graph, starts, self.length, 1.0, 1.0, self.seed)
        near, far = np.repeat(walks[:, 0], self.length - 1), walks[:, 1:].ravel()
        kept = rng.permutation(np.flatnonzero((far >= 0) & (far != near)))[: self.max_pairs]
        return near[kept], far[kept]
