"""GraphSAGE: W. L. Hamilton, R. Ying and J. Leskovec, "Inductive Representation Learning on Large Graphs", NIPS 2017.

    h_1(v) = ReLU(W_1 [x_v, mean of x_u over 10 drawn neighbours u])
    z_v    = W_2 [h_1(v), mean of h_1(u) over 25 drawn neighbours u], scaled to length 1
    loss   = -log s(z_u . z_v) - sum over 20 drawn n of log s(-z_u . z_n),   v within 4 steps of u on a walk

with s the logistic function and n drawn by degree^0.75. The graph is the static one of the training events: undirected,
each pair once; also what is asked later sees only this graph. Two scores, and the one with the higher AUC on validation
answers (`head` fixes one). Both are reported: `details` has their AUC on validation, `alternatives` asks either:

    dot        z_u . z_v
    logistic   logistic regression on [z_u, z_v]

Defaults: d = 128, 50 walks of 5 nodes from every node, batches of 512 pairs, 20 negatives, as in the reference.
fb-forum, paper's protocol, seed 0: 0.813 logistic, 0.692 dot (the TAP-GNN paper gives 0.724).

Departures:
- x_v is a learned vector, since the logs have no node features (the TAP-GNN paper does the same); for these the
  reference's learning rates are too small, so Adam runs with 0.003 for three epochs.
- A node that is needed several times in a batch draws its neighbours once.
- Neighbours are drawn without replacement, and all are taken where there are fewer.
- At most a million pairs, so that large graphs do not take hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, normalize

from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.baselines.shared.labelled_pairs import PairClassifier, Pairs, Table, rows_of
from tapgnn.baselines.shared.sage_layer import SageLayer, drawn
from tapgnn.baselines.static.static_vectors import EmbeddingMethod, Learned, Scorer, best_of
from tapgnn.baselines.static.walks import Projection, second_order_walks
from tapgnn.data.negatives import rng_for
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints

Head = Literal["best", "logistic", "dot"]
HEADS: tuple[Head, ...] = ("best", "logistic", "dot")


class SageNetwork(nn.Module):
    """Learned node vectors and two layers of means over a static graph."""

    def __init__(self, graph: Projection, width: int, samples: tuple[int, int]) -> None:
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
        below, (first, second) = drawn(self._graph, nodes, np.ones(len(nodes)), self.samples, seed, "question")
        hidden = torch.relu(self.first(self.vectors[torch.from_numpy(below)], first))
        return normalize(self.second(hidden, second), dim=1)


class DotScorer:
    """z_u . z_v."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def logits(self, src: Ints, dst: Ints) -> Floats:
        """[Q] the dot products, 0 for a node that training did not see."""
        products: Floats = (rows_of(self.table, src) * rows_of(self.table, dst)).sum(axis=1, dtype=np.float64)
        return products


class GraphSAGE(EmbeddingMethod):
    """Two mean layers over the static graph of the training events, learnt without labels."""

    name = "graphsage"

    def __init__(
        self,
        seed: int = 0,
        width: int = 128,
        samples: tuple[int, int] = (25, 10),
        walks: int = 50,
        length: int = 5,
        negatives: int = 20,
        batch: int = 512,
        epochs: int = 3,
        learning_rate: float = 3e-3,
        most_pairs: int = 1_000_000,
        head: Head = "best",
    ) -> None:
        super().__init__(seed)
        if head not in HEADS:
            raise ConfigError(f"the head is {', '.join(HEADS)}, not {head!r}")
        self.width, self.samples, self.walks, self.length, self.negatives = width, samples, walks, length, negatives
        self.batch, self.epochs, self.learning_rate, self.most_pairs = batch, epochs, learning_rate, most_pairs
        self.head = head
        self._scorers: dict[str, Scorer] = {}

    def _learn(self, train: Events, practice: Pairs, exam: Pairs) -> Learned:
        graph = Projection.from_events(train)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            table = self._table(graph)
        scorers: dict[str, Scorer] = {"logistic": PairClassifier(table, practice), "dot": DotScorer(table)}
        marks = {f"{name}_valid_auc": best_of([name], scorers.__getitem__, exam)[2] for name in scorers}
        allowed = list(scorers) if self.head == "best" else [self.head]
        chosen, scorer, mark = best_of(allowed, scorers.__getitem__, exam)
        self._scorers = scorers
        return scorer, {"head": chosen, "valid_auc": mark, **marks}

    def alternatives(self) -> Mapping[str, GraphSAGE]:
        """The fit with each of the two scores."""
        return {name: self.answering(scorer) for name, scorer in self._scorers.items()}

    def _table(self, graph: Projection) -> Table:
        """[N, d] the vectors of all nodes; zero for rows of the vocabulary that have no neighbour."""
        network = SageNetwork(graph, self.width, self.samples)
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, fused=True)
        rng = rng_for(self.seed, "training")
        near, far = self._pairs(graph, rng)
        often = np.diff(graph.border) ** 0.75
        for _ in range(self.epochs):
            for start in range(0, len(near), self.batch):
                rows = slice(start, start + self.batch)
                other = rng.choice(len(graph), self.negatives, p=often / often.sum())
                loss = _loss(network, near[rows], far[rows], other, int(rng.integers(2**62)))
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

    def _pairs(self, graph: Projection, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """[P] nodes and [P] others that walks from them reach, shuffled."""
        starts = np.repeat(graph.nodes(), self.walks)
        walks = second_order_walks(graph, starts, self.length, 1.0, 1.0, self.seed)
        near, far = np.repeat(walks[:, 0], self.length - 1), walks[:, 1:].ravel()
        kept = rng.permutation(np.flatnonzero((far >= 0) & (far != near)))[: self.most_pairs]
        return near[kept], far[kept]


def _loss(network: SageNetwork, near: Ints, far: Ints, other: Ints, seed: int) -> Tensor:
    nodes, place = np.unique(np.concatenate([near, far, other]), return_inverse=True)
    z = network(nodes, seed)[torch.from_numpy(place)]
    left, right, wrong = z.split([len(near), len(far), len(other)])
    return -(logsigmoid((left * right).sum(dim=1)) + logsigmoid(-left @ wrong.T).sum(dim=1)).mean()
