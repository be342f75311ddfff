"""What two representations say of a pair, in one pass each way: a . z_u + b . z_v + c . (z_u * z_v).

The first `left` rows are left ends, the others right ends in blocks of `left`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tapgnn.compiled.numba_intrinsics import fast, new_line


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
        to_z, slopes = torch.empty_like(z), torch.empty_like(weights)
        _unweigh(ctx.left, *(tensor.contiguous().numpy() for tensor in (grad, z, weights, to_z, slopes)))
        return to_z, None, *slopes


@fast
def _weigh(left: Any, z: Any, weights: Any, out: Any) -> None:
    for q in range(len(out)):
        u, v, total = q % left, left + q, z.dtype.type(0)
        for j in range(z.shape[1]):
            total += z[u, j] * weights[0, j] + z[v, j] * (weights[1, j] + weights[2, j] * z[u, j])
        out[q] = total


@fast
def _unweigh(left: Any, grad: Any, z: Any, weights: Any, to_z: Any, slopes: Any) -> None:
    width = z.shape[1]
    to_ours, to_left, to_right = new_line(width, z), new_line(width, z), new_line(width, z)
    to_product = new_line(width, z)
    for j in range(width):
        to_left[j] = to_right[j] = to_product[j] = 0
    for u in range(left):
        total = z.dtype.type(0)
        for j in range(width):
            to_ours[j] = 0
        for q in range(u, len(grad), left):
            slope, v = grad[q], left + q
            total += slope
            for j in range(width):
                to_z[v, j] = slope * (weights[1, j] + weights[2, j] * z[u, j])
                to_ours[j] += slope * z[v, j]
        for j in range(width):
            to_z[u, j] = total * weights[0, j] + to_ours[j] * weights[2, j]
            to_left[j] += total * z[u, j]
            to_right[j] += to_ours[j]
            to_product[j] += to_ours[j] * z[u, j]
    for j in range(width):
        slopes[0, j], slopes[1, j], slopes[2, j] = to_left[j], to_right[j], to_product[j]
