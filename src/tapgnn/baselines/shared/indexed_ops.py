"""Indexed operations: dot products with, and weighted sums of, rows chosen by index, without copying the rows.

    dot_products(query, rows, index)     [R, H, n]   <query[r, h], rows[index[r, i], h]>
    weighted_sums(weight, rows, index)   [R, H, d]   sum over i of weight[r, h, i] * rows[index[r, i], h]

query [R, H, d], rows [S, H, d] or [S, 1, d] (one row for all heads), weight [R, H, n], index [R, n] with -1 for
padding, which gives a dot product of 0 and adds nothing to a sum. Attention over n neighbours is a softmax between the
two. The gathered rows [R, n, H, d] would be by far its largest tensor; here a row is read in place.

Each is the other's derivative: d dot_products / d query is a weighted sum of the rows, d weighted_sums / d weight are
dot products with them, and the gradient of the rows is scattered back with the same index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.jit import fast

Loop = Callable[..., Any]


def dot_products(query: Tensor, rows: Tensor, index: Tensor) -> Tensor:
    """[R, H, n] the dot product of each query [R, H, d] with its rows."""
    out: Tensor = _Indexed.apply(_dot, query, rows, index)  # type: ignore[no-untyped-call]
    return out


def weighted_sums(weight: Tensor, rows: Tensor, index: Tensor) -> Tensor:
    """[R, H, d] the rows of each list, weighted [R, H, n] and added up."""
    out: Tensor = _Indexed.apply(_sum, weight, rows, index)  # type: ignore[no-untyped-call]
    return out


class _Indexed(torch.autograd.Function):
    """`loop` applied to (left, rows, index), where left is a query or a weight; the other loop is its derivative."""

    @staticmethod
    def forward(ctx: Any, loop: Loop, left: Tensor, rows: Tensor, index: Tensor) -> Tensor:
        ctx.loop = loop
        ctx.save_for_backward(left, rows, index)
        return _run(loop, (*left.shape[:2], index.shape[1] if loop is _dot else rows.shape[2]), left, rows, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None, None]:
        left, rows, index = ctx.saved_tensors
        other, weight, value = (_sum, grad, left) if ctx.loop is _dot else (_dot, left, grad)
        grad_left = _run(other, left.shape, grad, rows, index) if ctx.needs_input_grad[1] else None
        grad_rows = _run(_scatter, rows.shape, weight, value, index) if ctx.needs_input_grad[2] else None
        return None, grad_left, grad_rows, None


def _run(loop: Loop, shape: tuple[int, ...], left: Tensor, right: Tensor, index: Tensor) -> Tensor:
    """What a loop adds to zeros of this shape."""
    out = left.new_zeros(shape)
    arrays = (np.ascontiguousarray(tensor.detach().numpy()) for tensor in (left, right))
    loop(*arrays, index.numpy(), out.numpy())
    return out


@fast
def _dot(query: Any, rows: Any, index: Any, out: Any) -> None:
    own = rows.shape[1] > 1
    for r in range(index.shape[0]):
        for i in range(index.shape[1]):
            row = index[r, i]
            if row < 0:
                continue
            for h in range(query.shape[1]):
                left, right = query[r, h], rows[row, h if own else 0]
                total = out[r, h, i]
                for j in range(len(left)):
                    total += left[j] * right[j]
                out[r, h, i] = total


@fast
def _sum(weight: Any, rows: Any, index: Any, out: Any) -> None:
    own = rows.shape[1] > 1
    for r in range(index.shape[0]):
        for i in range(index.shape[1]):
            row = index[r, i]
            if row < 0:
                continue
            for h in range(weight.shape[1]):
                into, part, share = out[r, h], rows[row, h if own else 0], weight[r, h, i]
                for j in range(len(into)):
                    into[j] += share * part[j]


@fast
def _scatter(weight: Any, value: Any, index: Any, out: Any) -> None:
    """[S, H or 1, d] the sum, for each row, of weight * value over the places that list it."""
    own = out.shape[1] > 1
    for r in range(index.shape[0]):
        for i in range(index.shape[1]):
            row = index[r, i]
            if row < 0:
                continue
            for h in range(weight.shape[1]):
                into, part, share = out[row, h if own else 0], value[r, h], weight[r, h, i]
                for j in range(len(into)):
                    into[j] += share * part[j]
