"""Threads: how many a process uses, and for what.

What models do shares them: loops over chains (`compiled/parallel.py`), and work that is done ahead. They are Python's
own, which sleep while they wait; those of numba's plainest layer must not be started by two threads at once. Torch has
one, always: its threads wait by spinning, which on a busy machine is far slower than none, and several of them add up
in another order. Numba, BLAS and OpenMP, which serve other methods, have at most as many.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

from tapgnn.errors import ConfigError

# What a BLAS or OpenMP library reads once, when it is loaded.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
# More bring little: what a model does falls into two parts of equal weight.
USEFUL = 2
# More than ever wait for each other; a thread starts only when all others are busy.
MOST = 256
# M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of glibc.
MALLOC = {-8: 1, -3: 1 << 26, -1: 1 << 28}

Item = TypeVar("Item")


class _Share(threading.local):
    """How many threads may be used by what runs on this one; None for all."""

    threads: int | None = None


_count, _share = 1, _Share()


def set_threads(count: int) -> None:
    """Give the loops of models `count` threads, torch one, and every other pool of this process at most `count`.

    OpenMP keeps a number for each thread of a program: call it in every one that multiplies matrices.
    """
    import numba
    import torch
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    global _count
    if count < 1:
        raise ConfigError(f"threads must be at least 1, not {count}")
    _count = count
    _keep_freed_memory()
    numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    threadpool_limits(limits=count)
    # Last: numba resets the threads of OpenMP, which are torch's.
    torch.set_num_threads(1)


def thread_count() -> int:
    """How many threads models have: 1 until `set_threads` says more."""
    return _count


def threads_here() -> int:
    """How many of them may be used by what runs on this one."""
    return _share.threads or _count


def share_threads(threads: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that may use so many of them."""
    before, _share.threads = _share.threads, threads
    try:
        return function(*arguments)
    finally:
        _share.threads = before


def start_thread(threads: int, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Call it on another one."""
    return _pool(os.getpid()).submit(share_threads, threads, function, *arguments)


def ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """The items, each made on another thread while the one before it is used; where there is one thread, one by one.

    Both have half of the threads.
    """
    threads, before, source = threads_here(), _share.threads, iter(items)
    if threads < 2:
        yield from source
        return
    end: Any = object()
    job = start_thread(threads // 2, next, source, end)
    _share.threads = threads - threads // 2
    try:
        while (item := job.result()) is not end:
            job = start_thread(threads // 2, next, source, end)
            yield item
    finally:
        _share.threads = before
        # Whoever stops early may change what the next item is made from.
        job.exception()


@cache
def _keep_freed_memory() -> None:
    """Have the allocator of Linux serve all threads from one pool, and keep what a chunk frees for the next.

    Pages that go back to the system, or that another thread's pool has, cost about as much to get as to compute on.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is not None and hasattr(library, "mallopt"):
        for option, value in MALLOC.items():
            library.mallopt(option, value)


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One for each process: threads do not survive a fork."""
    import torch

    return ThreadPoolExecutor(MOST, thread_name_prefix="tapgnn", initializer=torch.set_num_threads, initargs=(1,))


def useful_threads() -> int:
    """How many are worth having on this machine: the default of the command line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(USEFUL, cores)
