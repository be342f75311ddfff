"""Gathering: dot products with, and weighted sums of, listed rows, without a copy of the rows.

    dots(query, rows, index)     [R, H, n]   <query[r, h], rows[index[r, i], h]>
    mixture(weight, rows, index) [R, H, d]   sum over i of weight[r, h, i] * rows[index[r, i], h]

query [R, H, d], rows [S, H, d] or [S, 1, d] (one row for all heads), weight [R, H, n], index [R, n] with -1 where there
is nothing: a dot product of 0, and no part of a sum. Attention over n neighbours is a softmax between the two. The
gathered rows [R, n, H, d] would be by far its largest tensor; here a row is read where it lies.

Each is the other's derivative: d dots / d query is a mixture of the rows, d mixture / d weight are dots with them, and
what reaches the rows is scattered back with the same index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb
import numpy as np
import torch
from torch import Tensor


def dots(query: Tensor, rows: Tensor, index: Tensor) -> Tensor:
    """[R, H, n] the dot product of each query [R, H, d] with its rows."""
    found: Tensor = _Dots.apply(query, rows, index)  # type: ignore[no-untyped-call]
    return found


def mixture(weight: Tensor, rows: Tensor, index: Tensor) -> Tensor:
    """[R, H, d] the rows of each list, weighted [R, H, n] and added up."""
    found: Tensor = _Mixture.apply(weight, rows, index)  # type: ignore[no-untyped-call]
    return found


class _Dots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, rows: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(query, rows, index)
        return _run_dots(query, rows, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        query, rows, index = ctx.saved_tensors
        of_query = _run_mixture(grad, rows, index) if ctx.needs_input_grad[0] else None
        of_rows = _run_scatter(grad, query, rows, index) if ctx.needs_input_grad[1] else None
        return of_query, of_rows, None


class _Mixture(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, rows: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(weight, rows, index)
        return _run_mixture(weight, rows, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weight, rows, index = ctx.saved_tensors
        of_weight = _run_dots(grad, rows, index) if ctx.needs_input_grad[0] else None
        of_rows = _run_scatter(weight, grad, rows, index) if ctx.needs_input_grad[1] else None
        return of_weight, of_rows, None


def _run_dots(query: Tensor, rows: Tensor, index: Tensor) -> Tensor:
    out = query.new_zeros((*query.shape[:2], index.shape[1]))
    _dot_rows(_array(query), _array(rows), index.numpy(), out.numpy())
    return out


def _run_mixture(weight: Tensor, rows: Tensor, index: Tensor) -> Tensor:
    out = weight.new_zeros((*weight.shape[:2], rows.shape[2]))
    _mix_rows(_array(weight), _array(rows), index.numpy(), out.numpy())
    return out


def _run_scatter(weight: Tensor, value: Tensor, rows: Tensor, index: Tensor) -> Tensor:
    """[S, H or 1, d] the sum, for each row, of weight * value over the places that list it."""
    out = torch.zeros_like(rows)
    _scatter_rows(_array(weight), _array(value), index.numpy(), out.numpy())
    return out


def _array(tensor: Tensor) -> Any:
    return np.ascontiguousarray(tensor.detach().numpy())


def _loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled loop; sums may be reordered, so that they run on vector units."""
    liberties = {"reassoc", "contract", "nsz", "arcp"}
    return nb.njit(nogil=True, cache=True, fastmath=liberties, error_model="numpy")(function)


@_loop
def _dot_rows(query: Any, rows: Any, index: Any, out: Any) -> None:
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


@_loop
def _mix_rows(weight: Any, rows: Any, index: Any, out: Any) -> None:
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


@_loop
def _scatter_rows(weight: Any, value: Any, index: Any, out: Any) -> None:
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
