"""Rows of an arena as they stood at the times of some queries, found without being copied.

A query (v, t) reads v's latest temporal node strictly before t: a row of the present chunk, or what was carried into
it, or, for a node that is not active in it, its row in the arena.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba as nb
import torch
from torch import Tensor

from tapgnn.compiled.numba_intrinsics import fast, fetch, row_address, row_at


@dataclass(frozen=True)
class Rows:
    """[Q, w]: here[place], carried[place - T] where place is beyond the T rows of here, arena[row] where it is -1.

    Good until the arena is written to.
    """

    place: Tensor
    row: Tensor
    here: Tensor
    carried: Tensor
    arena: Tensor

    @classmethod
    def of(cls, table: Tensor) -> Rows:
        """The rows of a table, one a query."""
        place = torch.arange(len(table), device=table.device)
        return cls(place, place, table.contiguous(), table[:0], table[:0])

    def tensor(self) -> Tensor:
        """The rows [Q, w], with the gradient to those of the chunk."""
        if self.arena.device.type != "cpu":
            return self.plain_tensor()
        out: Tensor = _Pick.apply(self.here, self.place, self.row, self.carried, self.arena)  # type: ignore[no-untyped-call]
        return out

    def plain_tensor(self) -> Tensor:
        """`tensor` in plain torch."""
        elsewhere = (self.place < 0).nonzero().squeeze(1)
        outside = self.arena.index_select(0, self.row.index_select(0, elsewhere))
        inside = len(self.here) + len(self.carried)
        where = self.place.clone()
        where[elsewhere] = torch.arange(inside, inside + len(elsewhere), device=where.device)
        return torch.cat([self.here, self.carried, outside]).index_select(0, where)


class _Pick(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, here: Tensor, place: Tensor, row: Tensor, carried: Tensor, arena: Tensor) -> Tensor:
        out = arena.new_empty(len(place), arena.shape[1])
        _pick(*(tensor.detach().contiguous().numpy() for tensor in (place, row, here, carried, arena, out)))
        ctx.save_for_backward(place)
        ctx.size = len(here)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (place,) = ctx.saved_tensors
        slope = grad.new_zeros(ctx.size, grad.shape[1])
        _unpick(place.numpy(), grad.contiguous().numpy(), slope.numpy())
        return slope, None, None, None, None


@fast
def find_row(place: Any, row: Any, here: Any, carried: Any, arena: Any) -> Any:
    """The row [w] of one query."""
    if place < 0:
        return arena[row]
    if place < len(here):
        return here[place]
    return carried[place - len(here)]


@fast
def find_address(place: Any, row: Any, here: Any, carried: Any, arena: Any) -> Any:
    """Where the row of one query starts."""
    if place < 0:
        return row_address(arena, row)
    if place < len(here):
        return row_address(here, place)
    return row_address(carried, place - len(here))


@fast
def fetch_row(place: Any, row: Any, here: Any, carried: Any, arena: Any) -> None:
    """Ask early for the row of one query."""
    if place < 0:
        fetch(arena, row)
    elif place < len(here):
        fetch(here, place)
    else:
        fetch(carried, place - len(here))


@nb.njit(nogil=True, cache=True)
def _pick(place: Any, row: Any, here: Any, carried: Any, arena: Any, out: Any) -> None:
    for q in range(len(place)):
        address = find_address(place[q], row[q], here, carried, arena)
        _copy_row(address, arena, row_address(out, q), out, out.shape[1])


@nb.njit(nogil=True, cache=True)
def _unpick(place: Any, grad: Any, slope: Any) -> None:
    for q in range(len(place)):
        if 0 <= place[q] < len(slope):
            for j in range(slope.shape[1]):
                slope[place[q], j] += grad[q, j]


@nb.njit(nogil=True, cache=True)
def take_rows(node: Any, arena: Any, out: Any) -> None:
    """Copy the rows of some nodes; node v has row v + 1."""
    for c in range(len(node)):
        _copy_row(row_address(arena, node[c] + 1), arena, row_address(out, c), out, out.shape[1])


@nb.njit(nogil=True, cache=True)
def put_rows(node: Any, pick: Any, table: Any, start: Any, arena: Any) -> None:
    """Write the row pick[c] of a table to node[c], from the column `start` on; node v has row v + 1."""
    for c in range(len(node)):
        address = row_address(arena, node[c] + 1) + start * arena.itemsize
        _copy_row(row_address(table, pick[c]), table, address, arena, table.shape[1])


@fast
def _copy_row(source: Any, table: Any, target: Any, out: Any, width: Any) -> None:
    """Copy `width` numbers between two addresses, one in a table, one in out."""
    values, row = row_at(source, (width,), table), row_at(target, (width,), out)
    for j in range(width):
        row[j] = values[j]
