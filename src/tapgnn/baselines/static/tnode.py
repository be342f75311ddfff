"""TNODE (tNodeEmbed): U. Singer, I. Guy and K. Radinsky, "Node Embedding over Temporal Graphs", IJCAI 2019.

    Q_k          vectors of the static graph of all events up to border k, by walks and skip-gram, k = 1 .. S
    f_k(v)       the output of an LSTM that has read Q_1(v) R_1, ..., Q_k(v) R_k, each rotated onto the one before;
                 zeros while v did not exist (see `snapshots`)
    logit(u, v)  w ReLU(W [f(u), f(v)] + b) + c

The LSTM and the head are trained end to end on the training events and one random negative each. The S borders cut the
training events into equal parts, between two instants. S is selected from 8, 32, 128 on validation.

- A training event is scored from the snapshots that ended before it, so that it never sees itself; later queries are
  scored from all S. Later events are not seen.
- One skip-gram model runs through all 128 snapshots: each continues from the vectors of the one before, with walks from
  the nodes that are active in it. The other divisions take every fourth and every sixteenth of the same snapshots.

Defaults: d = 128, one walk of 80 nodes, window 10, 5 negatives; an LSTM of width 32, Adam 0.01, 60 steps of 4,096 pairs
at most, the best of every tenth step by validation. Paper's protocol: 0.860 on fb-forum (seed 0),
about 0.81 on ia-slashdot-reply-dir.

Cost: the snapshots take S * N * d / 2 numbers where nodes arrive evenly, and are the bulk of the memory; they lie in
one array of float32, rotated in place, and a coarser division is copied from it only while it is tried. The 39,000
nodes and 100,000 training events of ia-slashdot-reply-dir took 3.3 GB in all and less than five minutes of one core.

Differences: the reference learns each snapshot from scratch with 10 walks from every node (here that would be 128 times
the cost of Node2Vec, and leave more to align), takes p and q as in node2vec (here 1), and trains the LSTM on events
after all snapshots, which do not exist under a protocol where training ends with the last one.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np
import torch

from tapgnn.baselines.method import Details
from tapgnn.baselines.shared.labelled_pairs import Pairs
from tapgnn.baselines.shared.row_table import look_up
from tapgnn.baselines.static.embedding_method import Scorer, select, validation_auc
from tapgnn.baselines.static.skipgram import WalkMethod
from tapgnn.baselines.static.snapshots import SnapshotNetwork, Snapshots
from tapgnn.baselines.static.walks import StaticGraph, second_order_walks
from tapgnn.data.negatives import rng_for
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Ints


@dataclass(eq=False)
class TNODE(WalkMethod):
    """Aligned vectors of growing static graphs, read by an LSTM that is trained end to end.

    `divisions` holds the numbers of snapshots that are tried; each must divide the largest.
    """

    name = "tnode"

    walks: int = 1
    divisions: tuple[int, ...] = (8, 32, 128)
    lstm_width: int = 32
    steps: int = 60
    batch: int = 4_096
    learning_rate: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        largest = max(self.divisions, default=0)
        if largest < 1 or any(division < 1 or largest % division for division in self.divisions):
            raise ConfigError(f"divisions must be positive and divide the largest, not {self.divisions}")

    def _learn(self, train: Events, train_pairs: Pairs, valid_pairs: Pairs) -> tuple[Scorer, Details]:
        # Nodes are numbered in order of first appearance; all that training does not see have the number -1.
        arrived = Events.from_arrays(train.src, train.dst, train.time)
        number = arrived.vocabulary.rows(np.arange(max(train.src.max(), train.dst.max()) + 1))
        numbered = [
            replace(pairs, src=look_up(number, pairs.src, -1), dst=look_up(number, pairs.dst, -1))
            for pairs in (train_pairs, valid_pairs)
        ]
        finest = max(self.divisions)
        every = _borders(train, finest)
        borders = np.unique(every)
        snapshots = self._snapshots(arrived, borders)
        snapshots.align()

        def fit(division: int) -> Scorer:
            chosen = np.searchsorted(borders, np.unique(every[finest // division - 1 :: finest // division]))
            torch.manual_seed(self.seed)
            network = SnapshotNetwork(snapshots.coarsen(chosen), self.lstm_width)
            self._train(network, *numbered)
            # The LSTM changes even when it reads zeros, so an unseen node has an output of its own.
            logits = network.scorer(np.arange(-1, len(arrived.vocabulary)))
            return lambda src, dst: logits(look_up(number, src, -1), look_up(number, dst, -1))

        division, scorer, auc = select(self.divisions, fit, valid_pairs)
        return scorer, {"snapshots": division, "valid_auc": auc}

    def _snapshots(self, train: Events, borders: Ints) -> Snapshots:
        """The vectors of the static graph up to each border, learned one after the other by one model.

        The nodes of the events are numbered in order of first appearance.
        """
        model = self._skip_gram()
        newest = np.maximum.accumulate(np.maximum(train.src, train.dst))
        found = Snapshots(newest[borders - 1] + 1, train.time[borders - 1], self.width)
        for place, border in enumerate(borders):
            graph = StaticGraph.from_events(train.take(slice(0, int(border))))
            new = slice(int(borders[place - 1]) if place else 0, int(border))
            active = np.unique(np.concatenate([train.src[new], train.dst[new]]))
            starts = np.tile(active, self.walks)
            model.train(second_order_walks(graph, starts, self.length, 1.0, 1.0, self.seed + place))
            found.table(place)[:] = model.table(len(graph))
        return found

    def _train(self, network: SnapshotNetwork, train_pairs: Pairs, valid_pairs: Pairs) -> None:
        """Train on random pairs and restore the best weights."""
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        rng = rng_for(self.seed, "training")
        best, best_auc = copy.deepcopy(network.state_dict()), -np.inf
        asked = np.unique(np.concatenate([valid_pairs.src, valid_pairs.dst]))
        for step in range(1, self.steps + 1):
            rows = rng.choice(len(train_pairs), min(self.batch, len(train_pairs)), replace=False)
            loss = network.loss(train_pairs, rows)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if step % 10 == 0 or step == self.steps:
                # Without validation events the last weights are the best.
                auc = validation_auc(network.scorer(asked), valid_pairs) if len(valid_pairs) else float(step)
                if auc > best_auc:
                    best, best_auc = copy.deepcopy(network.state_dict()), auc
        network.load_state_dict(best)


def _borders(train: Events, parts: int) -> Ints:
    """[parts] the ends of equal parts of the events, each moved to the end of its instant; they may coincide."""
    last = np.maximum(np.arange(1, parts + 1) * len(train) // parts, 1) - 1
    return np.asarray(np.searchsorted(train.time, train.time[last], side="right"), dtype=np.int64)
