"""The messages that a node received in the last layer, made again from a window of events, and how they are read."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.layer_norm import join_and_normalise
from tapgnn.kernels.kernel import Messages
from tapgnn.model import Model
from tapgnn.online.explain.event_window import Excerpt
from tapgnn.vocabulary import Id


def collect_messages(model: Model, history: Excerpt, node: Id) -> Messages:
    """The last layer's messages to a node along the events of an excerpt."""
    block = model.layers[-1]
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


def finish_read(model: Model, read: Tensor, own: Tensor) -> Tensor:
    """The embedding [B, d] that the last block makes of what it reads and of the node's own h_{K-1} [d]."""
    block = model.layers[-1]
    read = block.kernel.activate(read.to(model.dtype))
    return read if block.end is None else join_and_normalise(own.detach().expand_as(read), *block.end, read)


def last_sums(model: Model, row: Tensor) -> Tensor:
    """The last layer's part of a row of sums."""
    return row[len(row) - model.layers[-1].kernel.state_width :]


def _clocks(model: Model, history: Excerpt) -> Tensor:
    """[n, 2] when events happened on both clocks, in spans of the model."""
    config = model.config
    spans = [(history.time - config.origin) / config.span, history.seen / config.events]
    return torch.from_numpy(np.stack(spans, axis=1))
