"""CTDNE: G. H. Nguyen, J. B. Lee, R. A. Rossi, N. K. Ahmed, E. Koh and S. Kim, "Continuous-Time Dynamic Network
Embeddings", BigNet workshop of The Web Conference 2018.

    walk         a uniform choice among all events as the first step, then each step a uniform choice among the events
                 of the node that are strictly later than the last one
    corpus       walks * N walks of at least `shortest` nodes and at most `length`
    vectors      skip-gram with negative sampling on the walks (see `skipgram`)
    score(u, v)  logistic regression on [z_u, z_v]

Defaults of the reference: d = 128, walks = 10, length = 80, window = 10, shortest = window, uniform choices. Events
are undirected: a first step is taken in either direction with equal chance. A node that no walk reached has the vector
zero. fb-forum, paper's protocol, seed 0: 0.828.

Departures:
- The reference fills the corpus until it holds walks * N * (length - window + 1) contexts of `window` nodes. Where
  walks end early, as on fb-forum (half of them within 7 nodes), that takes 25 times as many walks, and vectors trained
  so long no longer show a linear classifier how active a node is: AUC on validation about 0.73 against 0.80 here.
- In a log where long walks are rare the corpus may never be full: after `patience` rounds of walks * N tries the
  longest of the shorter walks of the last round fill it.
"""

from __future__ import annotations

import numpy as np

from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.baselines.shared.labelled_pairs import PairClassifier, Pairs
from tapgnn.baselines.static.skipgram import SkipGram, sentences
from tapgnn.baselines.static.static_vectors import EmbeddingMethod, Learned, best_of
from tapgnn.baselines.static.walks import temporal_walks
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Ints


class CTDNE(EmbeddingMethod):
    """Walks that respect time, skip-gram, logistic regression."""

    name = "ctdne"

    def __init__(
        self,
        seed: int = 0,
        width: int = 128,
        walks: int = 10,
        length: int = 80,
        shortest: int = 10,
        window: int = 10,
        negatives: int = 5,
        epochs: int = 1,
        patience: int = 20,
    ) -> None:
        super().__init__(seed)
        if not 2 <= shortest <= length:
            raise ConfigError(f"2 <= shortest <= length must hold for walks, not {shortest} and {length}")
        self.width, self.walks, self.length, self.shortest = width, walks, length, shortest
        self.window, self.negatives, self.epochs, self.patience = window, negatives, epochs, patience

    def _learn(self, train: Events, practice: Pairs, exam: Pairs) -> Learned:
        nodes = np.unique(np.concatenate([train.src, train.dst]))
        corpus = self._corpus(train, self.walks * len(nodes))
        model = SkipGram(self.width, self.window, self.negatives, self.epochs, self.seed)
        model.learn(sentences(corpus))
        table = model.table(int(nodes[-1]) + 1)
        _, scorer, mark = best_of([0], lambda _: PairClassifier(table, practice), exam)
        unreached = len(nodes) - len(np.unique(corpus[corpus >= 0]))
        return scorer, {"walks": len(corpus), "unreached_nodes": unreached, "valid_auc": mark}

    def _corpus(self, train: Events, wanted: int) -> Ints:
        """[wanted, length] walks, -1 after their ends."""
        graph = Adjacency(train)
        found: list[Ints] = []
        for tries in range(self.patience):
            walks = self._tries(train, graph, wanted, tries)
            size = (walks >= 0).sum(axis=1)
            found.append(walks[size >= self.shortest])
            if sum(map(len, found)) >= wanted:
                return np.concatenate(found)[:wanted]
        short = np.flatnonzero(size < self.shortest)
        longest_first = short[np.argsort(-size[short], kind="stable")]
        return np.concatenate([*found, walks[longest_first]])[:wanted]

    def _tries(self, train: Events, graph: Adjacency, count: int, tries: int) -> Ints:
        """[count, length] walks of any size, from uniformly drawn events."""
        rng = np.random.default_rng([self.seed, tries])
        first, turned = rng.integers(len(train), size=count), rng.random(count) < 0.5
        start = np.where(turned, train.dst[first], train.src[first])
        second = np.where(turned, train.src[first], train.dst[first])
        if self.length == 2:
            return np.column_stack([start, second])
        further, _ = temporal_walks(graph, second, train.time[first], self.length - 2, int(rng.integers(2**62)))
        return np.column_stack([start, second, further])
