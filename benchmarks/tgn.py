"""TGN from PyTorch Geometric's own parts, in the configuration of its example: the peer of the benchmarks.

Memory with identity messages and last aggregation, one graph attention layer over the 10 latest neighbours, a link
predictor of two layers, Adam 1e-4, batches of 200. A message is the features of the event, or one zero where it has
none. Times and messages are kept in memory that doubles when it is full.
"""

import numpy as np
import torch
from torch import nn
from torch_geometric.nn import TGNMemory, TransformerConv
from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, LastNeighborLoader

NEIGHBOURS = 10


class GraphAttention(nn.Module):
    def __init__(self, width, message, encoder):
        super().__init__()
        self.encoder = encoder
        self.conv = TransformerConv(width, width // 2, heads=2, dropout=0.1, edge_dim=message + encoder.out_channels)

    def forward(self, x, last_update, edge_index, time, message):
        age = (last_update[edge_index[0]] - time).to(x.dtype)
        return self.conv(x, edge_index, torch.cat([self.encoder(age), message], dim=-1))


class LinkPredictor(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.left, self.right, self.out = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, left, right):
        return self.out(torch.relu(self.left(left) + self.right(right)))


class TGN:
    def __init__(self, nodes, width, message=1):
        self.memory = TGNMemory(nodes, message, width, width, IdentityMessage(message, width, width), LastAggregator())
        self.attention = GraphAttention(width, message, self.memory.time_enc)
        self.head = LinkPredictor(width)
        self.loader = LastNeighborLoader(nodes, size=NEIGHBOURS)
        self.place = torch.empty(nodes, dtype=torch.long)
        self.count, self.time, self.messages = 0, torch.empty(1, dtype=torch.long), torch.empty(1, message)
        parts = {*self.memory.parameters(), *self.attention.parameters(), *self.head.parameters()}
        self.optimizer = torch.optim.Adam(parts, lr=1e-4)

    def forget(self):
        """The start of an epoch."""
        for part in (self.memory, self.attention, self.head):
            part.train()
        self.memory.reset_state()
        self.loader.reset_state()
        self.count = 0

    def learn(self, src, dst, when, negative):
        """One step on a batch, which is then remembered."""
        self.optimizer.zero_grad()
        positive, other = self._logits(src, dst, negative)
        loss = nn.functional.binary_cross_entropy_with_logits(positive, torch.ones_like(positive))
        loss = loss + nn.functional.binary_cross_entropy_with_logits(other, torch.zeros_like(other))
        self.remember(src, dst, when)
        loss.backward()
        self.optimizer.step()
        self.memory.detach()

    @torch.no_grad()
    def score(self, src, dst, negative):
        """Logits of a batch and of its negatives."""
        for part in (self.memory, self.attention, self.head):
            part.eval()
        positive, other = self._logits(src, dst, negative)
        return positive[:, 0].numpy().astype(np.float64), other[:, 0].numpy().astype(np.float64)

    @torch.no_grad()
    def rate(self, src, dst):
        """Logits of a batch, without negatives, in the mode of the moment."""
        left, right = torch.from_numpy(src), torch.from_numpy(dst)
        z = self._embed(torch.cat([left, right]))
        return self.head(z[self.place[left]], z[self.place[right]])

    def remember(self, src, dst, when, features=None):
        """Absorb a batch into memory and neighbourhoods."""
        left, right = torch.from_numpy(src), torch.from_numpy(dst)
        time = torch.from_numpy(when).long()
        message = torch.zeros(len(src), 1) if features is None else torch.as_tensor(features)
        self.memory.update_state(left, right, time, message)
        self.loader.insert(left, right)
        first, self.count = self.count, self.count + len(src)
        while self.count > len(self.time):
            self.time = torch.cat([self.time, torch.empty_like(self.time)])
            self.messages = torch.cat([self.messages, torch.empty_like(self.messages)])
        self.time[first : self.count], self.messages[first : self.count] = time, message

    def _logits(self, src, dst, negative):
        left, right, other = (torch.from_numpy(rows) for rows in (src, dst, negative))
        z = self._embed(torch.cat([left, right, other]))
        left, right, other = z[self.place[left]], z[self.place[right]], z[self.place[other]]
        return self.head(left, right), self.head(left, other)

    def _embed(self, asked):
        """Rows of the nodes asked for and their neighbours; `place` tells which is whose."""
        nodes, edge_index, event = self.loader(asked.unique())
        self.place[nodes] = torch.arange(len(nodes))
        z, last_update = self.memory(nodes)
        return self.attention(z, last_update, edge_index, self.time[event], self.messages[event])
