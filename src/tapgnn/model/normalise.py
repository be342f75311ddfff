"""The end of a block with a self connection, in one pass each way: LayerNorm(relu(own * h + read)).

`own` scales each channel of the block's input h, which is given as distinct rows and the one of each temporal node.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

EPSILON = 1e-5


def join_and_normalise(
    table: Tensor, row: Tensor | None, own: Tensor, read: Tensor, scale: Tensor, shift: Tensor
) -> Tensor:
    """[T, d] from table [R, d], row [T] (None: one row each) and read [T, d]; own, scale and shift [d]."""
    if read.device.type != "cpu":
        return plainly_join_and_normalise(table, row, own, read, scale, shift)
    where = torch.arange(len(read)) if row is None else row
    if torch.is_grad_enabled() and (table.requires_grad or own.requires_grad or read.requires_grad):
        alone = row is None
        return _Join.apply(table, where, alone, own, read, scale, shift)  # type: ignore[no-untyped-call,no-any-return]
    return _forward(table, where, own, read, scale, shift)[0]


def plainly_join_and_normalise(
    table: Tensor, row: Tensor | None, own: Tensor, read: Tensor, scale: Tensor, shift: Tensor
) -> Tensor:
    """`join_and_normalise` in plain torch."""
    mine = own * (table if row is None else table.index_select(0, row))
    return layer_norm(torch.relu(mine + read), scale.shape, scale, shift, EPSILON)


def _forward(
    table: Tensor, row: Tensor, own: Tensor, read: Tensor, scale: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, and what its backward needs: the rows before normalising [T, d], their mean and 1 / deviation."""
    out, joined = torch.empty_like(read), torch.empty_like(read)
    moments = read.new_empty(len(read), 2)
    tensors = (table, row, own, read, scale, shift, out, joined, moments)
    join(*[tensor.detach().contiguous().numpy() for tensor in tensors])
    return out, joined, moments


class _Join(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, table: Tensor, row: Tensor, alone: bool, own: Tensor, read: Tensor, scale: Tensor, shift: Tensor
    ) -> Tensor:
        """alone: no two temporal nodes have the same row, and every row is one's."""
        out, joined, moments = _forward(table, row, own, read, scale, shift)
        ctx.save_for_backward(table, row, own, scale, joined, moments)
        ctx.alone = alone
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        table, row, own, scale, joined, moments = ctx.saved_tensors
        to_table = torch.empty_like(table) if ctx.alone else torch.zeros_like(table)
        to_read = torch.empty_like(joined)
        slopes = grad.new_zeros(3, grad.shape[1])
        tensors = (grad, table, row, own, scale, joined, moments, to_table, to_read, slopes)
        _unjoin(ctx.alone, *[tensor.detach().contiguous().numpy() for tensor in tensors])
        return to_table, None, None, slopes[0], to_read, slopes[1], slopes[2]


@nb.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def join(
    table: Any, row: Any, own: Any, read: Any, scale: Any, shift: Any, out: Any, joined: Any, moments: Any
) -> None:
    width = read.shape[1]
    for i in range(len(read)):
        mine = table[row[i]]
        total = read[i, 0] * 0
        for j in range(width):
            value = max(own[j] * mine[j] + read[i, j], 0)
            joined[i, j] = value
            total += value
        mean = total / width
        spread = mean * 0
        for j in range(width):
            spread += (joined[i, j] - mean) ** 2
        inverse = 1 / np.sqrt(spread / width + EPSILON)
        moments[i, 0], moments[i, 1] = mean, inverse
        for j in range(width):
            out[i, j] = (joined[i, j] - moments[i, 0]) * moments[i, 1] * scale[j] + shift[j]


@nb.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def _unjoin(
    alone: Any,
    grad: Any,
    table: Any,
    row: Any,
    own: Any,
    scale: Any,
    joined: Any,
    moments: Any,
    to_table: Any,
    to_read: Any,
    slopes: Any,
) -> None:
    """Rows and sums of its own, one step a loop: the compiler then knows that nothing overlaps."""
    width, kind = grad.shape[1], grad.dtype
    sums, centred, slope = np.zeros((3, width), dtype=kind), np.empty(width, dtype=kind), np.empty(width, dtype=kind)
    to_own, to_scale, to_shift = sums[0], sums[1], sums[2]
    for i in range(len(grad)):
        mean, inverse = moments[i, 0], moments[i, 1]
        for j in range(width):
            centred[j] = (joined[i, j] - mean) * inverse
        pull = mean * 0
        twist = mean * 0
        for j in range(width):
            slope[j] = grad[i, j] * scale[j]
            pull += slope[j]
            twist += slope[j] * centred[j]
        for j in range(width):
            to_shift[j] += grad[i, j]
        for j in range(width):
            to_scale[j] += grad[i, j] * centred[j]
        pull /= width
        twist /= width
        for j in range(width):
            value = inverse * (slope[j] - pull - centred[j] * twist)
            slope[j] = value if joined[i, j] > 0 else value * 0
        mine, to_mine = table[row[i]], to_table[row[i]]
        for j in range(width):
            to_read[i, j] = slope[j]
        if alone:
            for j in range(width):
                to_mine[j] = slope[j] * own[j]
        else:
            for j in range(width):
                to_mine[j] += slope[j] * own[j]
        for j in range(width):
            to_own[j] += slope[j] * mine[j]
    slopes[:] = sums
