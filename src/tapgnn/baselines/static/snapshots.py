"""Snapshots: the vectors of all nodes after each of S growing graphs, their alignment, and the LSTM that reads them.

    R_k          the rotation that brings Q_k nearest to the aligned Q_{k-1}: U V^T, where U s V^T = Q_k^T Q_{k-1} over
                 the nodes of Q_{k-1} (orthogonal Procrustes)
    f_k(v)       the output of an LSTM that has read Q_1(v) R_1, ..., Q_k(v) R_k; zeros while v is not there yet
    logit(u, v)  w ReLU(W [f(u), f(v)] + b) + c

Nodes are numbered in order of first appearance, so that snapshot k holds the nodes 0 .. n_k - 1, and all snapshots lie
in one array with no row for a node that does not exist yet. An LSTM that reads only zeros is in the same state for all
nodes: these states are computed once, and each node branches off at its first snapshot and is followed up to the last
one needed. Both are exact, and together they save most of the S steps per node.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from tapgnn.baselines.shared.labelled_pairs import Pairs, Table
from tapgnn.baselines.shared.link_network import MergeLayer
from tapgnn.baselines.static.embedding_method import Scorer
from tapgnn.events import Floats, Ints


class Snapshots:
    """Vectors of growing graphs: `size` [S] nodes in each, `end` [S] the times of their last events."""

    def __init__(self, size: Ints, end: Floats, width: int) -> None:
        """Allocate all of them; the caller fills each `table`."""
        self.size, self.end = size, end
        self.start = np.concatenate([[0], np.cumsum(size)])
        self.rows: Table = np.zeros((int(self.start[-1]), width), dtype=np.float32)

    def __len__(self) -> int:
        return len(self.size)

    def table(self, place: int) -> Table:
        """[n_k, d] the vectors of snapshot k, a view."""
        return self.rows[self.start[place] : self.start[place + 1]]

    def align(self) -> None:
        """Rotate every snapshot onto the one before it, in place."""
        for place in range(1, len(self)):
            before, here = self.table(place - 1), self.table(place)
            left, _, right = np.linalg.svd(here[: len(before)].T.astype(np.float64) @ before.astype(np.float64))
            here[:] = here @ (left @ right).astype(np.float32)

    def coarsen(self, places: Ints) -> Snapshots:
        """Some of the aligned snapshots, in order, copied and aligned to each other; all of them are so already."""
        if len(places) == len(self):
            return self
        coarse = Snapshots(self.size[places], self.end[places], self.rows.shape[1])
        for new, old in enumerate(places.tolist()):
            coarse.table(new)[:] = self.table(old)
        coarse.align()
        return coarse


class SnapshotNetwork(nn.Module):
    """The LSTM over the snapshots of a node, and the head that scores a pair."""

    def __init__(self, snapshots: Snapshots, width: int) -> None:
        super().__init__()
        self.snapshots, self.width = snapshots, width
        self.lstm, self.head = nn.LSTM(snapshots.rows.shape[1], width), MergeLayer(width, 1)

    def loss(self, pairs: Pairs, rows: Ints) -> Tensor:
        """Cross-entropy of chosen rows of the training pairs, each from the snapshots before it."""
        complete = np.tile(np.searchsorted(self.snapshots.end, pairs.time[rows], side="left"), 2)
        found = self(np.concatenate([pairs.src[rows], pairs.dst[rows]]), complete)
        logits = self.head(found[: len(rows)], found[len(rows) :]).squeeze(1)
        return binary_cross_entropy_with_logits(logits, torch.from_numpy(pairs.label[rows]).to(logits.dtype))

    @torch.no_grad()
    def scorer(self, nodes: Ints) -> Scorer:
        """Logits of pairs of these nodes [R], ascending, from a table of their outputs after the last snapshot."""
        pieces = np.array_split(nodes, len(nodes) // 4_096 + 1)
        # Without a reference to the snapshots, whose memory is the next division's.
        table, head = torch.cat([self(piece, np.full(len(piece), len(self.snapshots))) for piece in pieces]), self.head

        @torch.no_grad()
        def logits(src: Ints, dst: Ints) -> Floats:
            ends = (table[torch.from_numpy(np.searchsorted(nodes, rows))] for rows in (src, dst))
            return np.asarray(head(*ends).squeeze(1).double().numpy())

        return logits

    def forward(self, nodes: Ints, read: Ints) -> Tensor:
        """f [R, width] of nodes [R] after the first `read` [R] snapshots, zeros after none."""
        distinct, place = np.unique(nodes, return_inverse=True)
        total = len(self.snapshots)
        # The first snapshot that holds each node; S for one that is in none, -1 among them.
        birth = np.where(distinct >= 0, np.searchsorted(self.snapshots.size, distinct, side="right"), total)
        until = np.zeros(len(distinct), dtype=np.int64)
        np.maximum.at(until, place, read)
        length = np.maximum(until - birth, 0)
        output, cell = self._absent()
        found = [output]
        # Where the output of each node after its first own step lies in `found`, and the distance to the next one.
        first, stride = np.zeros((2, len(distinct)), dtype=np.int64)
        done = len(output)
        # Eight groups of similar lengths, each as many steps for all; the gradient of packed sequences, which take no
        # step too many, costs the square of the steps.
        eighth = -(-length * 8 // total)
        for number in np.unique(eighth[length > 0]):
            group = np.flatnonzero(eighth == number)
            state = torch.from_numpy(birth[group])
            # From each node's first snapshot on; beyond the end, the last one again.
            places = np.minimum(birth[group] + np.arange(length[group].max())[:, None], total - 1)
            vectors = torch.from_numpy(self.snapshots.rows[self.snapshots.start[places] + distinct[group]])
            followed, _ = self.lstm(vectors, (output[state].unsqueeze(0), cell[state].unsqueeze(0)))
            found.append(followed.flatten(0, 1))
            first[group], stride[group] = done + np.arange(len(group)), len(group)
            done += len(found[-1])
        steps = read - birth[place]
        at = np.where(steps > 0, first[place] + (steps - 1) * stride[place], read)
        return torch.cat(found)[torch.from_numpy(at)]

    def _absent(self) -> tuple[Tensor, Tensor]:
        """Output and cell [S + 1, width] of a node that is in none of the first 0, 1, ..., S snapshots."""
        nothing = torch.zeros(1, 1, self.snapshots.rows.shape[1])
        output = cell = torch.zeros(1, 1, self.width)
        found = [(output, cell)]
        for _ in range(len(self.snapshots)):
            _, (output, cell) = self.lstm(nothing, (output, cell))
            found.append((output, cell))
        outputs, cells = zip(*found, strict=True)
        return torch.cat(outputs).squeeze(1), torch.cat(cells).squeeze(1)
