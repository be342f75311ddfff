"""What each message adds to a node's sums in the last layer, per kernel, and how the layer reads sums.

    sums(v) = older + sum over remembered messages of added(message)            exact: the state holds sums(v)
    read(v) = S / normaliser                                                    S are `width` of the sums

    adaptive   added = w value, w             w_j = exp(-rate_j . age)       read = S / n
    mean       added = value                                                 read = S / deg v    (relu follows)
    gcn        added = value / sqrt(deg u)                                   read = S / sqrt(deg v)
    attention  added = w value, w             w = exp(alpha - m)             read = S / sum of w

`pool` keeps a maximum, which is no sum: its score cannot be shared out and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from tapgnn.compiled.layer_norm import join_and_normalise
from tapgnn.errors import QueryError
from tapgnn.kernels import Kernel
from tapgnn.kernels.adaptive import Adaptive
from tapgnn.kernels.attention import Attention
from tapgnn.kernels.gcn import GCN
from tapgnn.kernels.mean import Mean
from tapgnn.model import Model
from tapgnn.online.explain.event_window import Excerpt, last_block
from tapgnn.vocabulary import Id


@dataclass(frozen=True)
class Messages:
    """M messages to one node: the index [M] of their event in an excerpt, and what the last layer makes of them.

    role [M] of the receiver, value [M, d] (float64), own [M, d] the receiver's h_{K-1} then, degree [M] of the sender,
    clocks [M, 2] when it was.
    """

    event: Tensor
    role: Tensor
    value: Tensor
    own: Tensor
    degree: Tensor
    clocks: Tensor

    def __len__(self) -> int:
        return len(self.event)


def collect_messages(model: Model, history: Excerpt, node: Id) -> Messages:
    """The last layer's messages to a node along the events of an excerpt."""
    block = last_block(model)
    ends = np.stack([history.src == node, history.dst == node], axis=1)
    event, receiver = (torch.from_numpy(found) for found in np.nonzero(ends))
    sender = 1 - receiver
    clocks = _clocks(model, history)[event]
    value: Tensor = block.transform(history.lower[event, sender])
    if block.of_time is not None:
        value = value + block.of_time(model.encoding(clocks[:, 0]))
    if block.of_edge is not None:
        value = value + block.of_edge(history.edge[event])
    if block.gate is not None:
        value = value * block.gate[sender]
    own = history.lower[event, receiver]
    return Messages(event, receiver, value.double(), own, history.degree[event, sender].double(), clocks)


def added(kernel: Kernel, messages: Messages, now: Tensor, peak: Tensor) -> Tensor:
    """[M, state_width] (float64) what each message is worth in sums that were last touched at the clocks `now` [2].

    The weights of attention are relative to `peak`.
    """
    value = messages.value
    if isinstance(kernel, Adaptive):
        weight = torch.exp(-(now - messages.clocks) @ kernel.rate())
        return torch.cat([weight @ kernel.spread.double() * value, weight], dim=1)
    if isinstance(kernel, Attention):
        weight = torch.exp(attention_scores(kernel, messages) - peak).unsqueeze(1)
        return torch.cat([torch.zeros_like(weight), weight * value, weight], dim=1)
    if isinstance(kernel, GCN):
        return value * messages.degree.rsqrt().unsqueeze(1)
    if isinstance(kernel, Mean):
        return value
    raise QueryError("this model keeps a maximum (kernel pool), in which past events have no shares; it has no answer")


def attention_scores(kernel: Attention, messages: Messages) -> Tensor:
    """[M] (float64) alpha of each message."""
    scores = kernel.of_sender(messages.value.to(messages.own))[:, 0] + kernel.of_receiver(messages.own)[:, 0]
    return leaky_relu(scores, 0.2).double()


def faded(kernel: Kernel, sums: Tensor, elapsed: Tensor) -> Tensor:
    """Sums [state_width] as they are `elapsed` [2] later; before, where that is negative."""
    if not isinstance(kernel, Adaptive):
        return sums
    kept = torch.exp(-elapsed @ kernel.rate())
    return sums * torch.cat([kept @ kernel.spread.double(), kept])


def read_sums(kernel: Kernel, sums: Tensor, degree: Tensor) -> Tensor:
    """[B, d] what the last layer reads from sums [B, state_width] of nodes with degree [B]; linear in S."""
    if isinstance(kernel, Adaptive):
        return _ratio(sums[:, : kernel.width], sums[:, kernel.width :].clamp(min=0.0) @ kernel.spread.double())
    if isinstance(kernel, Attention):
        return _ratio(sums[:, 1:-1], sums[:, -1:].expand(-1, kernel.width))
    by = degree if isinstance(kernel, Mean) else degree.sqrt()
    return _ratio(sums, by.unsqueeze(1).expand_as(sums))


def finish_read(model: Model, read: Tensor, own: Tensor) -> Tensor:
    """The embedding [B, d] that the last block makes of what it reads and of the node's own h_{K-1} [d]."""
    block = last_block(model)
    read = read.to(model.dtype)
    if isinstance(block.kernel, Mean):
        read = torch.relu(read)
    if block.own is not None and block.norm is not None:
        mine = own.detach().expand_as(read)
        read = join_and_normalise(mine, block.own, read, block.norm.weight, block.norm.bias)
    return read


def last_sums(model: Model, row: Tensor) -> Tensor:
    """The last layer's part of a row of sums."""
    return row[len(row) - last_block(model).kernel.state_width :]


def _clocks(model: Model, history: Excerpt) -> Tensor:
    """[n, 2] when events happened on both clocks, in spans of the model."""
    config = model.config
    spans = [(history.time - config.origin) / config.span, history.seen / config.events]
    return torch.from_numpy(np.stack(spans, axis=1))


def _ratio(total: Tensor, by: Tensor) -> Tensor:
    """total / by, 0 where nothing is left to divide by."""
    return torch.where(by > 0, total / torch.where(by > 0, by, 1.0), 0.0)
