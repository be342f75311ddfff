"""Node2Vec: A. Grover and J. Leskovec, "node2vec: Scalable Feature Learning for Networks", KDD 2016.

    walk         P(x | v, reached from w) ~ 1/p if x = w, 1 if x and w are neighbours, 1/q otherwise
    vectors      skip-gram with negative sampling on the walks (see `skipgram`)
    score(u, v)  logistic regression on [z_u, z_v]

The graph is the static one of the training events: undirected, each pair once. Defaults of the reference: d = 128, 10
walks of 80 nodes from every node, window 10, one epoch, 5 negatives. fb-forum, paper's protocol, seed 0: 0.841.

Differences:
- p and q are selected on validation from 0.25, 1 and 4 (the reference adds 0.5 and 2), q with p = 1, then p with that
  q: 5 fits instead of 25, each with all walks, and the selected one gives the scores. The best settings are close, and
  their order varies: soc-sign-bitcoinotc, validation AUC with seeds 0, 1 and 2:

      p, q     1, 1              1, 0.25           1, 4              0.25, 1           4, 1
      AUC      0.721 0.746 0.760 0.727 0.733 0.752 0.680 0.698 0.698 0.710 0.711 0.721 0.739 0.746 0.753

  Trials with fewer walks do not show this: with 4,000 of the 44,510, all settings are within 0.015 of each other, and
  q = 4 is as good as q = 1.
- A pair is represented by its two vectors concatenated, as in the TAP-GNN paper; the reference multiplies them. A
  linear score of [z_u, z_v] tells how active each end is, and nothing about the two together.
- A pair of nodes that met often counts once: walks weighted by the number of events are worse (fb-forum, p = q = 1,
  validation AUC about 0.77 instead of 0.81).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from tapgnn.baselines.method import Details
from tapgnn.baselines.shared.labelled_pairs import PairClassifier, Pairs
from tapgnn.baselines.static.embedding_method import Scorer, select
from tapgnn.baselines.static.skipgram import WalkMethod
from tapgnn.baselines.static.walks import StaticGraph, second_order_walks
from tapgnn.data.negatives import rng_for
from tapgnn.events import Events


@dataclass(eq=False)
class Node2Vec(WalkMethod):
    """Second-order walks on the static graph of the training events, skip-gram, logistic regression.

    `grid` holds the values tried for q, with the first of them as p, and then for p.
    """

    name = "node2vec"

    grid: tuple[float, ...] = (1.0, 0.25, 4.0)

    def _learn(self, train: Events, train_pairs: Pairs, valid_pairs: Pairs) -> tuple[Scorer, Details]:
        graph = StaticGraph.from_events(train)
        rng = rng_for(self.seed, "training")
        starts = np.concatenate([rng.permutation(graph.nodes()) for _ in range(self.walks)])

        @cache
        def fit(setting: tuple[float, float]) -> Scorer:
            model = self._skip_gram()
            model.train(second_order_walks(graph, starts, self.length, *setting, self.seed))
            return PairClassifier(model.table(len(graph)), train_pairs)

        first = self.grid[0]
        (_, q), _, _ = select([(first, value) for value in self.grid], fit, valid_pairs)
        (p, q), scorer, auc = select([(value, q) for value in self.grid], fit, valid_pairs)
        return scorer, {"p": p, "q": q, "valid_auc": auc}
