"""DyGFormer: a transformer over the histories of both ends (Yu et al., "Towards Better Dynamic Graph Learning: New
Architecture and Unified Library", NeurIPS 2023).

    S_u    = (u at t, then its n latest neighbours before t), and S_v likewise
    c_w    = [how often w is in S_u, how often w is in S_v]                 for each w in S_u and S_v
    X      = [x_w], [f_i], [cos(w (t - t_i))], [f(c_w1) + f(c_w2)]          four channels, f a perceptron of one number
    z      = [W_N X_N + b_N, W_E X_E + b_E, W_T X_T + b_T, W_C X_C + b_C]   for each patch of p successive entries
    Z      = Transformer([z of S_u, z of S_v])                              both histories attend to each other
    h_u    = W mean of Z over the patches of S_u + b, h_v likewise
    logit  = w ReLU(W [h_u, h_v] + b) + c

A history starts with its own node, as in the reference: so u counts in S_v how often the two have met. The cosines of
the ages t - t_i are those of `recent_links`. n is `neighbours`, p is `patch`.

Differences, and why: patches of 4 entries and channels of d / 4 = 16 numbers, where the paper has patches of 1 for
histories of 32 and channels of 50, some seventy times the arithmetic; a patch without entries is not attended to and
not in the mean, so that a short history is not diluted; the channel of events is left out where they have no
features; x_w is a learned vector, since these logs have no node features; the frequencies w are fixed (see
`temporal_attention`); dropout is in the head alone.

fb-forum, protocol 'paper', seed 0: test AUC 0.974.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from tapgnn.baselines.sampled.recent_links import RecentLinks, recent_links
from tapgnn.baselines.shared.learner import Learner
from tapgnn.baselines.shared.link_network import MergeLayer
from tapgnn.baselines.shared.neighbourhood import distinct
from tapgnn.baselines.shared.temporal_attention import EventNetwork, check_heads
from tapgnn.compiled.jit import compile_loop
from tapgnn.events import Events, Floats, Ints


class TransformerLayer(nn.Module):
    """Attention and a perceptron, each after a norm and around a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, rows: Tensor, present: Tensor) -> Tensor:
        """[Q, s, d] -> [Q, s, d]; present [Q, s] where there is something to attend to."""
        size, length, width = rows.shape
        parts = self.inward(self.attention_norm(rows)).view(size, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = scaled_dot_product_attention(query, key, value, attn_mask=present[:, None, None])
        rows = rows + self.outward(attended.transpose(1, 2).reshape(size, length, width))
        out: Tensor = rows + self.perceptron(self.norm(rows))
        return out


class DyGFormerNetwork(EventNetwork):
    """Channels, patches, transformer and head."""

    def __init__(self, train: Events, width: int, layers: int, heads: int, patch: int, dropout: float) -> None:
        channel = width // 4
        super().__init__(train, width, channel)
        self.patch = patch
        self.count = nn.Sequential(nn.Linear(1, channel), nn.ReLU(), nn.Linear(channel, channel))
        sizes = {"node": channel, "time": width, "count": channel} | ({"event": self.features} if self.features else {})
        self.channels = nn.ModuleDict({name: nn.Linear(patch * size, channel) for name, size in sizes.items()})
        inner = len(sizes) * channel
        self.layers = nn.ModuleList(TransformerLayer(inner, heads) for _ in range(layers))
        self.out = nn.Linear(inner, width)
        self.head = MergeLayer(width, 1, dropout)

    def forward(self, members: Ints, links: Tensor, counts: Tensor) -> Tensor:
        """[Q] logits from the members [2 Q, s] of S_u, then S_v, -1 for none, their links [2 Q, s, m + f], counts."""
        present = torch.from_numpy(members >= 0)
        here = present.unsqueeze(2)
        nodes, place = np.unique(members, return_inverse=True)
        m = self.encoding.width
        given = {
            "node": self.vectors(nodes)[torch.from_numpy(place.reshape(members.shape))] * here,
            "event": links[..., m:],
            "time": links[..., :m],
            "count": self.count(counts.unsqueeze(3)).sum(dim=2) * here,
        }
        size, patches = len(members) // 2, members.shape[1] // self.patch
        parts = [
            layer(given[name].reshape(2 * size, patches, self.patch * given[name].shape[2]))
            for name, layer in self.channels.items()
        ]
        rows, seen = torch.cat(parts, dim=2), present.view(2 * size, patches, self.patch).any(dim=2)
        both, both_seen = (torch.cat([table[:size], table[size:]], dim=1) for table in (rows, seen))
        for layer in self.layers:
            both = layer(both, both_seen)
        by_end = both_seen.view(size, 2, patches, 1)
        weight = by_end / by_end.sum(dim=2, keepdim=True)
        h = self.out((both.view(size, 2, patches, both.shape[2]) * weight).sum(dim=2))
        logits: Tensor = self.head(h[:, 0], h[:, 1]).squeeze(1)
        return logits


@dataclass(eq=False)
class DyGFormer(Learner):
    """A transformer over the patched histories of both ends, which tells whom they have in common."""

    name = "dygformer"
    # A query reads so many links that more at a time would only take memory.
    query_batch = 1_024

    learning_rate: float = 3e-3
    layers: int = 2
    heads: int = 2
    neighbours: int = 31
    patch: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self.heads, self.width // 4)

    def _build(self, train: Events) -> nn.Module:
        return DyGFormerNetwork(train, self.width, self.layers, self.heads, self.patch, self.dropout)

    def _logits(self, events: Events, src: Ints, dst: Ints, time: Floats) -> Tensor:
        self.state.append(events)
        (node, when), place = distinct(np.concatenate([src, dst]), np.tile(time, 2))
        members, links = self._sequences(node, recent_links(self.state, node, when, self.neighbours))
        members = members[place]
        counts = torch.from_numpy(count_members(members[: len(src)], members[len(src) :]))
        logits: Tensor = self.network(members, links[torch.from_numpy(place)], counts)
        return logits

    def _sequences(self, node: Ints, links: RecentLinks) -> tuple[Ints, Tensor]:
        """The members [R, s] and links [R, s, m + f] of each history: the node itself first, padding at the end."""
        length = -(-(1 + self.neighbours) // self.patch) * self.patch
        # Unknown nodes are members too: -1 would be padding.
        known = np.where(node < 0, np.iinfo(np.int64).max, node)
        members = np.full((len(node), length), -1, dtype=np.int64)
        members[:, 0], members[:, 1 : 1 + self.neighbours] = known, links.met.node
        inputs = links.inputs.new_zeros(len(node), length, links.inputs.shape[2])
        inputs[:, 0, : self.network.encoding.width] = 1.0
        inputs[:, 1 : 1 + self.neighbours] = links.inputs
        return members, inputs


@compile_loop
def count_members(left: Any, right: Any) -> Any:
    """[2 Q, s, 2] how often a member of left [Q, s], then of right, is in left and in right; 0 for padding."""
    size = len(left)
    counts = np.zeros((2 * size, left.shape[1], 2), dtype=np.float32)
    for row in range(2 * size):
        members = left[row] if row < size else right[row - size]
        for i in range(len(members)):
            if members[i] < 0:
                continue
            for j in range(len(members)):
                counts[row, i, 0] += left[row % size, j] == members[i]
                counts[row, i, 1] += right[row % size, j] == members[i]
    return counts
