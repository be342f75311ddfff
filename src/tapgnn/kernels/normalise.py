"""The end of a block with a self connection: LayerNorm(relu(own * h + read)), for loops that make a row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from tapgnn.kernels.loops import fast

EPSILON = 1e-5


def join_and_normalise(mine: Tensor, own: Tensor, read: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """[T, d] from a node's own rows [T, d] and what it reads [T, d]; own, scale and shift [d]."""
    return layer_norm(torch.relu(own * mine + read), scale.shape, scale, shift, EPSILON)


@fast
def normalise_row(joined: Any, scale: Any, shift: Any, i: Any, moments: Any, out: Any) -> None:
    """Fill row i of out [., d] from joined [d], and of moments [., 2]: the mean and 1 / deviation."""
    kind, width = joined.dtype.type, len(joined)
    share = kind(1) / kind(width)
    mean, spread = kind(0), kind(0)
    for j in range(width):
        mean += joined[j]
    mean *= share
    for j in range(width):
        spread += (joined[j] - mean) * (joined[j] - mean)
    inverse = kind(1) / np.sqrt(spread * share + kind(EPSILON))
    moments[i, 0], moments[i, 1] = mean, inverse
    for j in range(width):
        out[i, j] = (joined[j] - mean) * inverse * scale[j] + shift[j]


@fast
def unnormalise_row(
    grad: Any, i: Any, joined: Any, moments: Any, scale: Any, centred: Any, slope: Any, to: Any
) -> None:
    """From row i of grad, fill slope [d], to what was joined, and add to rows 1 and 2 of `to`: scale and shift.

    centred [d] is room to work in.
    """
    kind, width = joined.dtype.type, len(joined)
    share = kind(1) / kind(width)
    mean, inverse = moments[i, 0], moments[i, 1]
    pull, twist = kind(0), kind(0)
    for j in range(width):
        centred[j] = (joined[j] - mean) * inverse
        slope[j] = grad[i, j] * scale[j]
        pull += slope[j]
        twist += slope[j] * centred[j]
    for j in range(width):
        to[1, j] += grad[i, j] * centred[j]
        to[2, j] += grad[i, j]
    pull *= share
    twist *= share
    for j in range(width):
        value = inverse * (slope[j] - pull - centred[j] * twist)
        slope[j] = value if joined[j] > 0 else kind(0)
