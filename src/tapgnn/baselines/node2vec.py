"""Node2Vec: A. Grover and J. Leskovec, "node2vec: Scalable Feature Learning for Networks", KDD 2016.

    walk         P(x | v, reached from w) ~ 1/p if x = w, 1 if x and w are neighbours, 1/q otherwise
    vectors      skip-gram with negative sampling on the walks (see `skipgram`)
    score(u, v)  logistic regression on [z_u, z_v]

The graph is the static one of the training events: undirected, each pair once. Defaults of the reference: d = 128, 10
walks of 80 nodes from every node, window 10, one epoch, 5 negatives; p and q from 0.25, 0.5, 1, 2, 4. fb-forum,
paper's protocol, seed 0: 0.827.

Departures:
- p and q are chosen on validation one after the other (q with p = 1, then p with that q: 9 trials instead of 25), with
  vectors learnt from `trial_walks` walks; the chosen pair is then learnt from all. The grid with all walks costs 25
  times as much as the fit itself.
- A pair is its two vectors side by side, as the TAP-GNN paper has it; the reference multiplies them. A linear score of
  [z_u, z_v] says how active each end is, and nothing about the two together.
- A pair of nodes that met often counts once: walks by the number of meetings are worse (fb-forum, p = q = 1, validation
  AUC 0.769 instead of 0.814).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tapgnn.baselines.embedding import EmbeddingMethod, Learned, Scorer, best_of
from tapgnn.baselines.pairs import PairClassifier, Pairs
from tapgnn.baselines.skipgram import SkipGram, sentences
from tapgnn.baselines.walks import Projection, second_order_walks
from tapgnn.data.negatives import chance
from tapgnn.events import Events, Ints

GRID = (1.0, 0.25, 0.5, 2.0, 4.0)


class Node2Vec(EmbeddingMethod):
    """Second-order walks on the static graph of the training events, skip-gram, logistic regression."""

    name = "node2vec"

    def __init__(
        self,
        seed: int = 0,
        width: int = 128,
        walks: int = 10,
        length: int = 80,
        window: int = 10,
        negatives: int = 5,
        epochs: int = 1,
        grid: tuple[float, ...] = GRID,
        trial_walks: int = 4_000,
    ) -> None:
        """`grid` holds the values tried for q and for p; a single one is used as it is."""
        super().__init__(seed)
        self.width, self.walks, self.length, self.window = width, walks, length, window
        self.negatives, self.epochs, self.grid, self.trial_walks = negatives, epochs, grid, trial_walks

    def _learn(self, train: Events, practice: Pairs, exam: Pairs) -> Learned:
        graph = Projection.from_events(train)
        rng = chance(self.seed, "training")
        starts = np.concatenate([rng.permutation(graph.nodes()) for _ in range(self.walks)])

        def fitted(setting: tuple[float, float], chosen: Ints) -> Scorer:
            walks = second_order_walks(graph, chosen, self.length, *setting, self.seed)
            model = SkipGram(self.width, self.window, self.negatives, self.epochs, self.seed)
            model.learn(sentences(walks))
            return PairClassifier(model.table(len(graph)), practice)

        @cache
        def tried(setting: tuple[float, float]) -> Scorer:
            return fitted(setting, starts[: self.trial_walks])

        p, q = self.grid[0], self.grid[0]
        if len(self.grid) > 1:
            (p, q), _, _ = best_of([(p, value) for value in self.grid], tried, exam)
            (p, q), _, _ = best_of([(value, q) for value in self.grid], tried, exam)
        _, scorer, mark = best_of([(p, q)], lambda setting: fitted(setting, starts), exam)
        return scorer, {"p": p, "q": q, "valid_auc": mark}
