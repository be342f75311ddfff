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

from tapgnn.events import Bools, Events
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
    pairs = model.describe_pairs(past, len(src))
    known = pairs.ends.pause.isfinite().numpy(force=True).reshape(2 + count, len(src))
    return LinkQueries(drawn, past, pairs, known[1:, :size])


def link_loss(model: Model, trace: Trace, queries: LinkQueries, cold_weight: float) -> Tensor:
    """The loss of one chunk: of the question for the destination, and, where a model has it, of that for the event."""
    drawn, past, pairs, active = queries
    (size, count), left, olds = drawn.dst.shape, pairs.left, len(drawn.old_src)
    logits = model.weigh_pairs(pairs, trace.embedding_rows(past))
    logits = logits.view(1 + count, left, logits.shape[1])
    sign, shift, weight = np.ones((1 + count, left, 1)), np.zeros((1 + count, left, 2)), np.ones((1 + count, left, 2))
    sign[0, :size] = -1.0
    shift[:, :size, 0] = drawn.shift
    weight[1:] /= count
    which, whether = weight[..., 0], weight[..., 1]
    which[:, :size] *= np.where(active, 1.0, cold_weight)
    which[:, size:] = whether[1:, size:] = 0.0
    share = drawn.old_share if olds else 0.0
    whether[1:, :size] *= (1.0 - share) * drawn.uniform.T
    whether[0, size:] = share * size / max(olds, 1)
    weight /= np.maximum(weight.sum(axis=(0, 1)), 1.0)
    given = (torch.from_numpy(part).to(logits)[..., : logits.shape[2]] for part in (sign, shift, weight))
    return _weigh_losses(logits, *given)


def _weigh_losses(logits: Tensor, sign: Tensor, shift: Tensor, weight: Tensor) -> Tensor:
    """The sum of the weighed log-losses of logits; the sign is -1 where the answer is yes."""
    return (softplus((logits - shift) * sign) * weight).sum()
