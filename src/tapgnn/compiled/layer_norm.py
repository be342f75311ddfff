"""The end of a block with a self connection: LayerNorm(relu(own * h + read)), for loops that make a row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from tapgnn.compiled.numba_intrinsics import fast

EPSILON = 1e-5


def join_and_normalise(mine: Tensor, own: Tensor, read: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """[T, d] from a node's own rows [T, d] and what it reads [T, d]; own, scale and shift [d]."""
    return layer_norm(torch.relu(own * mine + read), scale.shape, scale, shift, EPSILON)


@fast
def row_moments(joined: Any) -> tuple[Any, Any]:
    """The mean of joined [d], and 1 / its deviation."""
    kind, width = joined.dtype.type, len(joined)
    share = kind(1) / kind(width)
    mean, spread = kind(0), kind(0)
    for j in range(width):
        mean += joined[j]
    mean *= share
    for j in range(width):
        spread += (joined[j] - mean) * (joined[j] - mean)
    return mean, kind(1) / np.sqrt(spread * share + kind(EPSILON))


@fast
def begin_slope(
    joined: Any, moments: Any, i: Any, scale: Any, centred: Any, slope: Any, to_scale: Any, to_shift: Any
) -> tuple[Any, Any]:
    """Prepare slope [d], that of what was normalised, and centred [d] for `end_slope`; gives the two means it takes.

    moments [., 2] has those of joined [d] in row i. What it says of scale and shift is added to to_scale and to_shift.
    """
    kind, width = joined.dtype.type, len(joined)
    share = kind(1) / kind(width)
    mean, inverse = moments[i, 0], moments[i, 1]
    pull, twist = kind(0), kind(0)
    for j in range(width):
        centred[j] = (joined[j] - mean) * inverse
        to_scale[j] += slope[j] * centred[j]
        to_shift[j] += slope[j]
        slope[j] *= scale[j]
        pull += slope[j]
        twist += slope[j] * centred[j]
    return pull * share, twist * share


@fast
def end_slope(joined: Any, slope: Any, centred: Any, inverse: Any, pull: Any, twist: Any, nothing: Any) -> Any:
    """The slope of one number before relu and normalisation; nothing is 0 in its type."""
    return inverse * (slope - pull - centred * twist) if joined > nothing else nothing
