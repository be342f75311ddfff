"""What two representations say of a pair, in one pass each way: a . z_u + b . z_v + c . (z_u * z_v).

The first `left` rows are left ends, the others right ends in blocks of `left`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tapgnn.compiled.jit import fast
from tapgnn.compiled.numba_intrinsics import new_line
from tapgnn.compiled.parallel import view


def weigh_pairs(z: Tensor, left: int, weights: Tensor) -> Tensor:
    """[Q] from z [n, d] and weights [3, d]: a, b and c."""
    return _Weigh.apply(z, left, weights)  # type: ignore[no-untyped-call,no-any-return]


def plain_weigh_pairs(z: Tensor, left: int, weights: Tensor) -> Tensor:
    """`weigh_pairs` in plain torch."""
    by_left, by_right, by_product = weights
    ours = z[:left]
    theirs = z[left:].view(-1, *ours.shape) if left else z[None, :0]
    logits: Tensor = ours @ by_left + (theirs * (by_right + by_product * ours)).sum(dim=2)
    return logits.flatten()


class _Weigh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, left: int, weights: Tensor) -> Tensor:
        out = z.new_empty(len(z) - left)
        weigh(left, view(z), view(weights), view(out))
        ctx.save_for_backward(z, weights)
        ctx.left = left
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, weights = ctx.saved_tensors
        grad_z = torch.empty_like(z, memory_format=torch.contiguous_format)
        grad_weights = torch.empty_like(weights, memory_format=torch.contiguous_format)
        _weigh_backward(ctx.left, *map(view, (grad, z, weights, grad_z, grad_weights)))
        return grad_z, None, grad_weights


@fast
def weigh(left: Any, z: Any, weights: Any, out: Any) -> None:
    """Fill out [Q]."""
    for q in range(len(out)):
        u, v, total = q % left, left + q, z.dtype.type(0)
        for j in range(z.shape[1]):
            total += z[u, j] * weights[0, j] + z[v, j] * (weights[1, j] + weights[2, j] * z[u, j])
        out[q] = total


@fast
def _weigh_backward(left: Any, grad: Any, z: Any, weights: Any, grad_z: Any, grad_weights: Any) -> None:
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
            g, v = grad[q], left + q
            total += g
            for j in range(width):
                grad_z[v, j] = g * (weights[1, j] + weights[2, j] * z[u, j])
                to_ours[j] += g * z[v, j]
        for j in range(width):
            grad_z[u, j] = total * weights[0, j] + to_ours[j] * weights[2, j]
            to_left[j] += total * z[u, j]
            to_right[j] += to_ours[j]
            to_product[j] += to_ours[j] * z[u, j]
    for j in range(width):
        grad_weights[0, j], grad_weights[1, j], grad_weights[2, j] = to_left[j], to_right[j], to_product[j]
