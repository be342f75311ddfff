"""What two representations say of a pair, in one pass each way: a . z_u + b . z_v + c . (z_u * z_v).

The first `left` rows are left ends, the others right ends in blocks of `left`.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import torch
from torch import Tensor


def weigh_pairs(z: Tensor, left: int, by_left: Tensor, by_right: Tensor, by_product: Tensor) -> Tensor:
    """[Q] from z [n, d]; the three weights are [d]."""
    if z.device.type != "cpu":
        return plainly_weigh_pairs(z, left, by_left, by_right, by_product)
    return _Weigh.apply(z, left, by_left, by_right, by_product)  # type: ignore[no-untyped-call,no-any-return]


def plainly_weigh_pairs(z: Tensor, left: int, by_left: Tensor, by_right: Tensor, by_product: Tensor) -> Tensor:
    """`weigh_pairs` in plain torch."""
    ours = z[:left]
    theirs = z[left:].view(-1, *ours.shape) if left else z[None, :0]
    return (ours @ by_left + (theirs * (by_right + by_product * ours)).sum(dim=2)).flatten()


class _Weigh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, left: int, by_left: Tensor, by_right: Tensor, by_product: Tensor) -> Tensor:
        weights = torch.stack([by_left, by_right, by_product])
        z = z.contiguous()
        out = z.new_empty(len(z) - left)
        _weigh(left, *(tensor.detach().numpy() for tensor in (z, weights, out)))
        ctx.save_for_backward(z, weights)
        ctx.left = left
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, weights = ctx.saved_tensors
        to_z, slopes = torch.empty_like(z), torch.zeros_like(weights)
        _unweigh(ctx.left, *(tensor.contiguous().numpy() for tensor in (grad, z, weights, to_z, slopes)))
        return to_z, None, *slopes


_fast = nb.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")


@_fast
def _weigh(left: Any, z: Any, weights: Any, out: Any) -> None:
    by_left, by_right, by_product = weights[0], weights[1], weights[2]
    for q in range(len(out)):
        ours, theirs = z[q % left], z[left + q]
        total = by_left[0] * 0
        for j in range(len(ours)):
            total += ours[j] * by_left[j] + theirs[j] * (by_right[j] + by_product[j] * ours[j])
        out[q] = total


@_fast
def _unweigh(left: Any, grad: Any, z: Any, weights: Any, to_z: Any, slopes: Any) -> None:
    by_left, by_right, by_product = weights[0], weights[1], weights[2]
    width = z.shape[1]
    # Arrays of its own for what is written again and again, so that the loops below are known not to overlap.
    to_ours, products = np.empty(width, dtype=z.dtype), np.empty(width, dtype=z.dtype)
    for u in range(left):
        ours = z[u]
        to_ours[:] = 0
        total = by_left[0] * 0
        for q in range(u, len(grad), left):
            slope, theirs, to_theirs = grad[q], z[left + q], to_z[left + q]
            total += slope
            for j in range(width):
                to_theirs[j] = slope * (by_right[j] + by_product[j] * ours[j])
            for j in range(width):
                to_ours[j] += slope * theirs[j]
        for j in range(width):
            products[j] = to_ours[j] * ours[j]
        for j in range(width):
            to_z[u, j] = total * by_left[j] + to_ours[j] * by_product[j]
        for j in range(width):
            slopes[0, j] += total * ours[j]
        for j in range(width):
            slopes[1, j] += to_ours[j]
        for j in range(width):
            slopes[2, j] += products[j]
