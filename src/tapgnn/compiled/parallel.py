"""Loops over segments (chains, inboxes) on several threads: loops release the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numba.extending import overload
from torch import Tensor

# Below this many numbers a second thread costs more than it brings.
PARALLEL_FROM = 1 << 17


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="tapgnn-scan")


def parallel(loop: Callable[..., None]) -> Callable[..., None]:
    """A loop over all segments, on as many threads as torch may use: run(segments, width, arrays).

    loop(first, last, segments, arrays) runs over some of them. Within compiled code there are few rows, and one thread.
    """

    def run(segments: Any, width: int, arrays: tuple[Any, ...]) -> None:
        count = len(segments) - 1
        threads = min(torch.get_num_threads(), count)
        if threads < 2 or int(segments[-1]) * width < PARALLEL_FROM:
            loop(0, count, segments, arrays)
            return
        shares = np.linspace(0, segments[-1], threads + 1)[1:-1]
        borders = [0, *np.searchsorted(segments, shares).tolist(), count]
        *others, (first, last) = pairwise(borders)
        jobs = [_pool(threads).submit(loop, *share, segments, arrays) for share in others]
        loop(first, last, segments, arrays)
        for job in jobs:
            job.result()

    @overload(run)
    def _compiled(segments, width, arrays):  # type: ignore[no-untyped-def]
        def all_of_them(segments, width, arrays):  # type: ignore[no-untyped-def]
            loop(0, len(segments) - 1, segments, arrays)

        return all_of_them

    return run


def view(tensor: Tensor) -> Any:
    """The array of a tensor, row by row; the same memory where that is possible."""
    return (tensor.detach() if tensor.requires_grad else tensor).contiguous().numpy()
