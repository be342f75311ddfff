"""The projection with facts in one pass each way: LayerNorm(relu(own * h + facts W + b)), h read where it stands."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tapgnn.compiled.layer_norm import begin_slope, end_slope, join_and_normalise, row_moments
from tapgnn.compiled.numba_intrinsics import ROWS_AHEAD, fast, fetch, new_line
from tapgnn.compiled.row_lookup import Rows, fetch_row
from tapgnn.compiled.scan_loops import view


class Weights(NamedTuple):
    """The weights [d, f] and bias [d] of the facts; own, scale and shift [d]."""

    weight: Tensor
    bias: Tensor
    own: Tensor
    scale: Tensor
    shift: Tensor


def join_rows(rows: Rows, facts: Tensor, more: Tensor | None, weights: Weights) -> Tensor:
    """z [Q, d] of embeddings (rows) and facts [Q, f]; more [Q, d] is added to what the facts say."""
    if facts.device.type != "cpu":
        return plainly_join_rows(rows, facts, more, weights)
    places = (rows.place, rows.row, rows.carried, rows.arena)
    return _Join.apply(rows.here, more, *weights, facts, *places)  # type: ignore[no-untyped-call,no-any-return]


def plainly_join_rows(rows: Rows, facts: Tensor, more: Tensor | None, weights: Weights) -> Tensor:
    """`join_rows` in plain torch."""
    weight, bias, own, scale, shift = weights
    known = torch.addmm(bias, facts, weight.T)
    return join_and_normalise(rows.plain_tensor(), own, known if more is None else known + more, scale, shift)


class _Join(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        here: Tensor,
        more: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        own: Tensor,
        scale: Tensor,
        shift: Tensor,
        facts: Tensor,
        place: Tensor,
        row: Tensor,
        carried: Tensor,
        arena: Tensor,
    ) -> Tensor:
        joined = facts @ weight.T
        if more is not None:
            joined += more
        out, moments = torch.empty_like(joined), joined.new_empty(len(joined), 2)
        given = (place, row, here, carried, arena, bias, own, scale, shift)
        join(*[view(tensor) for tensor in given], *[tensor.numpy() for tensor in (joined, moments, out)])
        # The arena may be written to before the backward, which then is refused: it is kept only where it is needed.
        arena = arena if bool((place < 0).any()) else arena.new_empty(0, arena.shape[1])
        ctx.save_for_backward(place, row, here, carried, arena, own, scale, joined, moments, facts)
        ctx.more = more is not None
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *given, facts = ctx.saved_tensors
        to_here, to_known = grad.new_zeros(given[2].shape), grad.new_empty(grad.shape)
        to_rows = grad.new_empty(4, grad.shape[1])
        filled = [tensor.numpy() for tensor in (to_here, to_known, to_rows)]
        _unjoin(*[view(tensor) for tensor in (*given, grad)], *filled)
        to_weight = (facts.T @ to_known).T
        to_more = to_known if ctx.more else None
        return to_here, to_more, to_weight, to_rows[3], *to_rows[:3], None, None, None, None, None


@fast
def join(
    place: Any,
    row: Any,
    here: Any,
    carried: Any,
    arena: Any,
    bias: Any,
    own: Any,
    scale: Any,
    shift: Any,
    joined: Any,
    moments: Any,
    out: Any,
) -> None:
    """Fill out and moments; joined [Q, d] holds what the facts say but for the bias, and then what is normalised."""
    width = out.shape[1]
    line = new_line(width, out)
    for q in range(len(out)):
        ahead = min(q + ROWS_AHEAD, len(out) - 1)
        fetch_row(place[ahead], row[ahead], here, carried, arena)
        if place[q] < 0:
            _join_row(arena, row[q], bias, own, joined, q, line)
        elif place[q] < len(here):
            _join_row(here, place[q], bias, own, joined, q, line)
        else:
            _join_row(carried, place[q] - len(here), bias, own, joined, q, line)
        mean, inverse = row_moments(line)
        moments[q, 0], moments[q, 1] = mean, inverse
        for j in range(width):
            out[q, j] = (line[j] - mean) * inverse * scale[j] + shift[j]


@fast
def _join_row(table: Any, r: Any, bias: Any, own: Any, joined: Any, q: Any, line: Any) -> None:
    nothing = line.dtype.type(0)
    for j in range(len(line)):
        line[j] = max(own[j] * table[r, j] + (joined[q, j] + bias[j]), nothing)
    for j in range(len(line)):
        joined[q, j] = line[j]


@fast
def _unjoin(
    place: Any,
    row: Any,
    here: Any,
    carried: Any,
    arena: Any,
    own: Any,
    scale: Any,
    joined: Any,
    moments: Any,
    grad: Any,
    to_here: Any,
    to_known: Any,
    to_rows: Any,
) -> None:
    """Rows of to_rows: own, scale, shift, and the bias of the facts."""
    width, nothing = grad.shape[1], grad.dtype.type(0)
    line, centred, slope = new_line(width, grad), new_line(width, grad), new_line(width, grad)
    to_own, to_scale = new_line(width, grad), new_line(width, grad)
    to_shift, to_bias = new_line(width, grad), new_line(width, grad)
    for j in range(width):
        to_own[j] = to_scale[j] = to_shift[j] = to_bias[j] = 0
    for q in range(len(grad)):
        ahead = min(q + ROWS_AHEAD, len(grad) - 1)
        fetch_row(place[ahead], row[ahead], here, carried, arena)
        if 0 <= place[ahead] < len(here):
            fetch(to_here, place[ahead])
        for j in range(width):
            line[j] = joined[q, j]
            slope[j] = grad[q, j]
        pull, twist = begin_slope(line, moments, q, scale, centred, slope, to_scale, to_shift)
        inverse = moments[q, 1]
        for j in range(width):
            slope[j] = end_slope(line[j], slope[j], centred[j], inverse, pull, twist, nothing)
            to_known[q, j] = slope[j]
            to_bias[j] += slope[j]
        r = place[q]
        if r < 0:
            _pull_own(arena, row[q], slope, to_own)
        elif r < len(here):
            _pull_own(here, r, slope, to_own)
            for j in range(width):
                to_here[r, j] += slope[j] * own[j]
        else:
            _pull_own(carried, r - len(here), slope, to_own)
    for j in range(width):
        to_rows[0, j], to_rows[1, j], to_rows[2, j], to_rows[3, j] = to_own[j], to_scale[j], to_shift[j], to_bias[j]


@fast
def _pull_own(table: Any, r: Any, slope: Any, to_own: Any) -> None:
    for j in range(len(slope)):
        to_own[j] += slope[j] * table[r, j]
