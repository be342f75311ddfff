"""CTDNE: G. H. Nguyen, J. B. Lee, R. A. Rossi, N. K. Ahmed, E. Koh and S. Kim, "Continuous-Time Dynamic Network
Embeddings", BigNet workshop of The Web Conference 2018.

    walk         a uniform choice among all events as the first step, then each step a uniform choice among the events
                 of the node that are strictly later than the last one
    corpus       walks * N walks of at least `shortest` nodes and at most `length`
    vectors      skip-gram with negative sampling on the walks (see `skipgram`)
    score(u, v)  logistic regression on [z_u, z_v]

Defaults of the reference: d = 128, walks = 10, length = 80, window = 10, shortest = window, uniform choices. Events
are undirected: a first step is taken in either direction with equal probability. A node that no walk reached has the
vector zero. fb-forum, paper's protocol, seed 0: 0.828.

Differences:
- The reference fills the corpus until it holds walks * N * (length - window + 1) contexts of `window` nodes. Where
  walks end early, as on fb-forum (half of them within 7 nodes), that takes 25 times as many walks, and vectors trained
  so long no longer show a linear classifier how active a node is: validation AUC about 0.73 against 0.80 here.
- In a log where long walks are rare the corpus may never be full: after `patience` rounds of walks * N attempts the
  longest of the shorter walks of the last round fill it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tapgnn.baselines.method import Details
from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.baselines.shared.labelled_pairs import PairClassifier, Pairs
from tapgnn.baselines.static.embedding_method import Scorer, validation_auc
from tapgnn.baselines.static.skipgram import WalkMethod
from tapgnn.baselines.static.walks import temporal_walks
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints


@dataclass(eq=False)
class CTDNE(WalkMethod):
    """Walks that respect time, skip-gram, logistic regression."""

    name = "ctdne"

    shortest: int = 10
    patience: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.shortest <= self.length:
            raise ConfigError(f"shortest must lie between 2 and the length {self.length}, not {self.shortest}")

    def _learn(self, train: Events, train_pairs: Pairs, valid_pairs: Pairs) -> tuple[Scorer, Details]:
        nodes = np.unique(np.concatenate([train.src, train.dst]))
        corpus = self._corpus(train, self.walks * len(nodes))
        model = self._skip_gram()
        model.train(corpus)
        self.vectors = model.table(int(nodes[-1]) + 1)
        scorer = PairClassifier(self.vectors, train_pairs)
        unreached = len(nodes) - len(np.unique(corpus[corpus >= 0]))
        auc = validation_auc(scorer, valid_pairs)
        return scorer, {"walks": len(corpus), "unreached_nodes": unreached, "valid_auc": auc}

    def represent(self, events: Events, node: Ints, time: Floats) -> NDArray[np.float32]:
        """z [Q, d] of nodes, whatever the time; zero for a node that training did not reach."""
        known = np.append(self.vectors, np.zeros((1, self.width), dtype=np.float32), axis=0)
        self.observe(events)
        return known[np.where(node < len(self.vectors), node, -1)]

    def _corpus(self, train: Events, wanted: int) -> Ints:
        """[wanted, length] walks, -1 after their ends."""
        graph = Adjacency(train)
        found: list[Ints] = []
        for attempt in range(self.patience):
            rng = np.random.default_rng([self.seed, attempt])
            first, turned = rng.integers(len(train), size=wanted), rng.random(wanted) < 0.5
            start = np.where(turned, train.dst[first], train.src[first])
            second = np.where(turned, train.src[first], train.dst[first])
            further = temporal_walks(graph, second, train.time[first], self.length - 2, int(rng.integers(2**62)))
            walks = np.column_stack([start, second, further])
            size = (walks >= 0).sum(axis=1)
            found.append(walks[size >= self.shortest])
            if sum(map(len, found)) >= wanted:
                return np.concatenate(found)[:wanted]
        short = np.flatnonzero(size < self.shortest)
        longest_first = short[np.argsort(-size[short], kind="stable")]
        return np.concatenate([*found, walks[longest_first]])[:wanted]
