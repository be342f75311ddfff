"""The end of a block with a self connection, for loops that make a row at a time.

LayerNorm(relu(own * h + read))
own * h + read                     without a norm: scale and shift are [0]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from tapgnn.compiled.jit import fast, program
from tapgnn.compiled.numba_intrinsics import new_line
from tapgnn.compiled.products import empty_rows

EPSILON = 1e-5


def join_and_normalise(mine: Tensor, own: Tensor, scale: Tensor, shift: Tensor, read: Tensor) -> Tensor:
    """[T, d] from a node's own rows [T, d] and what it reads [T, d]; own, scale and shift [d]."""
    if not len(scale):
        return own * mine + read
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
def normalise_backward(
    joined: Any, moments: Any, i: Any, scale: Any, centred: Any, grad: Any, grad_scale: Any, grad_shift: Any
) -> tuple[Any, Any]:
    """Prepare grad [d], that of what was normalised, and centred [d] for `relu_backward`; gives the two means it takes.

    moments [., 2] has those of joined [d] in row i. The gradients of scale and shift are added to theirs.
    """
    kind, width = joined.dtype.type, len(joined)
    share = kind(1) / kind(width)
    mean, inverse = moments[i, 0], moments[i, 1]
    mean_grad, mean_product = kind(0), kind(0)
    for j in range(width):
        centred[j] = (joined[j] - mean) * inverse
        grad_scale[j] += grad[j] * centred[j]
        grad_shift[j] += grad[j]
        grad[j] *= scale[j]
        mean_grad += grad[j]
        mean_product += grad[j] * centred[j]
    return mean_grad * share, mean_product * share


@fast
def relu_backward(
    joined: Any, grad: Any, centred: Any, inverse: Any, mean_grad: Any, mean_product: Any, zero: Any
) -> Any:
    """The gradient of one number before relu and normalisation."""
    return inverse * (grad - mean_grad - centred * mean_product) if joined > zero else zero


@program
def end_block(read, table, row, own, scale, shift):  # type: ignore[no-untyped-def]
    """[T, d] of what temporal nodes read [T, d] and their rows of the block's inputs; without own, as it was read."""
    if len(own) == 0:
        return read
    out = empty_rows(read.shape[0], read.shape[1], read)
    _end_rows(read, table, row, own, scale, shift, out)
    return out


@fast
def _end_rows(read: Any, table: Any, row: Any, own: Any, scale: Any, shift: Any, out: Any) -> None:
    width = read.shape[1]
    joined, zero = new_line(width, read), read.dtype.type(0)
    for i in range(len(read)):
        mine = row[i]
        if len(scale) == 0:
            for j in range(width):
                out[i, j] = own[j] * table[mine, j] + read[i, j]
            continue
        for j in range(width):
            joined[j] = max(own[j] * table[mine, j] + read[i, j], zero)
        mean, inverse = row_moments(joined)
        for j in range(width):
            out[i, j] = (joined[j] - mean) * inverse * scale[j] + shift[j]
