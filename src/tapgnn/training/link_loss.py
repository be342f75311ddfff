"""The loss of future link prediction (eq. 9) on the events of one chunk.

    loss = mean over events of -log sigma(score(u, v, t)) - 1/k sum over negatives n of log sigma(-score(u, n, t))

This teaches which destination it is; where a model has an output for it, the same is asked of whether an event happens
at all, against events of the past.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from tapgnn.events import Bools, Events, Floats
from tapgnn.model import Model, Past, Trace
from tapgnn.model.differentiable import DescribedPairs
from tapgnn.training.negative_mixture import DrawnNegatives


class LinkQueries(NamedTuple):
    """What is asked of a chunk, and what is known without weights: the pairs of its events, of their negatives, and of
    events of the past, which stand beside the true ones, and once more below, where they do not count.

    active [1 + k, E] whether the destination, and each false one, have a history.
    """

    drawn: DrawnNegatives
    past: Past
    pairs: DescribedPairs
    active: Bools


def ask_links(model: Model, trace: Trace, events: Events, drawn: DrawnNegatives) -> LinkQueries:
    """Describe the pairs; the embeddings of the trace are not needed."""
    size, count = drawn.dst.shape
    src, time = np.append(events.src, drawn.old_src), np.append(events.time, events.time[drawn.old_row])
    blocks = [np.append(column, drawn.old_dst) for column in (events.dst, *drawn.dst.T)]
    past = trace.past(np.concatenate([src, *blocks]), np.tile(time, 2 + count))
    active = model.active(past).reshape(2 + count, len(src))[1:, :size]
    return LinkQueries(drawn, past, model.describe_pairs(past, len(src)), active)


def link_loss(model: Model, trace: Trace, queries: LinkQueries, cold_weight: float) -> Tensor:
    """The loss of one chunk: of the question for the destination, and, where a model has it, of that for the event."""
    drawn, past, pairs, active = queries
    (size, count), left = drawn.dst.shape, pairs.left
    logits = model.weigh_pairs(pairs, trace.embedding_rows(past))
    logits = logits.view(1 + count, left, logits.shape[1])
    happened, weight = np.zeros((1 + count, left), dtype=bool), np.ones((1 + count, left))
    happened[0, :size] = True
    weight[1:] /= count
    warm = np.where(active, 1.0, cold_weight) * weight[:, :size]
    shift = torch.from_numpy(drawn.shift).to(logits)
    loss = _contrast(logits[:, :size, 0] - shift, happened[:, :size], warm)
    if logits.shape[2] == 1:
        return loss
    olds = len(drawn.old_src)
    share = drawn.old_share if olds else 0.0
    weight[1:, :size] *= (1.0 - share) * drawn.uniform.T
    weight[1:, size:] = 0.0
    weight[0, size:] = share * size / max(olds, 1)
    return loss + _contrast(logits[..., 1], happened, weight)


def _contrast(logits: Tensor, happened: Bools, weight: Floats) -> Tensor:
    """The weighed mean of the log-losses of logits."""
    losses = softplus(torch.where(torch.from_numpy(happened).to(logits.device), -logits, logits))
    weights = torch.from_numpy(weight).to(logits)
    return (losses * weights).sum() / weights.sum().clamp(min=1.0)
