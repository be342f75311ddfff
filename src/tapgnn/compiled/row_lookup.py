"""Rows of a state: copied by node, and found at the times of some queries without being copied.

A query (v, t) reads v's latest temporal node strictly before t: a row of the present chunk, or what was carried into
it, or, for a node that is not active in it, its row in the arena.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.jit import compiled, fast, program
from tapgnn.compiled.numba_intrinsics import fetch, row_address, row_at
from tapgnn.compiled.parallel import view
from tapgnn.compiled.products import empty_rows


class Rows(NamedTuple):
    """[Q, w]: here[place], carried[place - T] where place is beyond the T rows of here, arena[row] where it is -1.

    Tensors, or arrays for loops. Good until the arena is written to.
    """

    place: Any
    row: Any
    here: Any
    carried: Any
    arena: Any


def rows_of(table: Tensor) -> Rows:
    """The rows of a table, one a query."""
    place = torch.arange(len(table), device=table.device)
    return Rows(place, place, table.contiguous(), table[:0], table[:0])


def pick(rows: Rows) -> Tensor:
    """The rows [Q, w], with the gradient to those of the chunk."""
    return _Pick.apply(*rows)  # type: ignore[no-untyped-call,no-any-return]


def plain_pick(rows: Rows) -> Tensor:
    """`pick` in plain torch."""
    place, row, here, carried, arena = rows
    elsewhere = (place < 0).nonzero().squeeze(1)
    outside = arena.index_select(0, row.index_select(0, elsewhere))
    inside = len(here) + len(carried)
    where = place.clone()
    where[elsewhere] = torch.arange(inside, inside + len(elsewhere), device=where.device)
    return torch.cat([here, carried, outside]).index_select(0, where)


def replace_rows(arena: Tensor, node: Tensor, table: Tensor, chosen: Tensor, start: int = 0) -> None:
    """Write the row chosen[c] of a table to node[c], from the column `start` on; node v has row v + 1."""
    put_rows(view(node), view(chosen), view(table), start, arena.numpy())


def plain_replace_rows(arena: Tensor, node: Tensor, table: Tensor, chosen: Tensor, start: int = 0) -> None:
    """`replace_rows` in plain torch."""
    arena[node + 1, start : start + table.shape[1]] = table.detach().index_select(0, chosen).to(arena.dtype)


class _Pick(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, place: Tensor, row: Tensor, here: Tensor, carried: Tensor, arena: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        ctx.size = len(here)
        return torch.from_numpy(pick_rows(Rows(*map(view, (place, row, here, carried, arena)))))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (place,) = ctx.saved_tensors
        grad_here = grad.new_zeros(ctx.size, grad.shape[1])
        _pick_backward(view(place), view(grad), view(grad_here))
        return None, None, grad_here, None, None


@fast
def find_address(rows: Any, q: Any) -> Any:
    """Where the row of one query starts."""
    place = rows.place[q]
    if place < 0:
        return row_address(rows.arena, rows.row[q])
    if place < len(rows.here):
        return row_address(rows.here, place)
    return row_address(rows.carried, place - len(rows.here))


@fast
def fetch_row(rows: Any, q: Any) -> None:
    """Ask early for the row of one query."""
    place = rows.place[q]
    if place < 0:
        fetch(rows.arena, rows.row[q])
    elif place < len(rows.here):
        fetch(rows.here, place)
    else:
        fetch(rows.carried, place - len(rows.here))


@program
def pick_rows(rows):  # type: ignore[no-untyped-def]
    """The rows [Q, w]."""
    out = empty_rows(len(rows.place), rows.arena.shape[1], rows.arena)
    _pick(rows, out)
    return out


@compiled
def _pick(rows: Any, out: Any) -> None:
    for q in range(len(out)):
        _copy_row(find_address(rows, q), rows.arena, row_address(out, q), out, out.shape[1])


@compiled
def _pick_backward(place: Any, grad: Any, grad_here: Any) -> None:
    for q in range(len(place)):
        if 0 <= place[q] < len(grad_here):
            for j in range(grad_here.shape[1]):
                grad_here[place[q], j] += grad[q, j]


@program
def take_rows(node, arena, start, width):  # type: ignore[no-untyped-def]
    """[C, width] copies of the rows of some nodes, from the column `start` on; node v has row v + 1."""
    out = empty_rows(len(node), width, arena)
    _take(node, arena, start, out)
    return out


@program
def take_sums(node, arena, start, width):  # type: ignore[no-untyped-def]
    """`take_rows` in float64, whatever they are kept in."""
    out = np.empty((len(node), width))
    _take(node, arena, start, out)
    return out


@compiled
def _take(node: Any, arena: Any, start: Any, out: Any) -> None:
    for c in range(len(node)):
        address = row_address(arena, node[c] + 1) + start * arena.itemsize
        _copy_row(address, arena, row_address(out, c), out, out.shape[1])


@compiled
def put_rows(node: Any, pick: Any, table: Any, start: Any, arena: Any) -> None:
    """Write the row pick[c] of a table to node[c], from the column `start` on; node v has row v + 1."""
    for c in range(len(node)):
        address = row_address(arena, node[c] + 1) + start * arena.itemsize
        _copy_row(row_address(table, pick[c]), table, address, arena, table.shape[1])


@fast
def _copy_row(source: Any, table: Any, target: Any, out: Any, width: Any) -> None:
    """Copy `width` numbers between two addresses, one in a table, one in out, which may be of another type."""
    values, row = row_at(source, (width,), table), row_at(target, (width,), out)
    for j in range(width):
        row[j] = values[j]
