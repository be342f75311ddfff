"""TNODE (tNodeEmbed): U. Singer, I. Guy and K. Radinsky, "Node Embedding over Temporal Graphs", IJCAI 2019.

    Q_k          vectors of the static graph of all events up to border k, by walks and skip-gram, k = 1 .. S
    f_k(v)       the output of an LSTM that has read Q_1(v) R_1, ..., Q_k(v) R_k, each rotated onto the one before;
                 zeros while v did not exist (see `snapshots`)
    logit(u, v)  w ReLU(W [f(u), f(v)] + b) + c

The LSTM and the head are learnt end to end on the training events and one random negative each. The S borders cut the
training events into equal parts, between two instants. S is chosen from 8, 32, 128 on validation.

- A training event is scored from the snapshots that ended before it, so that it never sees itself; what is asked later
  is scored from all S. Later events are not seen.
- One skip-gram model runs through all 128 snapshots: each goes on from the vectors of the last one, with walks from the
  nodes that are active in it. The other divisions take every fourth and every sixteenth of the same snapshots.

Defaults: d = 128, one walk of 80 nodes, window 10, 5 negatives; an LSTM of width 32, Adam 0.01, 60 steps of 4,096 pairs
at most, the best of every tenth step by validation. Paper's protocol: 0.860 on fb-forum (seed 0),
about 0.81 on ia-slashdot-reply-dir.

Cost: the snapshots take S * N * d / 2 numbers where nodes come in evenly, and are the bulk of the memory; they lie in
one array of float32, rotated in place, and a coarser division is copied from it only while it is tried. The 39,000
nodes and 100,000 training events of ia-slashdot-reply-dir took 3.3 GB in all and less than five minutes of one core.

Departures: the reference learns each snapshot from scratch with 10 walks from every node (here that would be 128 times
the cost of Node2Vec, and alignment would have more to repair), takes p and q as in node2vec (here 1), and trains the
LSTM on events after all snapshots, which are not to be had under a protocol where training ends with the last one.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from tapgnn.baselines.shared.labelled_pairs import Pairs, Table
from tapgnn.baselines.shared.link_network import LinkHead
from tapgnn.baselines.static.skipgram import SkipGram, sentences
from tapgnn.baselines.static.snapshots import SnapshotReader, Snapshots
from tapgnn.baselines.static.static_vectors import EmbeddingMethod, Learned, Scorer, best_of
from tapgnn.baselines.static.walks import Projection, second_order_walks
from tapgnn.data.negatives import rng_for
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints


class Arrival:
    """The nodes of a log, numbered from 0 as they come in."""

    def __init__(self, events: Events) -> None:
        nodes, first = np.unique(np.column_stack([events.src, events.dst]), return_index=True)
        self._place = np.full(int(nodes[-1]) + 1, -1, dtype=np.int64)
        self._place[nodes[np.argsort(first)]] = np.arange(len(nodes))

    def place(self, rows: Ints) -> Ints:
        """[Q] the number of each row of the vocabulary, -1 for one that the log does not name."""
        known = (rows >= 0) & (rows < len(self._place))
        return np.where(known, self._place[np.where(known, rows, 0)], -1)

    def events(self, events: Events) -> Events:
        """The events with the numbers of their nodes."""
        return Events(self.place(events.src), self.place(events.dst), events.time)

    def pairs(self, pairs: Pairs) -> Pairs:
        """The pairs with the numbers of their nodes."""
        return Pairs(self.place(pairs.src), self.place(pairs.dst), pairs.time, pairs.label)


class SnapshotNetwork(nn.Module):
    """The LSTM over the snapshots, and the head; it answers for the time after the last snapshot."""

    def __init__(self, snapshots: Snapshots, width: int) -> None:
        super().__init__()
        self.snapshots = snapshots
        self.reader, self.head = SnapshotReader(snapshots, width), LinkHead(width)

    def loss(self, pairs: Pairs, rows: Ints) -> Tensor:
        """Cross-entropy of chosen rows of the training pairs, each from the snapshots before it."""
        complete = np.tile(np.searchsorted(self.snapshots.end, pairs.time[rows], side="left"), 2)
        found = self.reader(np.concatenate([pairs.src[rows], pairs.dst[rows]]), complete)
        logits = self.head(found[: len(rows)], found[len(rows) :])
        return binary_cross_entropy_with_logits(logits, torch.from_numpy(pairs.label[rows]).to(logits.dtype))

    @torch.no_grad()
    def final(self, nodes: Ints) -> Tensor:
        """f [R, width] of nodes after the last snapshot."""
        pieces = np.array_split(nodes, len(nodes) // 4_096 + 1)
        return torch.cat([self.reader(piece, np.full(len(piece), len(self.snapshots))) for piece in pieces])

    @torch.no_grad()
    def logits(self, src: Ints, dst: Ints) -> Floats:
        """[Q] the logit of each pair."""
        nodes, place = np.unique(np.concatenate([src, dst]), return_inverse=True)
        found = self.final(nodes)[torch.from_numpy(place)]
        return np.asarray(self.head(found[: len(src)], found[len(src) :]).double().numpy())


class SnapshotScorer:
    """The outputs after the last snapshot, kept as a table; all nodes that training did not see share its last row."""

    def __init__(self, network: SnapshotNetwork, arrival: Arrival) -> None:
        # The LSTM moves even when it reads zeros, so an unseen node has an output of its own.
        nodes = np.append(np.arange(network.snapshots.size[-1]), -1)
        self._table: Table = network.final(nodes).numpy()
        self._head, self._arrival = network.head, arrival

    @torch.no_grad()
    def logits(self, src: Ints, dst: Ints) -> Floats:
        """[Q] the logit of each pair."""
        ends = (torch.from_numpy(self._table[self._arrival.place(rows)]) for rows in (src, dst))
        return np.asarray(self._head(*ends).double().numpy())


class TNODE(EmbeddingMethod):
    """Aligned vectors of growing static graphs, read by an LSTM that is learnt end to end."""

    name = "tnode"

    def __init__(
        self,
        seed: int = 0,
        width: int = 128,
        divisions: tuple[int, ...] = (8, 32, 128),
        walks: int = 1,
        length: int = 80,
        window: int = 10,
        negatives: int = 5,
        lstm_width: int = 32,
        steps: int = 60,
        batch: int = 4_096,
        learning_rate: float = 0.01,
    ) -> None:
        """`divisions` holds the numbers of snapshots that are tried; each must divide the largest."""
        super().__init__(seed)
        if not divisions or min(divisions) < 1 or any(max(divisions) % division for division in divisions):
            raise ConfigError(f"the numbers of snapshots must be positive and divide the largest, not {divisions}")
        self.width, self.divisions, self.walks, self.length = width, divisions, walks, length
        self.window, self.negatives, self.lstm_width = window, negatives, lstm_width
        self.steps, self.batch, self.learning_rate = steps, batch, learning_rate

    def _learn(self, train: Events, practice: Pairs, exam: Pairs) -> Learned:
        arrival = Arrival(train)
        numbered = arrival.pairs(practice), arrival.pairs(exam)
        finest = max(self.divisions)
        every = _borders(train, finest)
        borders = np.unique(every)
        snapshots = self._snapshots(arrival.events(train), borders)
        snapshots.align()

        def fitted(division: int) -> Scorer:
            chosen = np.searchsorted(borders, np.unique(every[finest // division - 1 :: finest // division]))
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                network = SnapshotNetwork(self._division(snapshots, chosen), self.lstm_width)
                self._train(network, *numbered)
            return SnapshotScorer(network, arrival)

        division, scorer, mark = best_of(self.divisions, fitted, exam)
        return scorer, {"snapshots": division, "valid_auc": mark}

    def _snapshots(self, train: Events, borders: Ints) -> Snapshots:
        """The vectors of the static graph up to each border, learnt one after the other by one model.

        The nodes of the events are numbered as they come in.
        """
        model = SkipGram(self.width, self.window, self.negatives, 1, self.seed)
        newest = np.maximum.accumulate(np.maximum(train.src, train.dst))
        found = Snapshots(newest[borders - 1] + 1, train.time[borders - 1], self.width)
        for place, border in enumerate(borders):
            graph = Projection.from_events(train.take(slice(0, int(border))))
            new = slice(int(borders[place - 1]) if place else 0, int(border))
            active = np.unique(np.concatenate([train.src[new], train.dst[new]]))
            starts = np.tile(active, self.walks)
            walks = second_order_walks(graph, starts, self.length, 1.0, 1.0, self.seed + place)
            model.learn(sentences(walks))
            found.table(place)[:] = model.table(len(graph))
        return found

    @staticmethod
    def _division(snapshots: Snapshots, chosen: Ints) -> Snapshots:
        """Some of the aligned snapshots, aligned to each other; all of them are so already."""
        if len(chosen) == len(snapshots):
            return snapshots
        coarse = snapshots.take(chosen)
        coarse.align()
        return coarse

    def _train(self, network: SnapshotNetwork, practice: Pairs, exam: Pairs) -> None:
        """Steps on random pairs; the network is left with its best weights."""
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        rng = rng_for(self.seed, "training")
        best, best_mark = copy.deepcopy(network.state_dict()), -np.inf
        for step in range(1, self.steps + 1):
            rows = rng.choice(len(practice), min(self.batch, len(practice)), replace=False)
            loss = network.loss(practice, rows)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if step % 10 == 0 or step == self.steps:
                mark = exam.auc(network.logits(exam.src, exam.dst)) if len(exam) else float(step)
                if mark > best_mark:
                    best, best_mark = copy.deepcopy(network.state_dict()), mark
        network.load_state_dict(best)


def _borders(train: Events, parts: int) -> Ints:
    """[parts] the ends of equal parts of the events, each moved to the end of its instant; they may coincide."""
    last = np.maximum(np.arange(1, parts + 1) * len(train) // parts, 1) - 1
    return np.asarray(np.searchsorted(train.time, train.time[last], side="right"), dtype=np.int64)
