"""Loops over segments (chains, inboxes) and whole programs on several threads: compiled loops, and the matrix library,
release the interpreter's lock.

A row is made by one thread, in one order, wherever the borders between threads fall: their number changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numba.extending import overload
from torch import Tensor

from tapgnn.threads import share_threads, start_thread, threads_here

# Below this many numbers a second thread costs more than it brings.
PARALLEL_FROM = 1 << 16


def parallel(loop: Callable[..., None]) -> Callable[..., None]:
    """A loop over all segments, on as many threads as it may use: run(segments, width, arrays).

    loop(first, last, segments, arrays) runs over some of them. Within compiled code there are few rows, and one thread.
    """

    def run(segments: Any, width: int, arrays: tuple[Any, ...]) -> None:
        count = len(segments) - 1
        threads = min(threads_here(), count)
        if threads < 2 or int(segments[-1]) * width < PARALLEL_FROM:
            loop(0, count, segments, arrays)
            return
        shares = np.linspace(0, segments[-1], threads + 1)[1:-1]
        borders = [0, *np.searchsorted(segments, shares).tolist(), count]
        *others, (first, last) = pairwise(borders)
        jobs = [start_thread(1, loop, *share, segments, arrays) for share in others]
        loop(first, last, segments, arrays)
        for job in jobs:
            job.result()

    @overload(run)
    def _compiled(segments, width, arrays):  # type: ignore[no-untyped-def]
        def all_of_them(segments, width, arrays):  # type: ignore[no-untyped-def]
            loop(0, len(segments) - 1, segments, arrays)

        return all_of_them

    return run


def side_by_side(size: int, first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
    """What both give, neither of which writes what the other reads; they make `size` numbers."""
    threads = threads_here()
    if threads < 2 or size < PARALLEL_FROM:
        return first(), second()
    job = start_thread(threads // 2, second)
    try:
        return share_threads(threads - threads // 2, first), job.result()
    finally:
        job.exception()


def view(tensor: Tensor) -> Any:
    """The array of a tensor, row by row; the same memory where that is possible."""
    return (tensor.detach() if tensor.requires_grad else tensor).contiguous().numpy()
