"""Dense products without gradients: the matrix library for many rows, a plain loop inside compiled code for few.

A call of the matrix library costs as much as the product of some dozens of rows, and cannot be made from compiled code.
Its results depend on how its arguments are aligned in memory: rows that it may see come from `empty_rows`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba.extending import overload

from tapgnn.compiled.jit import FREE, fast, program


def empty_rows(rows: int, width: int, like: Any) -> Any:
    """[rows, width] of the type of an array, to be filled."""
    return torch.empty(rows, width, dtype=torch.from_numpy(like[:0]).dtype).numpy()


@overload(empty_rows)
def _empty_rows_compiled(rows, width, like):  # type: ignore[no-untyped-def]
    def run(rows, width, like):  # type: ignore[no-untyped-def]
        return np.empty((rows, width), dtype=like.dtype)

    return run


def multiply(rows: Any, weight: Any, out: Any) -> None:
    """Add rows [n, i] times weight [i, o] to out [n, o]."""
    if len(weight):
        torch.from_numpy(out).addmm_(torch.from_numpy(rows), torch.from_numpy(weight))


@overload(multiply, jit_options={"fastmath": FREE, "error_model": "numpy"})
def _multiply_few(rows, weight, out):  # type: ignore[no-untyped-def]
    def run(rows, weight, out):  # type: ignore[no-untyped-def]
        for r in range(len(rows)):
            target = out[r]
            for i in range(len(weight)):
                factor, line = rows[r, i], weight[i]
                if factor != 0.0:
                    for j in range(len(target)):
                        target[j] += factor * line[j]

    return run


@program
def linear(rows, weight, bias):  # type: ignore[no-untyped-def]
    """rows [n, i] times weight [i, o], and bias [o], or one number, added: [n, o]."""
    out = empty_rows(len(rows), weight.shape[1], weight)
    out[:] = bias
    multiply(rows, weight, out)
    return out


@fast
def relu(rows: Any) -> None:
    """max(., 0) of rows [n, d], where they stand."""
    zero = rows.dtype.type(0)
    for r in range(len(rows)):
        for j in range(rows.shape[1]):
            rows[r, j] = max(rows[r, j], zero)


@fast
def divide_rows(rows: Any, by: Any) -> None:
    """Each of rows [n, d] over its number of by [n], where they stand."""
    for r in range(len(rows)):
        for j in range(rows.shape[1]):
            rows[r, j] /= by[r]
