"""HTNE: Y. Zuo, G. Liu, H. Lin, J. Guo, X. Hu and J. Wu, "Embedding Temporal Network via Neighborhood Formation", KDD
2018.

Past neighbours of a node x excite its next ones, as in a Hawkes process:

    lambda(y | x, t) = g(x, y) + sum over i of w_i exp(-delta_x (t - t_i)) g(h_i, y),      g(a, b) = -|e_a - e_b|^2
    w_i              = softmax over i of g(x, h_i)                          the h latest neighbours (h_i, t_i) before t
    loss             = -log s(lambda(y | x, t)) - sum over 5 drawn n of log s(-lambda(n | x, t))
    score(u, v)      = logistic regression on [e_u, e_v]

with s the logistic function and n drawn by degree^0.75. Every event is a sample for both its ends. The time runs from 0
to 1 over the training events, delta_x = softplus(.) >= 0 is learned for each node, and a history shorter than h is not
padded: its weights sum to 1. Defaults of the reference: d = 128, 5 negatives, batches of 1,000, gradient descent with
rate 0.01 on the sum of the losses; h from 10, 20, 30, selected on validation. Gradients are sparse. Paper's protocol,
seed 0: 0.753 on fb-forum, about 0.56 on soc-wiki-elec.

Differences:
- delta is kept from being negative (the reference leaves it free: a past whose weight grows overflows).
- Five epochs: on fb-forum the linear classifier gets less from the vectors the longer they are trained.
- The vectors are scored as they are after training, as in the reference; the intensity itself is not the score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, softplus

from tapgnn.baselines.method import Details
from tapgnn.baselines.shared.adjacency import Adjacency
from tapgnn.baselines.shared.indexed_ops import dot_products
from tapgnn.baselines.shared.labelled_pairs import PairClassifier, Pairs, Table
from tapgnn.baselines.static.embedding_method import EmbeddingMethod, Scorer, select
from tapgnn.data.negatives import rng_for
from tapgnn.errors import ConfigError
from tapgnn.events import Events, Floats, Ints


class HawkesNetwork(nn.Module):
    """Node vectors and decay rates, both with sparse gradients."""

    def __init__(self, nodes: int, width: int) -> None:
        super().__init__()
        self.vectors, self.rate = nn.Embedding(nodes, width, sparse=True), nn.Embedding(nodes, 1, sparse=True)
        nn.init.uniform_(self.vectors.weight, -1.0 / width, 1.0 / width)
        nn.init.zeros_(self.rate.weight)

    def forward(self, source: Ints, target: Ints, history: Ints, age: Floats) -> Tensor:
        """lambda [B, m] of targets [B, m] for sources [B] with histories [B, h] (-1 for none) of ages [B, h]."""
        nodes, place = np.unique(np.concatenate([source, target.ravel(), history.ravel()]), return_inverse=True)
        # Padding reads row 0, with weight 0.
        rows: Tensor = self.vectors(torch.from_numpy(np.maximum(nodes, 0)))
        of_source, of_target, of_history = np.split(place, [len(source), len(source) + target.size])
        own, other = rows[torch.from_numpy(of_source)], rows[torch.from_numpy(of_target)].view(*target.shape, -1)
        past, present = torch.from_numpy(of_history.reshape(history.shape)), torch.from_numpy(history >= 0)
        distance = _distances(own.unsqueeze(1), rows, past).squeeze(1)
        attention = torch.softmax(-distance.masked_fill(~present, 1e9), dim=1)
        decay = torch.exp(-softplus(self.rate(torch.from_numpy(source))) * torch.from_numpy(age).float())
        weight = attention * decay * present
        base = (own.unsqueeze(1) - other).square().sum(dim=2)
        return -base - (weight.unsqueeze(1) * _distances(other, rows, past)).sum(dim=2)


def _distances(query: Tensor, rows: Tensor, index: Tensor) -> Tensor:
    """[B, m, h] the squared distances of query [B, m, d] to the rows that index [B, h] lists."""
    length = rows.square().sum(dim=1)[index].unsqueeze(1)
    return length + query.square().sum(dim=2, keepdim=True) - 2.0 * dot_products(query, rows.unsqueeze(1), index)


@dataclass(eq=False)
class HTNE(EmbeddingMethod):
    """Vectors learned by a Hawkes process with attention over the history, logistic regression.

    `histories` holds the lengths of history that are tried.
    """

    name = "htne"

    width: int = 128
    histories: tuple[int, ...] = (10, 20, 30)
    negatives: int = 5
    batch: int = 1_000
    epochs: int = 5
    learning_rate: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.histories or min(self.histories) < 1:
            raise ConfigError(f"histories must be one or more positive lengths, not {self.histories}")

    def _learn(self, train: Events, train_pairs: Pairs, valid_pairs: Pairs) -> tuple[Scorer, Details]:
        def fit(history: int) -> Scorer:
            torch.manual_seed(self.seed)
            return PairClassifier(self._table(train, history), train_pairs)

        history, scorer, auc = select(self.histories, fit, valid_pairs)
        return scorer, {"history": history, "valid_auc": auc}

    def _table(self, train: Events, history: int) -> Table:
        """[N, d] the vectors; zero for rows of the vocabulary that no training event names."""
        source, target = np.concatenate([train.src, train.dst]), np.concatenate([train.dst, train.src])
        time = np.tile(train.time, 2)
        past = Adjacency(train).latest(source, time, history)
        age = (time[:, None] - past.time) / (float(train.time[-1] - train.time[0]) or 1.0)
        degree = np.bincount(source)
        share = np.cumsum(degree**0.75)
        network = HawkesNetwork(len(degree), self.width)
        optimizer = torch.optim.SGD(network.parameters(), lr=self.learning_rate)
        rng = rng_for(self.seed, "training")
        for _ in range(self.epochs):
            order = rng.permutation(len(source))
            for start in range(0, len(order), self.batch):
                rows = order[start : start + self.batch]
                drawn = np.searchsorted(share, rng.random((len(rows), self.negatives)) * share[-1], side="right")
                targets = np.column_stack([target[rows], drawn])
                intensity = network(source[rows], targets, past.node[rows], age[rows])
                loss = -logsigmoid(intensity[:, 0]).sum() - logsigmoid(-intensity[:, 1:]).sum()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        table: Table = network.vectors.weight.detach().numpy()
        table[degree == 0] = 0.0
        return table
