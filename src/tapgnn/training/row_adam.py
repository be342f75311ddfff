"""Adam for a table of node vectors of which a step touches a few rows: its cost does not depend on the other rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tapgnn.compiled.jit import compiled


class RowAdam(torch.optim.Optimizer):
    """Adam on the rows that have a gradient (a sparse one); the moments of the others stand still.

    What `torch.optim.SparseAdam` does, in one pass over the rows; on the CPU. A step uses up the gradient.
    """

    def __init__(self, tables: list[Tensor], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8):
        super().__init__(tables, {"lr": lr, "betas": betas, "eps": eps})
        self._places = [torch.full((len(table),), -1) for table in tables]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update the rows."""
        (group,) = self.param_groups
        first, second = group["betas"]
        for table, place in zip(group["params"], self._places, strict=True):
            if table.grad is None:
                continue
            state = self.state[table]
            if not state:
                state |= {"step": 0, "moments": table.new_zeros(2, *table.shape)}
            state["step"] += 1
            # The bias of both moments, drawn into the size of the step.
            size = group["lr"] * (1 - second ** state["step"]) ** 0.5 / (1 - first ** state["step"])
            given = (table.grad._indices()[0], table.grad._values(), place, state["moments"], table)
            _adam(size, first, second, group["eps"], *(tensor.numpy() for tensor in given))


@compiled
def _adam(
    size: Any, first: Any, second: Any, eps: Any, rows: Any, grad: Any, place: Any, moments: Any, table: Any
) -> None:
    """rows [n] may repeat: their gradients [n, d] add up at the first of them. place [N] is -1 before and after."""
    kind = table.dtype.type
    size, first, second, eps = kind(size), kind(first), kind(second), kind(eps)
    for i in range(len(rows)):
        before = place[rows[i]]
        if before < 0:
            place[rows[i]] = i
        else:
            for j in range(grad.shape[1]):
                grad[before, j] += grad[i, j]
    for i in range(len(rows)):
        if place[rows[i]] != i:
            continue
        grad_row, values = grad[i], table[rows[i]]
        mean, square = moments[0, rows[i]], moments[1, rows[i]]
        for j in range(len(grad_row)):
            mean[j] += (grad_row[j] - mean[j]) * (1 - first)
        for j in range(len(grad_row)):
            square[j] += (grad_row[j] * grad_row[j] - square[j]) * (1 - second)
        for j in range(len(grad_row)):
            values[j] -= size * mean[j] / (np.sqrt(square[j]) + eps)
    for i in range(len(rows)):
        place[rows[i]] = -1
