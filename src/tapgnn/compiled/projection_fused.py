"""The projection with statistics in one pass each way: LayerNorm(relu(own * h + known + b)), h read where it stands.

known [Q, d] is what the statistics of a query say of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tapgnn.compiled.jit import fast, program
from tapgnn.compiled.layer_norm import join_and_normalise, normalise_backward, relu_backward, row_moments
from tapgnn.compiled.numba_intrinsics import ROWS_AHEAD, fetch, new_line
from tapgnn.compiled.parallel import view
from tapgnn.compiled.products import empty_rows
from tapgnn.compiled.row_lookup import Rows, fetch_row, plain_pick


class JoinWeights(NamedTuple):
    """bias, own, scale and shift [d]."""

    bias: Any
    own: Any
    scale: Any
    shift: Any


def join_rows(rows: Rows, known: Tensor, weights: JoinWeights) -> Tensor:
    """z [Q, d] of embeddings (rows) and what is known [Q, d], which is used up."""
    return _Join.apply(known, *weights, *rows)  # type: ignore[no-untyped-call,no-any-return]


def plain_join_rows(rows: Rows, known: Tensor, weights: JoinWeights) -> Tensor:
    """`join_rows` in plain torch."""
    bias, own, scale, shift = weights
    return join_and_normalise(plain_pick(rows), own, scale, shift, known + bias)


class _Join(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, known: Tensor, *given: Tensor) -> Tensor:
        weights, rows = JoinWeights(*map(view, given[:4])), Rows(*map(view, given[4:]))
        joined = known.detach().contiguous()
        out, moments = join(rows, joined.numpy(), weights)
        place, row, here, carried, arena = given[4:]
        # The arena may be written to before the backward, which then is refused: it is kept only where it is needed.
        arena = arena if bool((place < 0).any()) else arena.new_empty(0, arena.shape[1])
        ctx.save_for_backward(joined, *given[:4], place, row, here, carried, arena)
        ctx.moments = moments
        return torch.from_numpy(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        joined, *saved = ctx.saved_tensors
        weights, rows = JoinWeights(*map(view, saved[:4])), Rows(*map(view, saved[4:]))
        grad_here, grad_known = grad.new_zeros(rows.here.shape), grad.new_empty(grad.shape)
        by_channel = grad.new_empty(4, grad.shape[1])
        grads = (view(grad_here), view(grad_known), view(by_channel))
        _join_backward(rows, weights, view(joined), ctx.moments, view(grad), grads)
        return grad_known, *by_channel, None, None, grad_here, None, None


@program
def join(rows, joined, weights):  # type: ignore[no-untyped-def]
    """z and the moments [Q, 2]; joined [Q, d] holds what is known but for the bias, and then what is normalised."""
    out = empty_rows(len(joined), joined.shape[1], joined)
    moments = empty_rows(len(joined), 2, joined)
    _join(rows, joined, weights, moments, out)
    return out, moments


@fast
def _join(rows: Any, joined: Any, weights: Any, moments: Any, out: Any) -> None:
    bias, own, scale, shift = weights
    width = out.shape[1]
    line = new_line(width, out)
    for q in range(len(out)):
        fetch_row(rows, min(q + ROWS_AHEAD, len(out) - 1))
        place = rows.place[q]
        if place < 0:
            _join_row(rows.arena, rows.row[q], bias, own, joined, q, line)
        elif place < len(rows.here):
            _join_row(rows.here, place, bias, own, joined, q, line)
        else:
            _join_row(rows.carried, place - len(rows.here), bias, own, joined, q, line)
        mean, inverse = row_moments(line)
        moments[q, 0], moments[q, 1] = mean, inverse
        for j in range(width):
            out[q, j] = (line[j] - mean) * inverse * scale[j] + shift[j]


@fast
def _join_row(table: Any, r: Any, bias: Any, own: Any, joined: Any, q: Any, line: Any) -> None:
    zero = line.dtype.type(0)
    for j in range(len(line)):
        line[j] = max(own[j] * table[r, j] + (joined[q, j] + bias[j]), zero)
    for j in range(len(line)):
        joined[q, j] = line[j]


@fast
def _join_backward(rows: Any, weights: Any, joined: Any, moments: Any, grad_out: Any, grads: Any) -> None:
    """Rows of by_channel: bias, own, scale, shift."""
    _, own, scale, _ = weights
    grad_here, grad_known, by_channel = grads
    width, zero = grad_out.shape[1], grad_out.dtype.type(0)
    line, centred, grad = new_line(width, grad_out), new_line(width, grad_out), new_line(width, grad_out)
    grad_own, grad_scale = new_line(width, grad_out), new_line(width, grad_out)
    grad_shift, grad_bias = new_line(width, grad_out), new_line(width, grad_out)
    for j in range(width):
        grad_own[j] = grad_scale[j] = grad_shift[j] = grad_bias[j] = 0
    for q in range(len(grad_out)):
        ahead = min(q + ROWS_AHEAD, len(grad_out) - 1)
        fetch_row(rows, ahead)
        if 0 <= rows.place[ahead] < len(rows.here):
            fetch(grad_here, rows.place[ahead])
        for j in range(width):
            line[j] = joined[q, j]
            grad[j] = grad_out[q, j]
        mean, product = normalise_backward(line, moments, q, scale, centred, grad, grad_scale, grad_shift)
        inverse = moments[q, 1]
        for j in range(width):
            grad[j] = relu_backward(line[j], grad[j], centred[j], inverse, mean, product, zero)
            grad_known[q, j] = grad[j]
            grad_bias[j] += grad[j]
        place = rows.place[q]
        if place < 0:
            _add_own(rows.arena, rows.row[q], grad, grad_own)
        elif place < len(rows.here):
            _add_own(rows.here, place, grad, grad_own)
            for j in range(width):
                grad_here[place, j] += grad[j] * own[j]
        else:
            _add_own(rows.carried, place - len(rows.here), grad, grad_own)
    for j in range(width):
        by_channel[0, j], by_channel[1, j] = grad_bias[j], grad_own[j]
        by_channel[2, j], by_channel[3, j] = grad_scale[j], grad_shift[j]


@fast
def _add_own(table: Any, r: Any, grad: Any, grad_own: Any) -> None:
    for j in range(len(grad)):
        grad_own[j] += grad[j] * table[r, j]
