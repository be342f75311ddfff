"""Mean and standard deviation of columns that arrive in pieces."""

from __future__ import annotations

import torch
from torch import Tensor


class Moments:
    """Running moments of rows [n, w]; the merge of two sets of rows is Chan's, exact for any pieces.

    >>> both = Moments()
    >>> both.add(torch.tensor([[1.0], [2.0]])); both.add(torch.tensor([[6.0]]))
    >>> both.mean().item(), round(both.deviation().item(), 4)
    (3.0, 2.1602)
    """

    def __init__(self) -> None:
        self._count = 0
        self._mean: Tensor | None = None
        self._squares: Tensor | None = None

    def add(self, rows: Tensor) -> None:
        """Take in some rows."""
        if len(rows) == 0:
            return
        exact = rows.double()
        mean, count = exact.mean(dim=0), len(rows)
        squares = (exact - mean).square().sum(dim=0)
        if self._mean is None or self._squares is None:
            self._count, self._mean, self._squares = count, mean, squares
            return
        total = self._count + count
        shift = mean - self._mean
        self._squares = self._squares + squares + shift.square() * self._count * count / total
        self._mean = self._mean + shift * count / total
        self._count = total

    def mean(self) -> Tensor:
        """[w], 0 before the first row."""
        return torch.zeros(1, dtype=torch.float64) if self._mean is None else self._mean

    def deviation(self) -> Tensor:
        """[w], 1 before the first row."""
        return torch.ones(1, dtype=torch.float64) if self._squares is None else (self._squares / self._count).sqrt()
